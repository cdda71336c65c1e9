package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// Answer describes how one request to move money was answered, without its body.
type Answer struct {
	Began     time.Time
	Took      time.Duration
	Operation string
	Tenant    string
	// Key is "" if the request had no valid one; Home is "" if no home was found.
	Key, Home string
	// ServedBy is the region whose node answered, Hops how many forwards that took.
	ServedBy string
	Hops     int
	Status   int
	// Code is the problem's, "" if the answer is not a problem.
	Code     problem.Code
	Replayed bool
	// Location is the path of the created object; "" if none was created.
	Location string
}

// move handles the requests that move money. as is the kind of object in answers to
// Stripe's clients.
func (s *server) move(op payment.Operation, as stripeapi.Resource) handler {
	path := payment.Path(op)
	return func(res *response, r *http.Request) error {
		a := s.newAnswer(res, op)
		return s.finish(res, r, &a, s.movement(res, r, op, as, path, "", &a))
	}
}

// order handles the requests to capture or to cancel the charge that their path names.
func (s *server) order(op payment.Operation, as stripeapi.Resource) handler {
	return func(res *response, r *http.Request) error {
		a := s.newAnswer(res, op)
		charge, err := res.chargeOf(r, op, as)
		if err == nil {
			err = s.movement(res, r, op, as, payment.Path(payment.Charge)+"/"+charge+"/"+string(op), charge, &a)
		}
		return s.finish(res, r, &a, err)
	}
}

// newAnswer returns an Answer with the fields that the request has on arrival.
func (s *server) newAnswer(res *response, op payment.Operation) Answer {
	return Answer{Began: res.began, Operation: string(op), Tenant: res.tenant.ID, ServedBy: s.Region}
}

// finish ends a request with err, and passes the Answer to [Config].Answered.
func (s *server) finish(res *response, r *http.Request, a *Answer, err error) error {
	if s.Answered == nil {
		return err
	}
	if err != nil {
		s.fail(res, r, err)
	}
	a.Took, a.Status, a.Code = time.Since(res.began), res.status, res.code
	s.Answered(*a)
	return nil
}

// chargeOf is the id of the charge that r is about.
func (res *response) chargeOf(r *http.Request, op payment.Operation, as stripeapi.Resource) (charge string, err error) {
	charge = r.PathValue("id")
	if res.stripe == nil && as == stripeapi.PaymentIntent {
		return "", errNoSuchPath
	}
	if res.stripe != nil {
		if err := res.stripe.serves(as); err != nil {
			return "", err
		}
		res.stripe.view.Action = string(op)
		charge = res.stripe.view.ObjectID(charge)
	}
	if prefix, _, ok := claim.ReadObjectID(charge); !ok || prefix != payment.Prefix(payment.Charge) {
		return "", refuse(problem.NotFound, "There is no charge with this id.")
	}
	return charge, nil
}

// movement answers a request that moves money, and fills in a. charge is the charge of an order,
// "" for all else.
func (s *server) movement(res *response, r *http.Request, op payment.Operation, as stripeapi.Resource, path, charge string, a *Answer) error {
	trace := traceparent(r)
	res.set(headerTraceparent, trace)
	if err := res.checkMovement(r, as, charge != ""); err != nil {
		return err
	}
	value, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	a.Key = value
	res.set(headerKey, r.Header[headerKey][0])
	stamp, _ := claim.ReadStamp(value)
	if home, ok := s.HomeOf(stamp); ok {
		a.Home = home
		res.set(headerHome, home)
	}
	body, intent, err := s.readIntent(res, r, op, charge)
	if err != nil {
		return err
	}
	// A refund belongs in the home of its charge.
	_, near, _ := claim.ReadObjectID(intent.Charge)
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
	defer cancel()
	req := claim.Request{
		Key:       claim.Key{Tenant: res.tenant.ID, Value: value},
		Operation: string(op),
		Input: claim.FingerprintInput{
			Method: http.MethodPost, Path: path, Tenant: res.tenant.ID, ContentType: mediaJSON, Canonical: body,
		},
		Stamp:       stamp,
		PreferHome:  near,
		TraceParent: trace,
		Began:       res.began,
	}
	if op == payment.Refund {
		req.Reverses = intent.Charge
	}
	refusal, err := screen(res.tenant.CardNumbers, &intent, &req)
	if err != nil {
		return err
	}
	if noRoute := s.route(res.tenant.Routes, &intent, &req); noRoute != nil {
		refusal, req.CompareOnly = noRoute, true
	}
	reply, err := s.Router.Do(ctx, req, hint(r))
	if err != nil && res.stripe != nil {
		reply, err = s.askAgain(ctx, hint(r), req, reply, err)
	}
	if errors.Is(err, claim.ErrNoClaim) && refusal != nil {
		return refusal
	}
	a.Hops = reply.Hops
	if reply.Home != "" {
		a.Home = reply.Home
	}
	if err != nil {
		res.setRoute(&reply)
		return err
	}
	s.explain(res, &reply.Response)
	return res.answerWith(&reply, a)
}

