package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/seal"
)

// replyBytes is the longest body of a reply that is kept. Nodes send each other 4 MiB at most, with
// all else that belongs to an answer.
const replyBytes = 3 << 20

// Reasons, for the audit.
const (
	reasonCannotRepeat  = "cannot_repeat"      // an earlier attempt may have sent the request
	reasonNoAnswer      = "no_answer"          // the upstream did not answer, or not in time
	reasonBroken        = "reply_broken"       // the reply ended before it was whole
	reasonNotSent       = "not_sent"           // no byte of the request was sent
	reasonUnreadable    = "payload_unreadable" // the stored request cannot be opened; it was not sent
	reasonNoCredentials = "no_credentials"     // the service's are gone; nothing was sent
	reasonNoUpstream    = "no_upstream"        // the settings name none for the home; nothing was sent
	reasonStatus        = "status_"            // and the upstream's status
	reasonAsked         = "asked_"             // and the status of the look-up's answer, or why there is none
	reasonNotFound      = "not_found"          // the look-up found nothing
	reasonCanceled      = "key_canceled"       // the caller gave the key up before it was used, or while it was released
	reasonRepeat        = "repeat_"            // and the status of an answer to a repeat, which does not prove that the first send did nothing
)

// kept are the headers of a reply that belong to it and not to one exchange: each retry gets them.
// Set-Cookie and Date never are among them.
var kept = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type",
	"Etag", "Last-Modified", "Link", "Location", "Retry-After", "Vary", "Www-Authenticate",
}

// dedupeMargin is how much earlier than the upstream a gateway takes a key for forgotten there: for
// differences of clocks, and for a request under way.
const dedupeMargin = time.Hour

// Attempt implements claim.Executor. The first attempt of a generation sends the request, once. A
// recovery sends it again if the upstream recognises a repeat, asks if that is possible, and does
// nothing otherwise: the earlier attempt may have sent it.
func (g *Gateway) Attempt(ctx context.Context, a claim.Attempt) claim.Outcome {
	if a.Record.Operation == claim.CancelKey || a.Closing {
		return canceled()
	}
	if a.Record.Operation == shadow {
		return noted(a.Payload)
	}
	a.Recovery = a.Recovery && !a.Record.NeverBegun()
	with, r, body, err := g.open(ctx, &a)
	if err != nil {
		g.log.ErrorContext(ctx, "a request that is stored cannot be opened; nothing was sent to the upstream", "object", a.Record.Minted.ID, "error", err)
		switch {
		case a.Recovery && errors.Is(err, seal.ErrNoAnswer): // the KMS will answer again, and the upstream was not called
			return &claim.Unsent{Reason: reasonUnreadable}
		case a.Recovery:
			return unknown(reasonUnreadable)
		}
		return g.released(reasonUnreadable)
	}
	if g.upstreamOf(a.Record.Home) == nil {
		g.log.ErrorContext(ctx, "the settings name no upstream for the home of a key; nothing was sent; add it to gateway.upstreams", "object", a.Record.Minted.ID, "home", a.Record.Home)
		if a.Recovery {
			return &claim.Unsent{Reason: reasonNoUpstream}
		}
		return g.released(reasonNoUpstream)
	}
	ctx, cancel := context.WithTimeout(ctx, or(with.Timeout, DefaultTimeout))
	defer cancel()
	c := try{g: g, Attempt: &a, with: &with}
	if !a.Recovery {
		if with.Partial { // whoever begins a generation has the whole
			return g.released(reasonUnreadable)
		}
		return c.send(ctx, g.aimed(ctx, r, a.Record.Home), body)
	}
	repeats := c.repeats()
	if !repeats && (with.Ask == "" || with.Recovery == none) {
		return unknown(reasonCannotRepeat)
	}
	if with.Service {
		if g.serviceName == "" { // an upstream may hide from strangers what it has
			g.log.ErrorContext(ctx, "a recovery uses the service's credentials, and there are none; set HOMEWARD_GATEWAY_CREDENTIALS", "object", a.Record.Minted.ID)
			return &claim.Unsent{Reason: reasonNoCredentials}
		}
		for _, name := range credentials {
			r.Header.Del(name)
		}
		r.Header.Set(g.serviceName, g.serviceValue)
	}
	out := g.aimed(ctx, r, a.Record.Home)
	if repeats {
		return c.send(ctx, out, body)
	}
	return c.ask(ctx, out)
}

