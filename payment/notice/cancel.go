package notice

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
)

// Canceler gives up keys, and gives back what was paid under them. It holds no state and is safe for
// concurrent use, in any number of regions at once.
//
// # Crash points
//
//	mark the claim, or begin one | its end: an attempt, its settlement | refund | answer
//
//	before the mark is durable  nothing has happened
//	after it                    the claim's holder or its worker ends it under the mark, as at any
//	                            crash point of package claim; if money moved, the step that ends it
//	                            books a ghost and enqueues its refund, see [Processor.Refund] and
//	                            [Compensator]
//	before the refund of a      the claim was final before: nothing has happened, and the merchant
//	charge that was answered    has no answer
//	after it was begun          it is a claim like any other, under a key that derives from the
//	                            charge: its worker goes on, and the next cancellation finds it
//	after all of these          the next cancellation reads what became of it
type Canceler struct {
	// Claims are those that this node can reach; claim.Service is.
	Claims interface {
		Cancel(ctx context.Context, home string, req *claim.Request) (claim.Record, claim.Reply, error)
	}
	// Compensator has the books, and refunds what nobody was answered. Its Do and Inspect run and
	// read the refunds of charges that were answered, too.
	Compensator *Compensator
	// Left is what of a charge is left to refund; payment.Present.Left is.
	Left func(ctx context.Context, tenant, charge, but string) (left int64, open string, found bool, err error)
	// ErrorPages is the base URL of the types of problems.
	ErrorPages problem.Pages
}

// What a cancellation came to. Merchants read these.
const (
	CancelUnused        = "unused"         // the key was never used, and never will be
	CancelNotMade       = "not_made"       // no money moved
	CancelRefunded      = "refunded"       // the provider has the refund, or nothing was left to refund
	CancelRefundPending = "refund_pending" // it is not certain yet that the provider has the refund, or another one of the merchant's
	CancelUnknown       = "unknown"        // it is not known yet whether money moved
)

// The codes of a key that is not canceled.
const (
	codeAlreadyMade   = "already_made"
	codeNotRefundable = "not_refundable"
)

const (
	// askAgain is when a merchant may ask again about what is not over.
	askAgain = time.Second
	// cancelRefunds bounds the refunds of one charge by its cancellation: there is another only if the
	// one before was refused and less is left to refund since, or if one was made and has failed.
	cancelRefunds = 3
	// cancelPath is the path in the fingerprint of such a refund: no request can have it.
	cancelPath = "cancellations"
)

// cancellation is the answer to a merchant who gave a key up.
type cancellation struct {
	Object  string `json:"object"`
	Key     string `json:"idempotency_key"`
	Outcome string `json:"outcome"`
	Charge  string `json:"charge,omitempty"`
	Refund  string `json:"refund,omitempty"`
}

// Cancel gives the key of req up at its home, as claim.Service.Cancel does, refunds a charge that was
// made under it, and answers with what became of the key. It may be repeated, in any region: the answer
// is made of what is stored, and changes only as that goes on.
func (c *Canceler) Cancel(ctx context.Context, home string, req *claim.Request) (claim.Reply, error) {
	rec, reply, err := c.Claims.Cancel(ctx, home, req)
	if err != nil {
		return reply, err
	}
	reply.Replayed = false
	is := cancellation{Object: "cancellation", Key: rec.Key.Value}
	if rec.Operation == string(payment.Charge) {
		is.Charge = rec.Minted.ID
	}
	var refused *problem.Problem
	if is.Outcome, is.Refund, refused, err = c.became(ctx, &rec); err != nil {
		return reply, err
	}
	if refused != nil {
		reply.Response = claim.Response{
			Status: refused.Status, Header: []claim.HeaderField{{Name: "Content-Type", Value: problem.ContentType}}, Body: refused.JSON(c.ErrorPages),
		}
		return reply, nil
	}
	reply.Response = claim.Response{Status: http.StatusOK, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}}}
	if is.Outcome == CancelRefundPending || is.Outcome == CancelUnknown {
		reply.Response.Status = http.StatusAccepted
		reply.Response.Header = append(reply.Response.Header, claim.HeaderField{Name: "Retry-After", Value: strconv.Itoa(int(askAgain / time.Second))})
	}
	reply.Response.Body, err = json.Marshal(is)
	return reply, err
}