// answerWith writes the home's answer.
func (res *response) answerWith(reply *claim.Reply, a *Answer) error {
	if resp := &reply.Response; resp.Status < 200 || resp.Status > 599 || len(resp.Body) == 0 && resp.Blob != "" {
		return fmt.Errorf("reply from %s is incomplete: status %d, blob %q", reply.ServedBy, resp.Status, resp.Blob)
	}
	a.ServedBy, a.Replayed = reply.ServedBy, reply.Replayed
	a.Location = reply.Response.Field("Location")
	if res.stripe != nil {
		if err := res.asStripe(&reply.Response); err != nil {
			return err
		}
	}
	res.sendReply(reply)
	return nil
}

// checkMovement checks the headers of a movement, before its body. An order needs no body.
func (res *response) checkMovement(r *http.Request, as stripeapi.Resource, order bool) error {
	if order && r.ContentLength == 0 {
		if res.stripe != nil {
			res.stripe.form = true
		}
		return nil
	}
	if res.stripe != nil {
		return res.stripe.check(r, as)
	}
	if as == stripeapi.PaymentIntent {
		return errNoSuchPath // except for Stripe's clients
	}
	return checkMedia(r)
}

// readIntent reads, canonicalises and parses the body.
func (s *server) readIntent(res *response, r *http.Request, op payment.Operation, charge string) (body []byte, intent payment.Intent, err error) {
	switch {
	case res.stripe != nil && res.stripe.form:
		body, err = s.readForm(res, r)
	case charge != "" && r.ContentLength == 0:
		body = []byte("{}")
	default:
		body, err = s.readBody(res, r)
	}
	if err != nil {
		return nil, intent, err
	}
	if res.stripe != nil && (op == payment.Refund || op == payment.Capture) {
		body = payment.InStripesUnits(body)
	}
	if charge != "" && body[0] == '{' {
		body = payment.OrderOf(body, charge)
	}
	if intent, err = payment.Parse(op, body); err != nil {
		return nil, intent, err
	}
	if res.stripe != nil && payment.OtherUnits(intent.Currency) {
		return nil, intent, errOtherUnits
	}
	return body, intent, nil
}

// setRoute sets the headers of the route for a request that got no response.
func (res *response) setRoute(reply *claim.Reply) {
	res.set(headerHops, strconv.Itoa(reply.Hops))
	if reply.Home != "" {
		res.set(headerHome, reply.Home)
	}
	if !reply.ExpiresAt.IsZero() {
		res.set(headerExpiresAt, timestamp(reply.ExpiresAt))
	}
}

// idempotencyKey returns the normal form of the one Idempotency-Key.
func idempotencyKey(r *http.Request) (string, error) {
	switch values := r.Header[headerKey]; len(values) {
	case 0:
		return claim.ParseKey("")
	case 1:
		return claim.ParseKey(values[0])
	default:
		return "", refuse(problem.KeyInvalid, "Send exactly one Idempotency-Key header.")
	}
}

// hint returns the home region that the caller sent. The router ignores other values.
func hint(r *http.Request) string { return r.Header.Get(headerHome) }
