package notice

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
)

// Ghost is money that moved at a provider for an object that was refused, expired or
// given up, or a second time for one that was paid.
type Ghost struct {
	Tenant string
	// Object is the charge's id, Home the region that it names.
	Object, Home string
	// Provider and ProviderRef name the movement.
	Provider, ProviderRef string
	// Amount is in minor units of Currency.
	Amount   int64
	Currency string
	// Reason is why no merchant is owed it, for logs: "late_success",
	// "second_movement", "refund_failed" if a refund of it has failed, or
	// [payment.ReasonKeyCanceled], of which no limit counts the refund.
	Reason string
	// failed counts the refunds of it that were booked and have failed since.
	failed int
	// disputed is as the provider shows it, see [psp.Movement].
	disputed int64
}

// Progress is the progress of a compensation.
type Progress uint8

// The steps of progress.
const (
	// Pending: the refund is not certain yet. Try again.
	Pending Progress = iota
	// Compensated: the money is on its way back, and booked.
	Compensated
	// Limbo: the provider refuses the refund for good. An operator must decide; the
	// suspense account shows the debt.
	Limbo
	// Held: automatic refunds are held, see [Brakes]. The compensation continues after
	// the release.
	Held
	// Doubtful: the provider does not show the movement to refund, so it is not
	// refunded. An operator must look; nothing is booked.
	Doubtful
)

func (p Progress) String() string {
	return [...]string{"pending", "compensated", "LIMBO", "held", "doubtful"}[p]
}

// Compensator refunds ghosts, each once. It holds no state and is safe for concurrent use, in
// any number of regions at once.
//
// # Crash points
//
//	ask the provider | book the ghost | look for the claim | count it | begin the claim |
//	call the provider | settle | whatever follows
//
// A compensation is a claim of its own. Its key derives from the provider, its
// reference and how many refunds of it have failed, and no merchant can send that key:
// see [claim.OwnKey]. So a retry after a crash repeats every step, and:
//
//	before the booking      nothing has happened; the retry asks the provider
//	after it                Post finds the same transaction; suspense shows a debt; a
//	                        dispute of the ghost can be booked
//	after the count         see [Brakes]; a try that finds the claim counts nothing
//	after Begin             the refund's intent is stored; the next try finds the
//	                        claim, and so does the outbox worker when its lease ends
//	during the call, or     the provider is asked, or called under the same provider
//	before Settle           key, as for every claim
//	after Settle            the refund is booked: the next try reads that first, for
//	                        claims are forgotten after two days and the books never
//
// A refund that was refused for now, and could not be retried within a day, as while
// refunds are held, waits until its key is free again. Under another key it would be
// begun a second time beside the first.
//
// # Disputed ghosts
//
// The provider may report a dispute of a ghost before the ghost itself. Then nothing is booked that
// the dispute could be about, and its notice waits. So each try asks the provider, which knows of the
// dispute from its opening. While it shows one, and the books have none, the try ends after the
// booking of the ghost: the dispute's notice finds that, and the payer, who has the money by the
// dispute, gets no refund. Nodes that handle both notices at once end the same, as each reads the
// books, and asks, before it begins the refund. Each later attempt of the refund's claim does so,
// too. Once the dispute is won, the refund is made.
//
// Nobody sees a dispute that is opened between the last question and the call, nor one that the
// provider does not show ([psp.Movement].Disputed), or cannot show, being Blind.
type Compensator struct {
	// Books keep the ledger of every home.
	Books ledger.Store
	// Do runs a request at its key's home; router.Router.Do does.
	Do func(ctx context.Context, req claim.Request, hint string) (claim.Reply, error)
	// Inspect reads a key's claim at its home, with authority; router.Router.Inspect does.
	Inspect func(ctx context.Context, key claim.Key, hint string) (claim.Status, bool, error)
	// Code is the region code of a home.
	Code func(home string) (claim.RegionCode, bool)
	// Providers show their own movements; none, but not nil, in front of another API.
	Providers psp.Providers
	// Brakes decide whether refunds may be made at all.
	Brakes *Brakes
	// Meters count ghosts. Nil: none are counted.
	Meters *meter.Set
}

// compensationPath is the path in the fingerprint: no request can have it.
const compensationPath = "compensations"

