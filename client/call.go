package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/span"
)

// call is one logical call: the same bytes under the same key in every attempt.
type call struct {
	method, path, key string
	// inPath: the path has the key, and no header.
	inPath bool
	body   []byte
	out    answer
	query  url.Values // of a list, which is at a path without an id
	// home is the key's home by the latest answer; it is sent back as a hint.
	home string
}

// answer is what an answer is decoded into. whole reports whether it has the member that tells it from other
// JSON.
type answer interface{ whole() bool }

// call retries c until it has a final answer, up to MaxAttempts.
func (cl *Client) call(ctx context.Context, c *call, params any) (_ Answer, err error) {
	ctx, sp := span.Start(ctx, c.method+" "+c.route())
	defer func() {
		if failed, ok := errors.AsType[*Error](err); ok {
			fault(sp, failed)
		}
		sp.End()
	}()
	if c.body, err = encode(params); err != nil {
		return Answer{}, fmt.Errorf("client: encode the request: %w", err)
	}
	base, open := int(cl.base.Load()), false
	unreached := 0  // regions in a row that refused the connection, or were silent
	silent := 0     // regions that were left for their silence
	var said *Error // the API's latest answer
	for n := 1; ; n++ {
		answer, failed := cl.attempt(ctx, c, n, cl.bases[base%len(cl.bases)], silent < len(cl.bases)-1)
		if failed != nil && failed.elsewhere() && !errors.Is(ctx.Err(), context.Canceled) {
			base++ // a caller who leaves says nothing about the region; one whose deadline passes does
		}
		cl.base.Store(uint32(base % len(cl.bases))) // however the call ends, the next one does not begin at a dead region
		if failed == nil {
			answer.Attempts = n
			return answer, nil
		}
		failed.Attempts, failed.IdempotencyKey = n, c.key
		// What is not the API's answer says nothing about what the API did, and a key in use may be about to
		// move money.
		open = open || failed.Code == "" || failed.Code == CodeKeyInUse || failed.Status >= http.StatusInternalServerError
		if open && c.key != "" && !failed.ofClaim() {
			failed.leaveOpen()
		}
		if failed.Code != "" {
			said = failed
		}
		if err := ctx.Err(); err != nil {
			return Answer{}, ended(err, said, failed)
		}
		if failed.final || failed.Retry != RetrySameKey || n == cl.c.MaxAttempts || failed.RetryAfter > maxServerWait {
			return Answer{}, failed
		}
		if failed.silent() {
			silent++
		}
		if unreached++; !failed.unsent() && !failed.silent() {
			unreached = 0
		}
		if unreached%len(cl.bases) != 0 {
			continue // the next region may listen; after a round of all there is a pause
		}
		if err := cl.c.Sleep(ctx, cl.pause(n, failed.RetryAfter)); err != nil {
			return Answer{}, ended(err, said, failed)
		}
	}
}

// ended is the error of a call whose context ended. An attempt without an answer has less
// information than said, the API's latest answer before it.
func ended(err error, said, last *Error) error {
	if said != nil && last.Status == 0 {
		last = said.since(last)
	}
	return fmt.Errorf("client: %w; last attempt: %w", err, last)
}