// became is what became of the claim of a key that was given up.
func (c *Canceler) became(ctx context.Context, rec *claim.Record) (outcome, refund string, refused *problem.Problem, err error) {
	charge := rec.Operation == string(payment.Charge)
	switch {
	case rec.Operation == claim.CancelKey:
		return CancelUnused, "", nil, nil
	case rec.State == claim.InFlight:
		return CancelUnknown, "", nil, nil
	case rec.State == claim.Completed && charge:
		return c.refund(ctx, rec)
	case rec.State == claim.Completed:
		return "", "", c.refuse(codeAlreadyMade, alreadyMade(rec)), nil
	case !charge && rec.Reason == claim.ReasonOutcomeUnknown:
		return "", "", c.unknown(rec.Minted.ID, payment.Operation(rec.Operation)), nil
	case !charge:
		return CancelNotMade, "", nil, nil
	}
	about, err := c.Compensator.Books.About(ctx, rec.Home, rec.Minted.ID)
	if err != nil {
		return "", "", nil, fmt.Errorf("cancel: the books cannot be read: %w", err)
	}
	for i := range about {
		t := &about[i]
		if t.Kind != ledger.Ghost || t.Tenant != rec.Key.Tenant {
			continue
		}
		// An earlier generation may have another one.
		if outcome, refund, err = c.compensated(ctx, t); err != nil || outcome != CancelRefunded {
			return outcome, refund, nil, err
		}
	}
	if outcome != "" {
		return outcome, refund, nil, nil
	}
	if rec.Reason == claim.ReasonOutcomeUnknown {
		return CancelUnknown, "", nil, nil
	}
	return CancelNotMade, "", nil, nil
}

// alreadyMade says what a person has to do about money that has left.
func alreadyMade(rec *claim.Record) string {
	switch op := payment.Operation(rec.Operation); op {
	case payment.Transfer:
		return "The transfer " + rec.Minted.ID + " has been made, and cannot be called back. Ask its recipient, or the provider, to return it."
	case payment.Refund:
		return "The refund " + rec.Minted.ID + " has been made: the payer has the money. To be paid, make another charge."
	case payment.Capture:
		return "The money was captured. Refund the charge that it names; cancel the key of the charge to refund all of it."
	default:
		return "The charge was canceled by this request, and cannot be brought back. Make another one."
	}
}

// unknown says what a person has to do about a movement of that id that may have been made.
func (c *Canceler) unknown(id string, op payment.Operation) *problem.Problem {
	return c.refuse(claim.ReasonOutcomeUnknown, "It stayed unknown whether this "+payment.Object(op)+" was made, and it cannot be called back. A person has to find out at the provider, by its id "+id+".")
}

func (c *Canceler) refuse(code, detail string) *problem.Problem {
	p := problem.New(problem.InvalidRequest, detail)
	p.DeclineCode = code
	return &p
}

// compensated has a ghost refunded, as the worker of its row does.
func (c *Canceler) compensated(ctx context.Context, ghost *ledger.Transaction) (outcome, refund string, err error) {
	progress, _, err := c.Compensator.Compensate(ctx, Ghost{
		Tenant: ghost.Tenant, Object: ghost.Object, Home: ghost.Region, Provider: ghost.Provider, ProviderRef: ghost.ProviderRef,
		Amount: ghost.Amount, Currency: ghost.Currency, Reason: payment.ReasonKeyCanceled,
	})
	if err != nil {
		return "", "", err
	}
	outcome = CancelRefundPending
	if progress == Compensated {
		outcome = CancelRefunded
	}
	back, err := c.Compensator.Books.ReversalsAt(ctx, ghost.Region, ghost.ID)
	if err != nil {
		return "", "", fmt.Errorf("cancel: the books cannot be read: %w", err)
	}
	for i := range back {
		if back[i].Kind == ledger.GhostRefund {
			refund = back[i].Object
		}
	}
	return outcome, refund, nil
}

