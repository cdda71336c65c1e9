package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// What became of a key that was given up. Callers read these.
const (
	cancelUnused  = "unused"   // the key was never used, and never will be
	cancelNotMade = "not_made" // the upstream did nothing under it, and never will
	cancelUnknown = "unknown"  // it is not known yet
)

// askAgain is when a caller may ask again about what is not known.
const askAgain = time.Second

// Canceler gives keys up at their home: [*claim.Service] does.
type Canceler interface {
	Cancel(ctx context.Context, home string, req *claim.Request) (claim.Record, claim.Reply, error)
}

// Cancel gives the key of req up at its home, and answers with what became of it. What was sent is not
// called back: a claim in flight goes on to its end, and what was done stays done. It may be repeated, in
// any region. The errors are those of [claim.Service.Cancel].
func Cancel(ctx context.Context, claims Canceler, home string, req *claim.Request) (claim.Reply, error) {
	rec, reply, err := claims.Cancel(ctx, home, req)
	if err != nil {
		return reply, err
	}
	reply.Replayed = false
	outcome := cancelNotMade
	switch {
	case rec.Operation == claim.CancelKey:
		outcome = cancelUnused
	case rec.State == claim.InFlight:
		outcome = cancelUnknown
	case rec.State == claim.Completed:
		p := problem.New(problem.InvalidRequest, "The API behind this gateway has done the request of this key, which its retries read. Undo it there.")
		p.DeclineCode = "already_made"
		reply.Response = rendered(&p)
		return reply, nil
	case rec.Reason == claim.ReasonOutcomeUnknown:
		p := problem.New(problem.OutcomeUnknown, "Whether the API behind this gateway has done the request of this key never became known. Find out there.")
		p.Retry = problem.Never
		reply.Response = rendered(&p)
		return reply, nil
	}
	reply.Response = claim.Response{Status: http.StatusOK, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}}}
	if outcome == cancelUnknown {
		reply.Response.Status = http.StatusAccepted
		reply.Response.Header = append(reply.Response.Header, claim.HeaderField{Name: "Retry-After", Value: strconv.Itoa(int(askAgain / time.Second))})
	}
	reply.Response.Body, err = json.Marshal(struct {
		Object  string `json:"object"`
		Key     string `json:"idempotency_key"`
		Outcome string `json:"outcome"`
	}{"cancellation", rec.Key.Value, outcome})
	return reply, err
}