// attempt makes the nth request. With leave it ends with errSilent when the region is silent.
func (cl *Client) attempt(ctx context.Context, c *call, n int, base string, leave bool) (answer Answer, failed *Error) {
	ctx, cancel := context.WithTimeout(ctx, cl.c.Timeout)
	defer cancel()
	ctx, sp := span.Client(ctx, c.method)
	defer func() {
		c.traceAttempt(sp, n, base, &answer, failed)
		sp.End()
	}()
	if leave {
		var silent context.CancelCauseFunc
		ctx, silent = context.WithCancelCause(ctx)
		var listening sync.WaitGroup
		listening.Go(func() { cl.listen(ctx, base, silent) })
		defer func() {
			if failed != nil && failed.Status == 0 && errors.Is(context.Cause(ctx), errSilent) {
				failed.Err = errSilent
			}
			silent(nil)
			listening.Wait()
		}()
	}
	var body io.Reader
	if c.body != nil {
		body = bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, base+c.path, body)
	if err != nil {
		return Answer{}, &Error{Retry: RetryNever, Err: err}
	}
	req.URL.RawQuery = c.query.Encode()
	req.Header.Set("Authorization", "Bearer "+cl.c.APIKey)
	req.Header.Set("Accept", "application/json, application/problem+json")
	if c.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" && !c.inPath {
		// Quoted: the one spelling that every key has.
		req.Header.Set("Idempotency-Key", claim.FormatKey(c.key))
	}
	if c.home != "" {
		req.Header.Set("Homeward-Home-Region", c.home)
	}
	// W3C trace context is part of the API, whatever this program's propagator is.
	span.InjectW3C(ctx, req.Header)
	res, err := cl.c.HTTPClient.Do(req)
	if err != nil {
		return Answer{}, wireError(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return Answer{}, wireError(err)
	}
	if len(raw) > maxAnswer {
		return Answer{}, &Error{Status: res.StatusCode, Retry: RetryNever, Detail: fmt.Sprintf("the answer is longer than %d bytes", maxAnswer)}
	}
	if home := res.Header.Get("Homeward-Home-Region"); home != "" {
		c.home = home
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusAccepted {
		return Answer{}, refused(res, raw)
	}
	reflect.ValueOf(c.out).Elem().SetZero() // a proxy's JSON may have filled some members in an earlier attempt
	if err = json.Unmarshal(raw, c.out); err == nil && !c.out.whole() {
		err = errNotTheAPIs
	}
	if err != nil {
		// A proxy's page or JSON, or a truncated answer: the outcome is unknown.
		return Answer{}, &Error{Status: res.StatusCode, Retry: RetrySameKey, Detail: "the answer is not the expected JSON", Err: err}
	}
	answer = Answer{
		Raw: raw, IdempotencyKey: c.key,
		Replayed:   res.Header.Get("Idempotent-Replayed") == "true",
		HomeRegion: res.Header.Get("Homeward-Home-Region"), ServedBy: res.Header.Get("Homeward-Served-By"),
	}
	if at, err := time.Parse(time.RFC3339, res.Header.Get("Idempotency-Expires-At")); err == nil {
		answer.ExpiresAt = at
	}
	return answer, nil
}

// errNotTheAPIs: the answer is JSON, as a proxy's may be.
var errNotTheAPIs = errors.New("it lacks what each answer of the API has")

// errSilent: the region takes connections, or lets packets vanish, and answers nothing.
var errSilent = errors.New("the region is silent")

// listen asks the region whether it is there while an attempt has no answer, and calls silent once
// that has none in time. The answer to a payment may take as long as the provider does, so it tells nothing:
// a region that is slow keeps the attempt, and one that has been cut off does not hold it for Timeout.
func (cl *Client) listen(ctx context.Context, base string, silent context.CancelCauseFunc) {
	for wait := listenAfter; ; wait = listenEvery {
		if sleep(ctx, wait) != nil {
			return // the attempt has ended
		}
		asking, cancel := context.WithTimeout(ctx, listenTime)
		req, err := http.NewRequestWithContext(asking, http.MethodGet, base+"/livez", nil)
		if err != nil {
			cancel()
			return // the attempt says so, too
		}
		res, err := cl.c.HTTPClient.Do(req)
		if err == nil {
			_, _ = io.CopyN(io.Discard, res.Body, listenAnswer) // whoever answers, and whatever
			_ = res.Body.Close()
		}
		// A refusal is quick: a node that drains takes no connection, and finishes what it has begun.
		late := err != nil && asking.Err() != nil
		cancel()
		if late {
			silent(errSilent)
			return
		}
	}
}