// refund refunds what is left of a charge that was answered as made: what has not gone back, and is not
// on its way. The refund is a merchant's own: it is made once, and no brake of automatic refunds holds it.
func (c *Canceler) refund(ctx context.Context, rec *claim.Record) (outcome, refund string, refused *problem.Problem, err error) {
	left, open, err := c.left(ctx, rec)
	if err != nil {
		return "", "", nil, err
	}
	for n := 1; n <= cancelRefunds; n++ {
		req, err := c.request(rec, left, n)
		if err != nil {
			return "", "", nil, err
		}
		status, begun, err := c.Compensator.Inspect(ctx, req.Key, rec.Home)
		begun = begun && status.Age != claim.Gone
		switch {
		case err != nil:
			return "", "", nil, fmt.Errorf("cancel: the claim of the refund cannot be read: %w", err)
		case begun && status.Record.State == claim.Completed:
			// It is booked by now, and so is its failure if it has failed since. Then another one follows.
			refund = status.Record.Minted.ID
			if left, open, err = c.left(ctx, rec); err != nil {
				return "", "", nil, err
			}
			continue
		case begun && status.Record.State == claim.InFlight:
			return CancelRefundPending, status.Record.Minted.ID, nil, nil
		case left <= 0 && !begun:
			outcome, refund = nothingLeft(refund, open)
			return outcome, refund, nil, nil
		case left <= 0: // it was refused, and another one may follow
			continue
		case begun && status.Record.Reason == claim.ReasonOutcomeUnknown:
			return "", "", c.unknown(status.Record.Minted.ID, payment.Refund), nil
		}
		reply, err := c.Compensator.Do(ctx, req, rec.Home)
		var unknown *claim.UnknownError
		var busy *claim.InUseError
		switch {
		case errors.Is(err, claim.ErrMismatch):
			continue // it was refused, and less is left since
		case errors.As(err, &unknown), errors.As(err, &busy):
			status, _, err = c.Compensator.Inspect(ctx, req.Key, rec.Home)
			return CancelRefundPending, status.Record.Minted.ID, nil, err
		case err != nil:
			return "", "", nil, fmt.Errorf("cancel: the refund cannot be run: %w", err)
		case reply.State == claim.Completed:
			outcome, refund = nothingLeft(objectOf(&reply.Response), open)
			return outcome, refund, nil, nil
		case reply.State == claim.InFlight:
			return CancelRefundPending, objectOf(&reply.Response), nil, nil
		case reply.State == claim.FailedRetry && reply.Response.Status >= http.StatusInternalServerError:
			return "", "", nil, fmt.Errorf("%w: the refund of the charge %s was not sent: %s", claim.ErrUnavailable, rec.Minted.ID, reason(&reply.Response))
		}
		// Another refund of the charge may have begun, or been made, since the last reading.
		was := left
		if left, open, err = c.left(ctx, rec); err != nil {
			return "", "", nil, err
		}
		switch {
		case open != "":
			return CancelRefundPending, open, nil, nil
		case left == was:
			return "", "", c.refuse(codeNotRefundable, "The charge "+rec.Minted.ID+" was made, and its refund was refused: "+reason(&reply.Response)), nil
		}
	}
	if left <= 0 {
		outcome, refund = nothingLeft(refund, open)
		return outcome, refund, nil, nil
	}
	return "", "", c.refuse(codeNotRefundable, "The charge "+rec.Minted.ID+" was made, and its refund was refused, or has failed, again and again. Refund what is left of it by its id."), nil
}

// nothingLeft is the answer about a charge of which nothing is left to refund, behind a refund by its
// cancellation. One of the merchant's own in flight may be refused yet: then the next cancellation
// refunds the rest.
func nothingLeft(refund, open string) (outcome, id string) {
	if open == "" {
		return CancelRefunded, refund
	}
	return CancelRefundPending, open
}

// left is what is left to refund of a charge that was answered as made, and a refund of it in flight.
func (c *Canceler) left(ctx context.Context, rec *claim.Record) (left int64, open string, err error) {
	left, open, found, err := c.Left(ctx, rec.Key.Tenant, rec.Minted.ID, "")
	if err == nil && !found {
		err = fmt.Errorf("%w: the charge is not booked", claim.ErrUnavailable)
	}
	if err != nil {
		return 0, "", fmt.Errorf("cancel: what is left of %s cannot be read: %w", rec.Minted.ID, err)
	}
	return left, open, nil
}

// request is the n-th refund of a charge by its cancellation. It has the same key whoever asks.
func (c *Canceler) request(rec *claim.Record, amount int64, n int) (req claim.Request, err error) {
	code, ok := c.Compensator.Code(rec.Home)
	if !ok {
		return req, fmt.Errorf("cancel: there is no region %q", rec.Home)
	}
	seed := sha256.Sum256(fmt.Appendf(nil, "homeward/cancel/v1\x00%s\x00%d", rec.Minted.ID, n))
	stamped, err := claim.Stamp(code, bytes.NewReader(seed[:]))
	if err != nil {
		return req, err
	}
	body := fmt.Appendf(nil, `{"amount":%d,"charge":%q,"reason":%q}`, amount, rec.Minted.ID, payment.ReasonKeyCanceled)
	return claim.Request{
		Key: claim.Key{Tenant: rec.Key.Tenant, Value: claim.OwnKey(stamped)}, Operation: string(payment.Refund), Stamp: code,
		Reverses: rec.Minted.ID,
		Input: claim.FingerprintInput{
			Method: http.MethodPost, Path: cancelPath, Tenant: rec.Key.Tenant, ContentType: "application/json", Canonical: body,
		},
	}, nil
}

// objectOf is the id of the object in an answer.
func objectOf(r *claim.Response) string {
	var o struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(r.Body, &o) // a refund's answer has one
	return o.ID
}