// try is one attempt of a stored request.
type try struct {
	*claim.Attempt
	g    *Gateway
	with *sending
}

// repeats reports whether the upstream recognises the request if it gets it again, under what it was
// sent with before.
func (c *try) repeats() bool {
	return !c.with.Partial && c.with.Recovery == recoverRepeat && c.with.Dedupe != "" && c.with.Dedupe == dedupeOf(c.Record.Operation) &&
		c.Now.Sub(c.Record.FirstUse) < c.with.DedupeFor-dedupeMargin
}

// send sends the request, and reads the reply.
func (c *try) send(ctx context.Context, out *http.Request, body []byte) claim.Outcome {
	switch name := dedupeOf(c.Record.Operation); name {
	case "":
	case keyHeader:
		out.Header.Set(name, or(c.with.Key, c.Record.Key.Value))
	default:
		out.Header.Set(name, c.Record.ProviderKey)
	}
	out.Body, out.GetBody, out.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
		hide(out.Header)
	}
	reply, why, sent := c.exchange(ctx, out)
	switch {
	case reply != nil:
		return c.read(ctx, reply)
	case sent:
		return unknown(why)
	case c.Recovery:
		return &claim.Unsent{Reason: why}
	}
	return c.g.released(why)
}

// exchange sends out once. Without a whole reply it says why; sent is false if certainly no byte of out
// was sent.
func (c *try) exchange(ctx context.Context, out *http.Request) (reply *answer, why string, sent bool) {
	resp, sent, err := c.g.send(out)
	if err != nil {
		c.g.log.WarnContext(ctx, "the upstream did not answer", "object", c.Record.Minted.ID, "sent", sent, "error", err)
		if sent {
			return nil, reasonNoAnswer, true
		}
		return nil, reasonNotSent, false
	}
	defer func() { _ = resp.Body.Close() }()
	reply = &answer{status: resp.StatusCode, header: resp.Header}
	if resp.StatusCode < 200 {
		return reply, "", true // another protocol's: nothing ends such a body, not even ctx
	}
	if reply.body, err = io.ReadAll(io.LimitReader(resp.Body, replyBytes+1)); err == nil { // what is not kept is part of the reply all the same
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		c.g.log.WarnContext(ctx, "the upstream's reply is not whole", "object", c.Record.Minted.ID, "status", resp.StatusCode, "error", err)
		return nil, reasonBroken, true
	}
	return reply, "", true
}

// response is a reply as every retry gets it.
func (c *try) response(ctx context.Context, a *answer) claim.Response {
	reply := claim.Response{Status: a.status, Body: a.body, ReplayFor: c.with.ReplayFor}
	drop := len(a.body) > replyBytes
	if drop {
		reply.Body = nil
		c.g.log.WarnContext(ctx, "the upstream's reply is too long to be kept; its callers get it without the body", "object", c.Record.Minted.ID, "status", a.status)
	}
	for _, name := range keptWith(c.with.Keep) {
		if drop && strings.HasPrefix(name, "Content-") {
			continue
		}
		for _, value := range a.header[name] {
			reply.Header = append(reply.Header, claim.HeaderField{Name: name, Value: value})
		}
	}
	return reply
}

