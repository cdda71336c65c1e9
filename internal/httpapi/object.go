package httpapi

import (
	"context"
	"net/http"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/httpapi/stripeapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// object handles look-ups by id. It has three answers: the object, no such object, and
// "not known yet".
func (s *server) object(op payment.Operation, as stripeapi.Resource) handler {
	prefix := payment.Prefix(op)
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
		missing := refuse(problem.NotFound, "There is no "+string(op)+" with this id.")
		// An id that was never minted here needs no look-up.
		got, code, ok := claim.ReadObjectID(id)
		if !ok || got != prefix {
			return missing
		}
		if home, known := s.HomeOf(code); known {
			res.Header()[headerHome] = []string{home}
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
		defer cancel()
		state, resp, found, err := s.Router.Object(ctx, res.tenant.ID, id)
		switch {
		case err != nil:
			return err
		case !found:
			return missing
		case state == claim.InFlight && resp.Sendable():
			return res.sendStored(http.StatusOK, &resp) // it waits for the payer or for a bank
		case state == claim.InFlight:
			p := problem.New(problem.OutcomeUnknown, "It is not known yet whether this "+string(op)+" was made; ask again.")
			p.RetryAfter = retryUnknown
			return &refusal{Problem: p}
		case state == claim.Completed:
			return res.sendStored(http.StatusOK, &resp)
		case state == claim.FailedTerminal && resp.Status == http.StatusServiceUnavailable:
			s.explain(res, &resp)
			return res.sendStored(resp.Status, &resp) // given up: still unknown, and reported so
		default:
			return refuse(problem.NotFound, "There is no such "+string(op)+": it was refused.")
		}
	}
}

// sendStored repeats a stored body under another status.
func (res *response) sendStored(status int, resp *claim.Response) error {
	if res.stripe != nil {
		if err := res.asStripe(resp); err != nil {
			return err
		}
		status = resp.Status
	}
	for _, f := range resp.Header {
		if f.Name == "Content-Type" {
			res.send(status, f.Value, resp.Body)
			return nil
		}
	}
	res.send(status, mediaJSON, resp.Body)
	return nil
}
