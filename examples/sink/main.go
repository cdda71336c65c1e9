// Command sink receives the events of a merchant: it verifies each signature, processes
// each id once, and acknowledges an event only once the event is on disk.
//
//	WEBHOOK_SECRET=whsec_… go run ./examples/sink --listen 127.0.0.1:9000 &
//	homeward endpoint set acme http://127.0.0.1:9000/ --allow-http --node …
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sink:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sink", flag.ContinueOnError)
	flags.SetOutput(out)
	listen := flags.String("listen", "127.0.0.1:9000", "where to receive, `host:port`")
	path := flags.String("events", "events.jsonl", "the `file` with the received events")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := open(*path, os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return errors.Join(err, s.file.Close())
	}
	fmt.Fprintln(out, "receiving at http://"+l.Addr().String())
	server := &http.Server{Handler: s, ReadTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err = server.Shutdown(ending); err == nil {
		if err = <-served; errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	return errors.Join(err, s.file.Close())
}

// sink keeps each event once.
type sink struct {
	webhook *standardwebhooks.Webhook

	mu   sync.Mutex
	file *os.File
	seen map[string]bool // ids
}

// open opens the file and reads the ids of its events.
func open(path, secret string) (*sink, error) {
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil || !strings.HasPrefix(secret, "whsec_") {
		return nil, errors.New("WEBHOOK_SECRET is not one that homeward endpoint set has printed; homeward endpoint secret TENANT makes a new one")
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	s := &sink{webhook: webhook, file: f, seen: map[string]bool{}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil { // half a line is an event that was not acknowledged
			s.seen[e.ID] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// event is the part of an event that this program reads.
type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// maxEvent bounds the bytes of an event, far above any.
const maxEvent = 1 << 20

// ServeHTTP answers 204 once the event is stored. After any other answer Homeward sends it again.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.webhook.Verify(body, r.Header); err != nil { // the age of the signature, too
		http.Error(w, "the signature is not valid", http.StatusUnauthorized)
		return
	}
	if err := s.keep(body); err != nil {
		http.Error(w, "the event could not be stored; send it again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// keep writes an event to the file, unless the file has it: an event may arrive more than once.
func (s *sink) keep(body []byte) error {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[e.ID] {
		return nil
	}
	if _, err := s.file.Write(append([]byte("\n"), append(body, '\n')...)); err != nil { // behind half a line, if there is one
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.seen[e.ID] = true
	return nil
}