// keptWith are the headers that are kept, with more.
func keptWith(more []string) []string {
	if len(more) == 0 {
		return kept
	}
	all := slices.Clone(kept)
	for _, name := range more {
		all = append(all, http.CanonicalHeaderKey(name))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// read is what a whole reply to the request says. A refusal of a repeat may be of the repeat alone: a
// token that has run out, a route that has gone.
func (c *try) read(ctx context.Context, a *answer) claim.Outcome {
	outcome, repeat := meaning(a, c.with.Replies, profiles[c.with.Profile].Replies, replies)
	reason := reasonStatus + strconv.Itoa(a.status)
	if c.Recovery && !repeat && outcome != unclear {
		return unknown(reasonRepeat + strconv.Itoa(a.status))
	}
	switch {
	case a.status < 200: // no reply at all
		return unknown(reason)
	case outcome == done:
		return &claim.Done{Response: c.response(ctx, a)}
	case outcome == refused:
		return &claim.Refused{Response: c.response(ctx, a), Reason: reason}
	case outcome == released:
		return &claim.Released{Response: c.response(ctx, a), Reason: reason}
	}
	return unknown(reason)
}

// ask asks the upstream what became of the request.
func (c *try) ask(ctx context.Context, about *http.Request) claim.Outcome {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream"+c.with.Ask, nil)
	if err != nil {
		return unknown(reasonUnreadable)
	}
	for name, values := range about.Header {
		if !ofTheRequest(name) && name != dedupeOf(c.Record.Operation) {
			r.Header[name] = slices.Clone(values)
		}
	}
	r.Header.Set("Accept-Encoding", "identity") // rules read no other coding than gzip and deflate
	r.Header.Set("Cache-Control", "no-cache")   // an older answer may not have it yet
	a, why, _ := c.exchange(ctx, c.g.aimed(ctx, r, c.Record.Home))
	if a == nil {
		return unknown(reasonAsked + why)
	}
	outcome, _ := meaning(a, c.with.AskReplies)
	reason := reasonAsked + strconv.Itoa(a.status)
	switch outcome {
	case done:
		return &claim.Done{Response: c.found(ctx, a)}
	case refused:
		return &claim.Refused{Response: c.found(ctx, a), Reason: reason}
	case released:
		if c.with.SureAfter <= 0 {
			return unknown(reasonNotFound)
		}
		if c.Record.NotFounds == 0 { // it may still be on its way there
			u := unknown(reasonNotFound).(*claim.Unknown)
			u.NotFound, u.RetryIn = true, c.with.SureAfter
			return u
		}
		return c.g.notDone()
	}
	return unknown(reason)
}

// ofTheRequest reports whether a header is about one request, and would make a look-up with it another
// question: a part of the answer, an answer on a condition, another method or target. All others go along.
// Without one that says who asks, or for whom, the upstream might not find what is there.
func ofTheRequest(name string) bool {
	return strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "If-") || slices.Contains([]string{
		"Accept-Encoding", "Cache-Control", "Digest", "Pragma", "Prefer", "Range", keyHeader, "X-" + keyHeader,
		"X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Rewrite-Url",
	}, name)
}

// released is the outcome of a request of which nothing was sent.
func (g *Gateway) released(reason string) claim.Outcome {
	p := problem.New(problem.Unreachable, "The API behind this gateway could not be reached. It got nothing of this request; send it again.")
	p.RetryAfter = g.c.RetryAfter
	return &claim.Released{Response: rendered(&p), Reason: reason}
}

// found is the reply to a request that a look-up has found: the look-up's answer if the route says that
// it is one, and where it is otherwise (RFC 9110, section 15.4.4).
func (c *try) found(ctx context.Context, a *answer) claim.Response {
	if c.with.Answers {
		return c.response(ctx, a)
	}
	return claim.Response{Status: http.StatusSeeOther, Header: []claim.HeaderField{{Name: "Location", Value: c.with.Ask}}, ReplayFor: c.with.ReplayFor}
}

// notDone is the outcome of a request that the upstream, asked, does not know.
func (g *Gateway) notDone() claim.Outcome {
	p := problem.New(problem.Unreachable, "The API behind this gateway does not know this request, and has done nothing. Send it again.")
	p.Title, p.RetryAfter = "The upstream did not do the request", g.c.RetryAfter
	return &claim.Released{Response: rendered(&p), Reason: reasonNotFound}
}

// canceled is the outcome of a key that was given up before anything may have been done under it.
func canceled() claim.Outcome {
	p := problem.New(problem.KeyCanceled, "This key was canceled. The API behind this gateway has done nothing under it.")
	return &claim.Refused{Response: rendered(&p), Reason: reasonCanceled}
}

// unknown is the outcome of a request that may have been sent. It stays unknown until an attempt learns
// more, or until the claim ends, at claim.Policy.MaxUnknowns, which counts attempts.
func unknown(reason string) claim.Outcome {
	p := problem.New(problem.OutcomeUnknown, "The request may have been sent, and whether the API behind this gateway has done it never became known. "+
		"It is not sent again. Find out there; only if it certainly was not done, send it with a new key.")
	p.Title, p.Retry = "The outcome stayed unknown", problem.Never
	return &claim.Unknown{Reason: reason, GiveUp: &claim.GivenUp{Response: rendered(&p)}}
}

func rendered(p *problem.Problem) claim.Response {
	return claim.Response{Status: p.Status, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: p.JSON(problem.Behind)}
}
