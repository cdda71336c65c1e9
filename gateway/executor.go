package gateway

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// replyBytes is the longest body of a reply that is kept. Nodes send each other 4 MiB at most, with
// all else that belongs to an answer.
const replyBytes = 3 << 20

// Reasons, for the audit.
const (
	reasonCannotRepeat = "cannot_repeat"      // an earlier attempt may have sent the request
	reasonNoAnswer     = "no_answer"          // the upstream did not answer, or not in time
	reasonBroken       = "reply_broken"       // the reply ended before it was whole
	reasonNotSent      = "not_sent"           // no byte of the request was sent
	reasonUnreadable   = "payload_unreadable" // the stored request cannot be opened; it was not sent
	reasonStatus       = "status_"            // and the upstream's status
	reasonRepeat       = "repeat_"            // and the status of an answer to a repeat, which does not prove that the first send did nothing
)

// kept are the headers of a reply that belong to it and not to one exchange: each retry gets them.
// Set-Cookie and Date never are among them.
var kept = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type",
	"Etag", "Last-Modified", "Link", "Location", "Retry-After", "Vary", "Www-Authenticate",
}

// dedupeFor is how long after a key's first use its request may be repeated: an hour less than an
// upstream has to remember it, for differences of clocks and for a request under way.
const dedupeFor = 23 * time.Hour

// Attempt implements claim.Executor. The first attempt of a generation sends the request, once. A
// recovery sends it again if the upstream recognises a repeat, and nothing otherwise: the earlier
// attempt may have sent it.
func (g *Gateway) Attempt(ctx context.Context, a claim.Attempt) claim.Outcome {
	if a.Recovery && (g.c.Dedupe == "" || g.operation() != a.Record.Operation || a.Now.Sub(a.Record.FirstUse) >= dedupeFor) {
		return unknown(reasonCannotRepeat)
	}
	ctx, cancel := context.WithTimeout(ctx, g.c.Timeout)
	defer cancel()
	r, err := g.unpack(ctx, &a)
	if err != nil {
		g.log.ErrorContext(ctx, "a request that is stored cannot be opened; nothing was sent to the upstream", "object", a.Record.Minted.ID, "error", err)
		if a.Recovery {
			return unknown(reasonUnreadable)
		}
		return g.released(reasonUnreadable)
	}
	resp, sent, err := g.send(r)
	if err != nil {
		g.log.WarnContext(ctx, "the upstream did not answer", "object", a.Record.Minted.ID, "sent", sent, "error", err)
		switch {
		case sent:
			return unknown(reasonNoAnswer)
		case a.Recovery:
			return &claim.Unsent{Reason: reasonNotSent}
		}
		return g.released(reasonNotSent)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 {
		return g.read(ctx, &a, resp, nil) // another protocol's: nothing ends such a body, not even ctx
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, replyBytes+1))
	if err == nil { // what is not kept is part of the reply all the same
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		g.log.WarnContext(ctx, "the upstream's reply is not whole", "object", a.Record.Minted.ID, "status", resp.StatusCode, "error", err)
		return unknown(reasonBroken)
	}
	return g.read(ctx, &a, resp, body)
}

// read is what a whole reply says.
func (g *Gateway) read(ctx context.Context, a *claim.Attempt, resp *http.Response, body []byte) claim.Outcome {
	reply := claim.Response{Status: resp.StatusCode, Body: body}
	drop := len(body) > replyBytes
	if drop {
		reply.Body = nil
		g.log.WarnContext(ctx, "the upstream's reply is too long to be kept; its callers get it without the body", "object", a.Record.Minted.ID, "status", resp.StatusCode)
	}
	for _, name := range kept {
		if values := resp.Header[name]; len(values) > 0 && !(drop && strings.HasPrefix(name, "Content-")) {
			reply.Header = append(reply.Header, claim.HeaderField{Name: name, Value: strings.Join(values, ", ")})
		}
	}
	reason := reasonStatus + strconv.Itoa(resp.StatusCode)
	switch status := resp.StatusCode; {
	case status < 200 || status >= 500 || slices.Contains(doubtful, status):
		return unknown(reason)
	case status < 400:
		return &claim.Done{Response: reply}
	case a.Recovery: // a token that has run out, a route that has gone, a repeat that is refused as one
		return unknown(reasonRepeat + strconv.Itoa(status))
	case slices.Contains(passing, status):
		return &claim.Released{Response: reply, Reason: reason}
	default:
		return &claim.Refused{Response: reply, Reason: reason}
	}
}

var (
	// passing are refusals that say nothing about the request itself: the caller may get them put
	// right and send it again. The upstream did nothing.
	passing = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}
	// doubtful do not say that the upstream did nothing: the request arrived in part, conflicts with
	// what may be itself under way, or may be replayed.
	doubtful = []int{http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly}
)

// released is the outcome of a request of which nothing was sent.
func (g *Gateway) released(reason string) claim.Outcome {
	p := problem.New(problem.Unreachable, "The API behind this gateway could not be reached. It got nothing of this request; send it again.")
	p.RetryAfter = g.c.RetryAfter
	return &claim.Released{Response: rendered(&p), Reason: reason}
}

// unknown is the outcome of a request that may have been sent. The gateway has nobody to ask, so it
// stays unknown until the claim ends, at claim.Policy.MaxUnknowns, which counts retries.
func unknown(reason string) claim.Outcome {
	p := problem.New(problem.OutcomeUnknown, "The request may have been sent, and whether the API behind this gateway has done it never became known. "+
		"It is not sent again. Find out there; only if it certainly was not done, send it with a new key.")
	p.Title, p.Retry = "The outcome stayed unknown", problem.Never
	return &claim.Unknown{Reason: reason, GiveUp: &claim.GivenUp{Response: rendered(&p)}}
}

func rendered(p *problem.Problem) claim.Response {
	return claim.Response{Status: p.Status, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: p.JSON(problem.Behind)}
}
