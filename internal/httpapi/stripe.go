package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// Headers that Stripe's clients send and read.
const (
	headerStripeVersion = "Stripe-Version"
	headerStripeAccount = "Stripe-Account"
	headerStripeContext = "Stripe-Context"
	headerShouldRetry   = "Stripe-Should-Retry"
	headerRequestID     = "Request-Id"
)

// stripeExchange is the part of a request with Stripe-Version that differs: what it may
// send, and how it is answered. The claim and the stored response do not differ.
type stripeExchange struct {
	version string
	form    bool // the body is a form
	view    stripeapi.View
	request *http.Request
	// again is the value of Stripe-Should-Retry for an error.
	again bool
}

// stripeExchangeOf returns nil for a request without Stripe-Version.
func stripeExchangeOf(r *http.Request) *stripeExchange {
	values := r.Header[headerStripeVersion]
	if len(values) == 0 {
		return nil
	}
	key, _ := idempotencyKey(r) // for messages alone; an invalid key is refused later
	return &stripeExchange{
		version: strings.Join(values, ","), request: r,
		view: stripeapi.View{Method: r.Method, Path: r.URL.Path, Key: key},
	}
}

// basic returns the user of HTTP Basic, which is the API key. As at Stripe, the
// password is ignored.
func basic(r *http.Request) (string, bool) {
	if len(r.Header["Authorization"]) != 1 {
		return "", false
	}
	user, _, ok := r.BasicAuth()
	return user, ok && visible(user)
}

// acceptable refuses headers that no route serves.
func (x *stripeExchange) acceptable(r *http.Request) error {
	x.request = r
	if !stripeapi.IsVersion(x.version) {
		return refuse(problem.InvalidRequest, "Invalid Stripe-Version: it is a date with a name, such as "+stripeapi.Version+".")
	}
	// The account owns the money that moves, so it must never be ignored.
	if len(r.Header[headerStripeContext]) > 0 {
		return errOtherAccount(headerStripeContext)
	}
	if accounts := r.Header[headerStripeAccount]; len(accounts) > 0 {
		pays := r.URL.Path == payment.Path(payment.Charge) || r.URL.Path == pathPaymentIntents
		if len(accounts) > 1 || r.Method != http.MethodPost || !pays || isJSON(r) {
			return errOtherAccount(headerStripeAccount)
		}
		x.view.Account = accounts[0]
	}
	return nil
}

func errOtherAccount(header string) error {
	return refuse(problem.InvalidRequest, "The header "+header+" is not served here; leave it out. Stripe-Account is for forms that make a charge or a payment intent: a refund or a capture goes to the account of its charge.")
}

// isJSON reports whether the Content-Type is JSON.
func isJSON(r *http.Request) bool {
	value, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(value), mediaJSON)
}

// serves sets the kind of object that is requested.
func (x *stripeExchange) serves(as stripeapi.Resource) error {
	if as == stripeapi.PaymentIntent && x.version < stripeapi.OldestIntents {
		return refuse(problem.InvalidRequest, "Payment intents are answered in the shape of Stripe-Version "+stripeapi.OldestIntents+" and later; send a later one.")
	}
	x.view.Resource = as
	return nil
}

// check checks the headers of a movement, before its body.
func (x *stripeExchange) check(r *http.Request, as stripeapi.Resource) error {
	if err := x.serves(as); err != nil {
		return err
	}
	if isJSON(r) && as != stripeapi.PaymentIntent {
		return checkMedia(r)
	}
	x.form = true
	return checkMediaIs(r, stripeapi.MediaType)
}

// look reads the options of a request for an object.
func (x *stripeExchange) look(r *http.Request, as stripeapi.Resource) error {
	if err := x.serves(as); err != nil {
		return err
	}
	return wrongParam(x.view.ReadQuery(r.URL.RawQuery))
}

// wrongParam refuses a request whose parameters Stripe's API would refuse.
func wrongParam(err error) error {
	param, ok := errors.AsType[*stripeapi.ParamError](err)
	if !ok {
		return err
	}
	p := problem.New(problem.InvalidRequest, param.Message)
	p.Member = param.Param
	return &refusal{Problem: p, param: param}
}