// Compensate refunds g, or finds that it has been refunded. detail is one line for people. After an
// error the try may be done or not; retry it.
func (c *Compensator) Compensate(ctx context.Context, g Ghost) (p Progress, detail string, err error) {
	p, detail, err = c.compensate(ctx, g)
	metersOf(c.Meters, g.Provider).Counter(meter.Compensations).Add(1, g.Provider, strings.ToLower(p.String()))
	return p, detail, err
}

func (c *Compensator) compensate(ctx context.Context, g Ghost) (p Progress, detail string, err error) {
	failed, refunded, err := ledger.GhostRefunds(ctx, c.Books, g.Home, g.Provider, g.ProviderRef, ledger.MaxGhostRefunds)
	switch {
	case err != nil:
		return Pending, "", fmt.Errorf("webhook: the books could not be read: %w", err)
	case refunded:
		return Compensated, "refunded", nil
	case failed == ledger.MaxGhostRefunds:
		return Limbo, fmt.Sprintf("the provider has accepted %d refunds, and each has failed since", failed), nil
	}
	g.failed = failed
	if p, detail, err := c.returned(ctx, &g); p != Pending || err != nil {
		return p, detail, err
	}
	if p, detail, err := c.wanted(ctx, &g); p != Pending || detail != "" || err != nil {
		return p, detail, err
	}
	req, err := c.request(&g)
	if err != nil {
		return Pending, "", err
	}
	if _, err := payment.Parse(payment.Compensation, req.Input.Canonical); err != nil {
		return Limbo, "no refund can be requested: " + err.Error(), nil // it would be begun and never sent
	}
	if p, detail, err := c.book(ctx, &g); p != Pending || detail != "" || err != nil {
		return p, detail, err
	}
	if g.disputed > 0 {
		return Pending, fmt.Sprintf("the payer disputes %d %s of it at the provider, by a dispute that is not booked; have the provider send its webhooks again", g.disputed, g.Currency), nil
	}
	status, begun, err := c.Inspect(ctx, req.Key, g.Home)
	begun = begun && status.Age != claim.Gone
	switch {
	case err != nil:
		return Pending, "", fmt.Errorf("webhook: the claim of the refund could not be read: %w", err)
	case begun && status.Age == claim.Expired && status.Record.State == claim.FailedRetry:
		// It was not refused for good, only not retried within a day.
		return Pending, "the provider refused the refund for now; it can be requested again at " + status.FreeAt.UTC().Format(time.RFC3339), nil
	case begun && status.Age == claim.Expired && status.Record.State == claim.Completed:
		return Pending, "the refund was completed after the books were read", nil // which have it
	case begun && status.Age == claim.Expired:
		// Settled a day ago and not booked as refunded: it was refused.
		return Limbo, "the provider refused the refund: " + cmp.Or(status.Record.Reason, status.Record.State.String()), nil
	case !begun:
		// A compensation that has begun was counted then, however long it takes.
		reason, err := c.admit(ctx, &g)
		switch {
		case err != nil:
			return Pending, "", err
		case reason != "":
			return Held, reason, nil
		}
	}
	reply, err := c.Do(ctx, req, g.Home)
	var unknown *claim.UnknownError
	var busy *claim.InUseError
	var expired *claim.ExpiredError
	switch {
	case errors.As(err, &unknown), errors.As(err, &busy):
		return Pending, "the provider has not answered the refund yet", nil
	case err == nil && reply.State == claim.InFlight:
		return Pending, "the provider has the refund, and has not paid it out yet", nil
	case errors.Is(err, claim.ErrMismatch):
		return Limbo, "the key of the compensation belongs to another request", nil
	case errors.As(err, &expired):
		return Pending, "the claim of the refund has expired this moment", nil
	case err != nil:
		return Pending, "", fmt.Errorf("webhook: the refund could not be run: %w", err)
	case reply.State == claim.Completed:
		return Compensated, "refunded", nil
	case reply.State == claim.FailedTerminal:
		return Limbo, "the provider refused the refund: " + reason(&reply.Response), nil
	default:
		return Pending, "the provider refused the refund for now: " + reason(&reply.Response), nil
	}
}

