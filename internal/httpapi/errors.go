package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/router"
)

// When a retry becomes useful, if the error does not say.
const (
	// retryStore: a store that lost its leader needs about a second for the next.
	retryStore = time.Second
	// retryFull: bodies are answered, or have failed to arrive, within some seconds.
	retryFull = time.Second
	// retryHome: during a lasting partition, more frequent retries do not help.
	retryHome = 2 * time.Second
	// retryUnknown: the first look-up after an unknown outcome is due by then.
	retryUnknown = time.Second
	// retryInUse is the contract's default.
	retryInUse = 5 * time.Second
)

const internalDetail = "Something went wrong on our side. Sending the same request again is safe."

// refusal is a problem on its way to the caller.
type refusal struct {
	problem.Problem
	challenge bool // name the scheme that would have been accepted
	// param is the error in Stripe's format; nil for a request that is not a form.
	param *stripeapi.ParamError
}

func (r *refusal) Error() string { return string(r.Code) + ": " + r.Detail }

func refuse(code problem.Code, detail string) error {
	return &refusal{Problem: problem.New(code, detail)}
}

// errNoSuchKey is the one answer for an unused key and for another tenant's.
var errNoSuchKey = refuse(problem.NotFound, "This account has used no such key, or long ago.")

// problemOf maps every error that the packages below may return. ok is false for
// unexpected errors.
func problemOf(err error) (p problem.Problem, ok bool) {
	var (
		said    *refusal
		body    *claim.JSONError
		key     *claim.KeyError
		member  *payment.InvalidError
		inUse   *claim.InUseError
		unknown *claim.UnknownError
		expired *claim.ExpiredError
		held    *claim.WithheldError
	)
	after := func(code problem.Code, wait time.Duration, detail string) (problem.Problem, bool) {
		p := problem.New(code, detail)
		p.RetryAfter = wait
		return p, true
	}
	switch {
	case errors.As(err, &said):
		return said.Problem, true

	// The request is wrong, and no claim was made.
	case errors.Is(err, claim.ErrKeyMissing) && errors.As(err, &key):
		return problem.New(problem.KeyMissing, sentence(key.Reason)), true
	case errors.As(err, &key):
		return problem.New(problem.KeyInvalid, sentence(key.Reason)), true
	case errors.As(err, &body):
		if payment.HasCardNumber(body.Path) { // a name can be one, too
			body = &claim.JSONError{Reason: body.Reason, Offset: body.Offset}
		}
		p := problem.New(problem.InvalidRequest, sentence(body.Error()))
		p.Member = body.Path
		return p, true
	case errors.As(err, &member):
		p := problem.New(problem.InvalidRequest, sentence(member.Error()))
		p.Member = member.Member
		return p, true
	case errors.Is(err, claim.ErrUnknownTenant):
		return problem.New(problem.Forbidden, "This account is not enabled here."), true

	// The request reached its key.
	case errors.Is(err, claim.ErrMismatch):
		return problem.New(problem.FingerprintMismatch, "This key was first used with a different request. Send that request again, or this one with a new key."), true
	case errors.As(err, &inUse), errors.Is(err, claim.ErrLeaseHeld):
		wait := retryInUse
		if inUse != nil {
			wait = cmp.Or(inUse.RetryAfter, retryInUse)
		}
		return after(problem.KeyInUse, wait, "A request with this key is still being worked on. Send it again later to read its result.")
	case errors.As(err, &expired):
		p := problem.New(problem.KeyExpired, "This key was first used at "+timestamp(expired.FirstUse)+
			" and its answer is no longer kept. Find out what became of that request before you send another with a new key.")
		p.OriginalRequestAt = expired.FirstUse
		return p, true
	case errors.As(err, &unknown):
		return after(problem.OutcomeUnknown, cmp.Or(unknown.RetryAfter, retryUnknown), "It is not known yet whether money moved; the provider is being asked. Send the same request again to learn it; it is never charged twice.")
	case errors.As(err, &held):
		return after(problem.KeyWithheld, cmp.Or(held.RetryAfter, retryUnknown), "Records of a recent time were lost, and this key may have been used in it, so nothing is done under it yet. Send the same request again later. A request that was certainly never sent before can be sent now under a key from POST /v1/idempotency-keys.")
	case errors.Is(err, claim.ErrFenced):
		return after(problem.OutcomeUnknown, retryUnknown, "Another node took this request over. Send it again to learn its outcome; it is never charged twice.")

	// The request may or may not have reached its key.
	case errors.Is(err, router.ErrHomeUnavailable), errors.Is(err, claim.ErrHomeUnreachable), errors.Is(err, claim.ErrNeedPin):
		return after(problem.HomeUnavailable, retryHome, "The region that answers for this key cannot be reached. Send the same request again; it is never charged twice.")
	case errors.Is(err, claim.ErrUnavailable), errors.Is(err, claim.ErrFingerprintVersion):
		return after(problem.StoreUnavailable, retryStore, "The request could not be recorded. Send it again; it is never charged twice.")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return after(problem.OutcomeUnknown, retryUnknown, "The request took too long, and its outcome is not known. Send it again to learn it; it is never charged twice.")
	default:
		return problem.New(problem.Internal, internalDetail), false
	}
}

// fail answers with the problem of err.
func (s *server) fail(res *response, r *http.Request, err error) {
	p, ok := problemOf(err)
	if !ok {
		s.Logger.ErrorContext(r.Context(), "request failed unexpectedly", "route", r.Pattern, "tenant", res.tenant.ID, "error", err)
	}
	if e, ok := s.entry(p.Code); ok {
		if was, _ := problem.Lookup(p.Code); p.Title == was.Title { // not one of its own
			p.Title = e.Title
		}
	}
	var said *refusal
	if !errors.As(err, &said) && res.words[p.Code] != "" {
		p.Detail = res.words[p.Code]
	}
	res.code = p.Code
	res.Header()["Link"] = []string{s.ErrorPages.LinkOf(p.Code)}
	if unclaimed[p.Code] != "" && res.movesMoney() {
		s.closed.Add(1, string(p.Code))
	}
	h := res.Header()
	if res.tenant.ID != "" {
		// Whichever region failed, this one reports it.
		h[headerServedBy] = []string{s.Region}
	}
	if wait := p.RetryAfterHeader(); wait != "" {
		h["Retry-After"] = []string{wait}
	}
	if res.stripe != nil {
		res.failStripe(err, &p)
		return
	}
	if res.dialect != "" {
		out := res.dialect.Spell(&p, res.key)
		for name, value := range out.Header {
			res.Header().Set(name, value)
		}
		res.send(out.Status, out.ContentType, out.Body)
		return
	}
	if said != nil && said.challenge {
		h["Www-Authenticate"] = []string{"Bearer"}
	}
	res.send(p.Status, problem.ContentType, p.JSON(s.ErrorPages))
}

// sentence makes an error's text a sentence: capital first, full stop last.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if c := s[0]; c >= 'a' && c <= 'z' {
		s = string(c-'a'+'A') + s[1:]
	}
	if last := s[len(s)-1]; last != '.' && last != '!' && last != '?' {
		s += "."
	}
	return s
}