// readForm converts the form of the query and the body to the equivalent canonical JSON,
// which is claimed, compared and stored.
func (s *server) readForm(res *response, r *http.Request) ([]byte, error) {
	raw, err := s.rawBody(res, r, s.tenants, s.Limits.Body)
	if err != nil {
		return nil, err
	}
	body, err := res.stripe.view.ReadForm(r.URL.RawQuery, raw)
	if err != nil {
		return nil, wrongParam(err)
	}
	return claim.Canonical(body, s.canonical)
}

// The pauses between two repeats for one outcome.
const (
	askFirst = 250 * time.Millisecond
	askMost  = 2 * time.Second
)

// askAgain repeats a request without an answer yet, for Stripe's clients: stripe-go
// does not retry a response that parses as an error (stripe.go, shouldRetry; error.go,
// canRetry), so its caller would see a 503 or 409, which ask for a retry, as a failed
// payment. A repeat is as safe here as for the client: it is the same request under the
// same key.
func (s *server) askAgain(ctx context.Context, hint string, req claim.Request, reply claim.Reply, err error) (claim.Reply, error) {
	for pause := askFirst; comesAgain(err); pause = min(2*pause, askMost) {
		wait := pause - rand.N(pause/4)
		if time.Since(req.Began)+wait > s.Limits.AskAgain || !sleep(ctx, wait) {
			break
		}
		reply, err = s.Router.Do(ctx, req, hint)
	}
	return reply, err
}

// comesAgain reports whether a retry of the same request may have an answer later.
func comesAgain(err error) bool {
	if err == nil || errors.Is(err, claim.ErrNoClaim) {
		return false
	}
	switch p, _ := problemOf(err); p.Code {
	case problem.KeyInUse, problem.OutcomeUnknown, problem.StoreUnavailable, problem.HomeUnavailable:
		return true
	default:
		return false
	}
}

// sleep reports whether ctx is still alive afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

var errOtherUnits = func() error {
	p := problem.New(problem.InvalidRequest, "Stripe counts this currency in other units than ISO 4217. Send the request as this API has it: as application/json, without Stripe-Version.")
	p.Member = "currency"
	return &refusal{Problem: p}
}()

// asStripe renders a stored response, from its bytes alone.
func (res *response) asStripe(resp *claim.Response) error {
	x := res.stripe
	rendered := claim.Response{Status: http.StatusOK, Header: []claim.HeaderField{{Name: "Content-Type", Value: mediaJSON}}}
	if resp.Status >= http.StatusBadRequest {
		p, err := problem.Parse(resp.Body)
		if err != nil {
			return err
		}
		f := x.view.Failure(p)
		rendered.Status, rendered.Body, x.again = f.Status, f.Body, f.Again
		if after := p.RetryAfterHeader(); after != "" {
			rendered.Header = append(rendered.Header, claim.HeaderField{Name: "Retry-After", Value: after})
		}
	} else {
		var err error
		if rendered.Body, err = x.view.Object(resp.Body); err != nil {
			return err
		}
	}
	*resp = rendered
	return nil
}

// failStripe answers with an error in Stripe's format.
func (res *response) failStripe(err error, p *problem.Problem) {
	x := res.stripe
	var f stripeapi.Failure
	switch said, _ := errors.AsType[*refusal](err); {
	case said != nil && said.param != nil:
		f = said.param.Failure()
	case errors.Is(err, errNoSuchPath):
		f = x.view.NoSuchURL()
	default:
		f = x.view.Failure(*p)
	}
	if p.Code == problem.Unauthorized {
		res.Header()["Www-Authenticate"] = []string{`Basic realm="Homeward"`}
	}
	x.again = f.Again
	res.send(f.Status, mediaJSON, f.Body)
}

// head sets the headers that every answer of Stripe's has. The id of a request is that
// of its trace.
func (x *stripeExchange) head(h http.Header, status int) {
	trace := h.Get(headerTraceparent)
	if trace == "" {
		trace = traceparent(x.request)
	}
	h[headerRequestID] = []string{"req_" + trace[len("00-"):len("00-")+traceIDLength]}
	if stripeapi.IsVersion(x.version) {
		h[headerStripeVersion] = []string{x.version}
	}
	if status >= http.StatusBadRequest {
		h[headerShouldRetry] = []string{strconv.FormatBool(x.again)}
	}
}
