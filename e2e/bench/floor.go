package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// simulatorRole is the provider, in memory.
func simulatorRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("simulator", flag.ContinueOnError)
	latency := f.Duration("latency", 0, "how long each call takes")
	if err := f.Parse(args); err != nil {
		return err
	}
	sim, err := simulator.Open(simulator.Config{Latency: *latency})
	if err != nil {
		return err
	}
	return errors.Join(serveHTTP(ctx, sim.NewServer(""), in, out), sim.Close())
}

// serveHTTP serves s on a free port as a child.
func serveHTTP(ctx context.Context, s *http.Server, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	err = serveChild(ctx, []string{l.Addr().String()}, in, out)
	err = errors.Join(err, s.Close())
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// provider is the adapter that both sides call the simulator with.
func provider(url string) (*httpjson.Provider, error) {
	return httpjson.New(httpjson.Config{
		Name: "simulator", BaseURL: "http://" + url,
		Capabilities: psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true},
		Notices:      httpjson.Notices{Secret: noticeSecret},
	})
}

// floorStore opens Pebble with the sizes that internal/embedded uses.
func floorStore(dir string) (*pebble.DB, error) {
	cache := pebble.NewCache(88 << 20)
	defer cache.Unref()
	o := &pebble.Options{
		Cache: cache, MemTableSize: 16 << 20, MemTableStopWritesThreshold: 3, MaxOpenFiles: 512,
		L0CompactionThreshold: 12, L0StopWritesThreshold: 48, LBaseMaxBytes: 24 << 20,
		BytesPerSync: 1 << 20, WALBytesPerSync: 1 << 20,
		CompactionConcurrencyRange: func() (int, int) { return 1, 2 },
		FormatMajorVersion:         pebble.FormatNewest, Logger: quietLogger{},
	}
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].BlockSize = 8 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return pebble.Open(dir, o)
}

// quietLogger keeps Pebble's news off the terminal, but not its failures.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)              {}
func (quietLogger) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (quietLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// floorRole is the floor of new charges: the body read whole, two synced commits
// of it, and one provider call between them.
func floorRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("floor", flag.ContinueOnError)
	dir := f.String("dir", "", "store directory")
	url := f.String("psp", "", "address of the simulator")
	if err := f.Parse(args); err != nil {
		return err
	}
	db, err := floorStore(*dir)
	if err != nil {
		return err
	}
	p, err := provider(*url)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key := r.Header.Get("Idempotency-Key")
		if err := db.Set([]byte("before/"+key), body, pebble.Sync); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		res := p.Charge(r.Context(), psp.Call{
			Key: key, Reference: "ch_" + key, Amount: bodyAmount, Currency: bodyCurrency, Source: bodySource,
		})
		if res.Outcome != psp.Approved {
			http.Error(w, fmt.Sprint(res.Err), http.StatusBadGateway)
			return
		}
		if err := db.Set([]byte("after/"+key), body, pebble.Sync); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, body, false)
	})
	return errors.Join(serveHTTP(ctx, &http.Server{Handler: mux}, in, out), p.Close(), db.Close())
}

// readerRole is the floor of replays: one Pebble key read. A key that it does
// not have is written, so that the same generator can fill it.
func readerRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("reader", flag.ContinueOnError)
	dir := f.String("dir", "", "store directory")
	if err := f.Parse(args); err != nil {
		return err
	}
	db, err := floorStore(*dir)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key := []byte(r.Header.Get("Idempotency-Key"))
		stored, closer, err := db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			body = append(body, body...) // about as long as a charge's object
			if err := db.Set(key, body, pebble.Sync); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer(w, body, false)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer(w, stored, true)
		_ = closer.Close() // it only releases a cached block
	})
	return errors.Join(serveHTTP(ctx, &http.Server{Handler: mux}, in, out), db.Close())
}

// answer says yes, in the least number of headers.
func answer(w http.ResponseWriter, body []byte, replayed bool) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if replayed {
		h[replayedHeader] = []string{"true"}
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body) // a client that is gone counts the error itself
}