// admit returns why the refund of g may not be begun, "" if it may. No limit counts one that its
// merchant has asked for, by giving up the key: after an outage there may be many.
func (c *Compensator) admit(ctx context.Context, g *Ghost) (reason string, err error) {
	if g.Reason == payment.ReasonKeyCanceled {
		return c.Brakes.Held(ctx, g.Provider)
	}
	return c.Brakes.Admit(ctx, g.Provider, Admission{
		ID: ledger.GhostRefundTryID(g.Provider, g.ProviderRef, g.failed+1), Amount: g.Amount, Currency: g.Currency,
	})
}

// book books g into suspense: Pending without detail if it is booked.
func (c *Compensator) book(ctx context.Context, g *Ghost) (p Progress, detail string, err error) {
	is := ledger.Transaction{
		ID: ledger.GhostID(g.Provider, g.ProviderRef), Region: g.Home, Tenant: g.Tenant, Kind: ledger.Ghost,
		Debit: ledger.Provider(ledger.Where(g.Provider, g.ProviderRef)), Credit: ledger.Suspense(g.Tenant), Amount: g.Amount, Currency: g.Currency,
		Object: g.Object, Provider: g.Provider, ProviderRef: g.ProviderRef,
	}
	// So that the event of its refund names the order, if the charge was paid beside it.
	charge, _, err := c.Books.Transaction(ctx, g.Home, g.Object)
	if err != nil {
		return Pending, "", fmt.Errorf("webhook: the books could not be read: %w", err)
	}
	is.Order, is.Metadata = charge.Order, charge.Metadata
	posted, err := c.Books.Post(ctx, is)
	if err == nil && posted {
		metersOf(c.Meters, g.Provider).Counter(meter.Ghosts).Add(1, g.Provider)
	}
	if errors.Is(err, ledger.ErrConflict) {
		was, ghost, err := c.Books.Transaction(ctx, g.Home, is.ID)
		switch {
		case err != nil:
			return Pending, "", fmt.Errorf("webhook: the books could not be read: %w", err)
		case ghost && was.Same(is):
			return Pending, "", nil
		case ghost:
			return Limbo, "the provider reported the same movement with another amount, currency or object", nil
		default:
			return Pending, "the movement has been booked as a charge meanwhile", nil
		}
	}
	if err != nil {
		return Pending, "", fmt.Errorf("webhook: the ghost could not be booked: %w", err)
	}
	return Pending, "", nil
}

// request returns the claim's request: the same bytes for the same ghost, whoever
// reports it.
func (c *Compensator) request(g *Ghost) (req claim.Request, err error) {
	code, ok := c.Code(g.Home)
	if !ok {
		return req, fmt.Errorf("webhook: there is no region %q", g.Home)
	}
	// As long as a stamp's random part can ever be; the name of the key is final.
	seed := sha256.Sum256(fmt.Appendf(nil, "homeward/refund/v1\x00%d:%s%s\x00REFUND%s", len(g.Provider), g.Provider, g.ProviderRef, g.again()))
	stamped, err := claim.Stamp(code, bytes.NewReader(seed[:]))
	if err != nil {
		return req, err
	}
	what := map[string]any{
		"amount": g.Amount, "charge": g.Object, "currency": g.Currency, "provider_ref": g.ProviderRef,
		// Not g.Reason, which may differ at the next look.
		"reason": "ghost_payment",
	}
	if g.failed > 0 {
		what["failed_before"] = g.failed
	}
	body, err := json.Marshal(what)
	if err != nil {
		return req, err
	}
	if body, err = claim.Canonical(body, claim.CanonicalOptions{}); err != nil {
		return req, fmt.Errorf("webhook: the ghost %s %s cannot be put into a request: %w", g.Provider, g.ProviderRef, err)
	}
	return claim.Request{
		Key: claim.Key{Tenant: g.Tenant, Value: claim.OwnKey(stamped)}, Operation: string(payment.Compensation), Stamp: code,
		Provider: g.Provider,
		Input: claim.FingerprintInput{
			Method: http.MethodPost, Path: compensationPath, Tenant: g.Tenant, ContentType: "application/json", Canonical: body,
		},
	}, nil
}

// reason returns the reason of a refusal.
func reason(r *claim.Response) string {
	var p struct {
		Detail string `json:"detail"`
		Code   string `json:"code"`
	}
	if json.Unmarshal(r.Body, &p) != nil || p.Detail+p.Code == "" {
		return fmt.Sprintf("status %d", r.Status)
	}
	if p.Code == "" {
		return p.Detail
	}
	return p.Code + ": " + p.Detail
}
