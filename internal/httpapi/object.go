package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// object handles look-ups by id. It has three answers: the object as it is now, no such object, and
// "not known yet".
func (s *server) object(op payment.Operation, as stripeapi.Resource) handler {
	return func(res *response, r *http.Request) error {
		id := r.PathValue("id")
		if res.stripe != nil {
			if err := res.stripe.look(r, as); err != nil {
				return err
			}
			id = res.stripe.view.ObjectID(id)
		} else if as == stripeapi.PaymentIntent {
			return errNoSuchPath
		}
		resp, err := s.find(res, r, op, id)
		if err != nil || res.status != 0 {
			return err
		}
		return res.sendObject(r, &resp)
	}
}

// refundsOf lists the refunds of a charge.
func (s *server) refundsOf(res *response, r *http.Request) error {
	if res.stripe != nil {
		if err := res.stripe.serves(stripeapi.Refund); err != nil {
			return err
		}
	}
	page, err := stripeapi.ReadPage(r.URL.RawQuery)
	if err != nil {
		return wrongParam(err)
	}
	resp, err := s.find(res, r, payment.Charge, page.Charge)
	if err != nil || res.status != 0 {
		return err
	}
	body, err := page.Refunds(resp.Body, res.stripe != nil)
	if err != nil {
		return wrongParam(err)
	}
	res.send(http.StatusOK, mediaJSON, body)
	return nil
}

// charges lists charges, as they are or as payment intents.
func (s *server) charges(as stripeapi.Resource) handler {
	return func(res *response, r *http.Request) error {
		view := &stripeapi.View{} // which expands nothing
		if res.stripe != nil {
			if err := res.stripe.serves(as); err != nil {
				return err
			}
			view = &res.stripe.view
		} else if as == stripeapi.PaymentIntent {
			return errNoSuchPath
		}
		of, err := view.ReadCharges(r.URL.RawQuery)
		if err != nil {
			return wrongParam(err)
		}
		page, more, err := s.listed(res, r, &of)
		if err != nil {
			return err
		}
		body, err := view.List(page, more, res.stripe != nil)
		if err != nil {
			return err
		}
		res.send(http.StatusOK, mediaJSON, body)
		return nil
	}
}

// listed reads the charges that a request asks for.
func (s *server) listed(res *response, r *http.Request, of *stripeapi.Charges) (page []json.RawMessage, more bool, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
	defer cancel()
	page, more, err = s.List(ctx, payment.List{
		Tenant: res.tenant.ID, Charge: of.Charge, OrderID: of.OrderID, From: of.From, Until: of.Until, After: of.After, Before: of.Before, Limit: of.Limit,
	})
	if cursor, ok := errors.AsType[*payment.CursorError](err); ok {
		name := "starting_after"
		if cursor.ID == of.Before {
			name = "ending_before"
		}
		return nil, false, wrongParam(stripeapi.NoSuch(name))
	}
	return page, more, err
}

// find reads an object. It answers itself, and sets res.status, if the outcome was given up.
func (s *server) find(res *response, r *http.Request, op payment.Operation, id string) (resp claim.Response, err error) {
	missing := refuse(problem.NotFound, "There is no "+string(op)+" with this id.")
	// An id that was never minted here needs no look-up.
	got, code, ok := claim.ReadObjectID(id)
	if !ok || got != payment.Prefix(op) {
		return resp, missing
	}
	if home, known := s.HomeOf(code); known {
		res.Header()[headerHome] = []string{home}
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
	defer cancel()
	state, resp, found, err := s.Router.Object(ctx, res.tenant.ID, id)
	switch {
	case err != nil:
		return resp, err
	case !found:
		return resp, missing
	case state == claim.Completed, state == claim.InFlight && resp.Sendable(): // one in flight waits for the payer or for a bank
		return resp, nil
	case state == claim.InFlight:
		p := problem.New(problem.OutcomeUnknown, "It is not known yet whether this "+string(op)+" was made; ask again.")
		p.RetryAfter = retryUnknown
		return resp, &refusal{Problem: p}
	case state == claim.FailedTerminal && resp.Status == http.StatusServiceUnavailable:
		s.explain(res, &resp)
		if res.stripe != nil {
			if err := res.asStripe(&resp); err != nil {
				return resp, err
			}
		}
		res.send(resp.Status, resp.Field("Content-Type"), resp.Body) // given up: still unknown, and reported so
		return resp, nil
	default:
		return resp, refuse(problem.NotFound, "There is no such "+string(op)+": it was refused.")
	}
}

// sendObject sends an object, or that the caller has it as it is.
func (res *response) sendObject(r *http.Request, resp *claim.Response) error {
	tag := resp.Field(headerTag)
	if res.stripe != nil {
		if err := res.asStripe(resp); err != nil {
			return err
		}
		tag = strings.TrimSuffix(tag, `"`) + res.stripe.view.Tag() + `"` // another representation
	}
	res.set(headerTag, tag)
	if has(r.Header[headerIfNoneMatch], tag) {
		res.WriteHeader(http.StatusNotModified)
		return nil
	}
	res.send(http.StatusOK, mediaJSON, resp.Body)
	return nil
}

// has reports whether one of the tags in values is tag, or any (RFC 9110, section 13.1.2: whether they
// are weak does not count). The API's own tags have no commas.
func has(values []string, tag string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(tag, "W/") {
				return true
			}
		}
	}
	return false
}
