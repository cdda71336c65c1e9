package simulator

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/payment/psp"
)

// stripeParameters are those of each POST; any other is refused, as by Stripe.
var stripeParameters = map[psp.Kind][]string{
	psp.KindCharge: {"amount", "currency", "payment_method", "confirm", "off_session", "description",
		"automatic_payment_methods[enabled]", "automatic_payment_methods[allow_redirects]", "capture_method", "customer",
		"setup_future_usage", "statement_descriptor_suffix", "return_url", "on_behalf_of", "transfer_data[destination]", "transfer_data[amount]", "application_fee_amount"},
	psp.KindTransfer: {"amount", "currency", "destination", "description", "transfer_group"},
	psp.KindRefund:   {"amount", "payment_intent"},
}

func (s *Simulator) readStripeCall(w http.ResponseWriter, r *http.Request, kind psp.Kind) (psp.Call, int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status, err := unreadable(err)
		return psp.Call{}, status, fmt.Errorf("body: %w", err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return psp.Call{}, http.StatusBadRequest, errors.New("body: not a form")
	}
	if err := allowed(form, stripeParameters[kind]); err != nil {
		return psp.Call{}, http.StatusBadRequest, err
	}
	if key := form.Get("metadata[" + keyMember + "]"); key != "" && key != r.Header.Get("Idempotency-Key") {
		return psp.Call{}, http.StatusBadRequest, fmt.Errorf("metadata[%s]: must be the Idempotency-Key, as nothing else is kept", keyMember)
	}
	call := psp.Call{
		Kind: kind, Key: r.Header.Get("Idempotency-Key"), Reference: form.Get("metadata[" + referenceMember + "]"),
		Currency: form.Get("currency"), Description: form.Get("description"),
	}
	if call.Amount, err = strconv.ParseInt(form.Get("amount"), 10, 64); err != nil {
		return psp.Call{}, http.StatusBadRequest, errors.New("amount: must be a whole number of minor units")
	}
	switch kind {
	case psp.KindCharge:
		redirects := form.Get("automatic_payment_methods[allow_redirects]")
		if form.Get("confirm") != "true" || (redirects == "always") != (form.Get("return_url") != "") {
			return psp.Call{}, http.StatusBadRequest, errors.New("confirm must be true, and redirects need a return_url: this provider confirms at once or not at all")
		}
		call.Source, call.Terms = form.Get("payment_method"), termsOf(form)
	case psp.KindTransfer:
		call.Source = form.Get("destination")
	case psp.KindRefund:
		var charge record
		call.Source, _ = fromStripeID(psp.KindCharge, form.Get("payment_intent"))
		call.Currency = "usd" // of a charge that does not exist
		if i, ok := parseID(psp.KindCharge, call.Source); ok {
			if charge, _, ok = s.record(i); ok {
				call.Currency = string(charge.currency[:])
			}
		}
	default: // there is no other POST
	}
	if call.Amount, err = fromStripeAmount(call.Amount, call.Currency); err != nil {
		return psp.Call{}, http.StatusBadRequest, err
	}
	return call, http.StatusBadRequest, validate(call)
}

// allowed refuses parameters that are not listed; metadata may have any name.
func allowed(form url.Values, parameters []string) error {
	for name := range form {
		if !slices.Contains(parameters, name) && !strings.HasPrefix(name, "metadata[") {
			return fmt.Errorf("Received unknown parameter: %q", name)
		}
	}
	return nil
}

// termsOf is what decides the outcome of a charge, and what else its key is bound to;
// nil for a charge off session without either.
func termsOf(form url.Values) *psp.Terms {
	t := psp.Terms{
		OnSession: form.Get("off_session") != "true", Manual: form.Get("capture_method") == "manual",
		Customer: form.Get("customer"), SetupFutureUsage: form.Get("setup_future_usage"), StatementSuffix: form.Get("statement_descriptor_suffix"),
		ReturnURL: form.Get("return_url"), OnBehalfOf: form.Get("on_behalf_of"), TransferTo: form.Get("transfer_data[destination]"),
	}
	if t.OnSession || t.Manual || t.Customer+t.SetupFutureUsage+t.StatementSuffix+t.ReturnURL+t.OnBehalfOf+t.TransferTo != "" {
		return &t
	}
	return nil
}

// actParameters are those of an act's POST.
var actParameters = map[outcome][]string{
	confirmedAgain: {"payment_method", "off_session", "return_url"},
	approved:       {"amount_to_capture"},
	canceledCharge: {"cancellation_reason"},
}

// acts handles the POSTs that act on a PaymentIntent.
func (s *Simulator) acts(asks outcome) http.HandlerFunc {
	read := func(w http.ResponseWriter, r *http.Request, _ psp.Kind) (psp.Call, int, error) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			status, err := unreadable(err)
			return psp.Call{}, status, fmt.Errorf("body: %w", err)
		}
		form, err := url.ParseQuery(string(body))
		if err == nil {
			err = allowed(form, actParameters[asks])
		}
		if err != nil {
			return psp.Call{}, http.StatusBadRequest, err
		}
		id, _ := fromStripeID(psp.KindCharge, r.PathValue("id"))
		call := psp.Call{Kind: psp.KindCharge, Key: r.Header.Get("Idempotency-Key"), Source: id, Again: form.Get("payment_method"), Terms: termsOf(form)}
		i, ok := parseID(psp.KindCharge, id)
		rec, _, found := s.record(i)
		if !ok || !found {
			return call, http.StatusNotFound, errNoMovement
		}
		if v := form.Get("amount_to_capture"); v != "" {
			if call.Amount, err = strconv.ParseInt(v, 10, 64); err != nil || call.Amount <= 0 {
				return call, http.StatusBadRequest, errors.New("amount_to_capture: must be a positive number of minor units")
			}
			call.Amount, err = fromStripeAmount(call.Amount, string(rec.currency[:]))
		}
		if asks == approved {
			s.captured(i, form.Get("metadata[homeward_capture]"))
		}
		return call, http.StatusBadRequest, err
	}
	d := dialect{read: read, outcome: s.writeStripeOutcome, refuse: refuseStripe}
	return s.moveBy(psp.KindCharge, d, func(call psp.Call) (record, int, error) { return s.take(call, asks) })
}

// captured remembers the reference of a charge's first capture, for as long as this
// process lives.
func (s *Simulator) captured(i int, reference string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, _ := s.book.state(i); o == authorized && reference != "" {
		s.captures[i] = reference
	}
}
