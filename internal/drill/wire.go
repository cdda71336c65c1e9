package drill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/homeward-io/homeward/client"
)

// maxAnswer is the longest body that is read, in bytes: answers to a drill have less
// than a kilobyte.
const maxAnswer = 1 << 20

// exchange is one request and its result.
type exchange struct {
	begun, ended time.Time
	// failure is "" for an answer, of whatever kind, and else the reason for a client's
	// retry: "timeout", "silence", "503 home_unavailable". An answer that a client cannot parse is
	// an answer all the same.
	failure        string
	entry          string // region
	home, servedBy string // as in the answer
	// answer is the hash of everything that every retry must repeat.
	answer [16]byte
	status int
	code   string // the API's name of the error
	object string // id of what was made, "" if it names none
}

// watch is the transport of one call of the client: it sees every request of it.
type watch struct {
	next    http.RoundTripper
	entries map[string]string        // the region of each host
	seen    func(n int, e *exchange) // n counts from 1
	n       int
	last    exchange
}

// RoundTrip sends a request and reads the whole answer. What the client asks beside one is none of the
// call's requests, and may be under way with it.
func (w *watch) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet && req.URL.Path == "/livez" {
		return w.next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	req.GetBody = nil // otherwise net/http would itself retry a cut connection, unseen
	w.n++
	w.last = exchange{begun: time.Now(), entry: w.entries[req.URL.Host]}
	res, err := w.next.RoundTrip(req)
	if err == nil {
		err = w.read(res)
	}
	w.last.ended = time.Now()
	if err != nil {
		w.last.failure = failureOf(req.Context(), err)
	}
	w.seen(w.n, &w.last)
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (w *watch) read(res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(raw))
	e := &w.last
	e.status, e.home, e.servedBy = res.StatusCode, res.Header.Get("Homeward-Home-Region"), res.Header.Get("Homeward-Served-By")
	e.answer = remembered(res, raw)
	var p struct{ ID, Error, Retry string }
	_ = json.Unmarshal(raw, &p) // a proxy's page has none of it
	e.object, e.code = p.ID, p.Error
	if !e.final(p.Retry) {
		e.failure = strings.TrimSpace(fmt.Sprintf("%d %s", e.status, p.Error))
	}
	return nil
}

// final reports whether a complete response answers the payment, so that every other
// must repeat it, and is not about its delivery. retry is its advice.
func (e *exchange) final(retry string) bool {
	switch {
	case e.status < http.StatusMultipleChoices:
		return true
	case e.status < http.StatusBadRequest:
		return false // a proxy redirects it
	case e.code == client.CodeCardDeclined:
		return true // the provider has decided, whatever may be retried
	case retry != "":
		return retry != "same_key"
	default: // a proxy's
		return e.status < http.StatusInternalServerError && e.status != http.StatusTooManyRequests && e.status != http.StatusRequestTimeout
	}
}

// remembered hashes what every retry must read again: status, Content-Type, Location
// and body. It includes lengths, so that no two answers hash the same bytes.
func remembered(res *http.Response, body []byte) [16]byte {
	h := sha256.New()
	contentType, location := res.Header.Get("Content-Type"), res.Header.Get("Location")
	_, _ = fmt.Fprintf(h, "%d %d %s %d %s ", res.StatusCode, len(contentType), contentType, len(location), location)
	_, _ = h.Write(body) // a hash never fails
	return [16]byte(h.Sum(nil)[:16])
}

func failureOf(ctx context.Context, err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "silence" // for which the client leaves a region
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	default:
		return "connection lost"
	}
}
