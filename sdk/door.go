package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// What happens to a request at a door. Any other word of a script is the name of an answer. The last
// word holds for all later requests, too.
const (
	pass        = "pass"         // to the real region, and its reply back
	loseRequest = "lose_request" // the connection breaks, and the request is lost
	loseReply   = "lose_reply"   // the connection breaks after the real region has replied
	cutReply    = "cut_reply"    // the connection breaks in the middle of its reply
	hang        = "hang"         // no answer, until the client ends it, nor to GET /livez
	closed      = "closed"       // connections are refused; the first word decides, for good
)

var fates = []string{pass, loseRequest, loseReply, cutReply, hang, closed}

// answer is a scripted one. JSON or Text is its body; a problem, if the status is 400 or more.
type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	JSON    json.RawMessage   `json:"json"`
	Text    string            `json:"text"`
}

// request is what arrived at a door.
type request struct {
	door               int
	method, path, body string
	header             http.Header
}

// log is what arrived at all doors, in order.
type log struct {
	mu  sync.Mutex
	own []request
}

func (l *log) add(q request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = append(l.own, q)
}

func (l *log) all() []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.own)
}

func (l *log) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = nil
}

// door is a region's address, as the client sees it.
type door struct {
	url     string
	n       int
	to      *url.URL // nil: it answers by script alone
	answers map[string]answer
	log     *log
	server  *http.Server
	stop    context.CancelFunc // of requests that hang
	ended   context.Context
	served  chan struct{}

	mu     sync.Mutex
	script []string
}

// listen listens at an address of this machine that nobody else is given: a door that was closed
// refuses connections, and at 127.0.0.1 its port may be somebody's before the next one comes. Not every
// system has more than that address.
func listen() (net.Listener, error) {
	own := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	if listener, err := net.Listen("tcp", own); err == nil {
		return listener, nil
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

func openDoor(n int, to *url.URL, answers map[string]answer, l *log) (*door, error) {
	listener, err := listen()
	if err != nil {
		return nil, err
	}
	d := &door{url: "http://" + listener.Addr().String(), n: n, to: to, answers: answers, log: l, served: make(chan struct{})}
	d.ended, d.stop = context.WithCancel(context.Background())
	d.server = &http.Server{Handler: d}
	// A connection that was used before may break while a request is sent on it. Clients differ in
	// what they repeat by themselves then, and in how often a door sees a request.
	d.server.SetKeepAlivesEnabled(false)
	go func() {
		defer close(d.served)
		_ = d.server.Serve(listener)
	}()
	return d, nil
}

// play begins a script.
func (d *door) play(script []string) {
	d.mu.Lock()
	d.script = slices.Clone(script)
	d.mu.Unlock()
	if len(script) > 0 && script[0] == closed {
		d.close()
	}
}

func (d *door) close() {
	d.stop()
	_ = d.server.Close()
	<-d.served
}

func (d *door) fate() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.script[0]
	if len(d.script) > 1 {
		d.script = d.script[1:]
	}
	return next
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet && r.URL.Path == "/livez" {
		// Clients ask beside a request when they like. It is no step of the script.
		if d.hangs() {
			d.hang(r)
		}
		return
	}
	d.log.add(request{d.n, r.Method, r.URL.RequestURI(), string(body), r.Header.Clone()})
	switch fate := d.fate(); fate {
	case loseRequest:
		panic(http.ErrAbortHandler)
	case hang:
		d.hang(r)
	case pass, loseReply, cutReply:
		d.forward(w, r, body, fate)
	default:
		a := d.answers[fate]
		kind := "text/html"
		if a.JSON != nil {
			kind = "application/json"
			if a.Status >= http.StatusBadRequest {
				kind = "application/problem+json"
			}
		}
		w.Header().Set("Content-Type", kind)
		for name, value := range a.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.Status)
		_, _ = w.Write(append(a.JSON, a.Text...))
	}
}

// hangs reports whether the next request would have no answer.
func (d *door) hangs() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.script[0] == hang
}

// hang keeps a request until its client or the scenario ends it.
func (d *door) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-d.ended.Done():
	}
	panic(http.ErrAbortHandler)
}

// forward sends a request to the real region, and does to its reply what fate says.
func (d *door) forward(w http.ResponseWriter, r *http.Request, body []byte, fate string) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, d.to.String()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if fate == loseReply || fate == cutReply {
		out = out.WithContext(d.ended) // the region executes it, whatever the client does
	}
	out.Header = r.Header.Clone()
	out.GetBody = nil
	res, err := direct.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = res.Body.Close() }()
	reply, err := io.ReadAll(res.Body)
	if err != nil || fate == loseReply {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), res.Header)
	w.Header().Set("Content-Length", fmt.Sprint(len(reply)))
	w.WriteHeader(res.StatusCode)
	if fate == cutReply {
		_, _ = w.Write(reply[:len(reply)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(reply)
}

// direct keeps no connection: nothing outlives a test.
var direct = &http.Transport{DisableKeepAlives: true}
