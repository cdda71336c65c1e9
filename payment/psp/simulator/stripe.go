package simulator

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// The Stripe-shaped API, as far as an adapter needs it. It shows the same books, with
// ids in Stripe's format.

// StripeAPIVersion is the API version of events.
const StripeAPIVersion = "2026-03-25.dahlia"

// The members of an object's metadata with the caller's reference and provider key.
const (
	referenceMember = "homeward_reference"
	keyMember       = "homeward_key"
)

func stripePrefix(k psp.Kind) string {
	switch k {
	case psp.KindTransfer:
		return "tr_"
	case psp.KindRefund:
		return "re_"
	default:
		return "pi_"
	}
}

// stripeID and fromStripeID convert record i to Stripe's id, and that to the provider's
// own.
func stripeID(k psp.Kind, i int) string {
	return stripePrefix(k) + strings.TrimPrefix(formatID(k, i), idPrefix(k))
}

func fromStripeID(k psp.Kind, id string) (string, bool) {
	digits, ok := strings.CutPrefix(id, stripePrefix(k))
	return idPrefix(k) + digits, ok
}

// stripeObject is a PaymentIntent, a Transfer or a Refund.
type stripeObject struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Created  int64             `json:"created"`
	Livemode *bool             `json:"livemode,omitempty"` // not of a Refund
	Metadata map[string]string `json:"metadata"`

	Status           string       `json:"status,omitempty"`             // not of a Transfer
	CaptureMethod    string       `json:"capture_method,omitempty"`     // of a PaymentIntent
	ClientSecret     string       `json:"client_secret,omitempty"`      // of a PaymentIntent
	NextAction       *nextAction  `json:"next_action,omitempty"`        // of one that waits for its payer
	AmountCapturable int64        `json:"amount_capturable,omitempty"`  // of one that holds money
	AmountReceived   *int64       `json:"amount_received,omitempty"`    // of a PaymentIntent
	LastPaymentError *stripeError `json:"last_payment_error,omitempty"` // of a declined one
	PaymentIntent    string       `json:"payment_intent,omitempty"`     // of a Refund
	FailureReason    string       `json:"failure_reason,omitempty"`     // of a failed Refund
	TransferGroup    string       `json:"transfer_group,omitempty"`     // of a Transfer
	Reversed         *bool        `json:"reversed,omitempty"`           // of a Transfer
}

type stripeError struct {
	Type          string        `json:"type"`
	Code          string        `json:"code,omitempty"`
	DeclineCode   string        `json:"decline_code,omitempty"`
	Message       string        `json:"message"`
	Param         string        `json:"param,omitempty"`
	AdviceCode    string        `json:"advice_code,omitempty"`
	NetworkAdvice string        `json:"network_advice_code,omitempty"`
	PaymentIntent *stripeObject `json:"payment_intent,omitempty"`
}

// nextAction sends the payer to their bank.
type nextAction struct {
	Type     string   `json:"type"`
	Redirect redirect `json:"redirect_to_url"`
}

type redirect struct {
	URL       string  `json:"url"`
	ReturnURL *string `json:"return_url"`
}

type stripeErrorBody struct {
	Error stripeError `json:"error"`
}

// stripeList is a list or a page of a search.
type stripeList struct {
	Object  string         `json:"object"`
	URL     string         `json:"url"`
	HasMore bool           `json:"has_more"`
	Data    []stripeObject `json:"data"`
}

// describeStripe renders a record; charge is the charge that a refund refunds.
func describeStripe(rec record, i, charge int, refund bool) stripeObject {
	amount := toStripeAmount(rec.amount, string(rec.currency[:]))
	o := stripeObject{
		ID: stripeID(rec.kind(), i), Amount: amount, Currency: string(rec.currency[:]),
		Created: time.Unix(0, rec.at).Unix(), Metadata: map[string]string{referenceMember: rec.reference()},
	}
	if key := rec.key(); key != "" {
		o.Metadata[keyMember] = key
	}
	switch rec.kind() {
	case psp.KindTransfer:
		o.Object, o.TransferGroup, o.Reversed, o.Livemode = "transfer", rec.reference(), new(bool), new(bool)
	case psp.KindRefund:
		o.Object, o.Status = "refund", "succeeded"
		if refund {
			o.PaymentIntent = stripeID(psp.KindCharge, charge)
		}
	default:
		o.Object, o.Status, o.AmountReceived, o.Livemode = "payment_intent", "succeeded", &amount, new(bool)
		o.CaptureMethod, o.ClientSecret = "automatic_async", o.ID+"_secret_"+strings.Repeat("0", 24)
		o.stand(rec.outcome)
	}
	return o
}

// stand sets the status of a PaymentIntent by its outcome.
func (o *stripeObject) stand(v outcome) {
	if v == approved {
		return
	}
	o.AmountReceived = new(int64)
	switch v {
	case needsAction:
		o.Status, o.NextAction = "requires_action", &nextAction{"redirect_to_url", redirect{URL: "https://bank.example/3ds/" + o.ID}}
	case processing:
		o.Status = "processing"
	case authorized:
		o.Status, o.AmountCapturable = "requires_capture", o.Amount
	case canceledCharge:
		o.Status = "canceled"
	default:
		e := stripeDecline(v)
		o.Status, o.LastPaymentError = "requires_payment_method", &e
	}
}

// failed marks an object that had succeeded as failed since.
func (o *stripeObject) failed() {
	switch o.Object {
	case "refund":
		o.Status, o.FailureReason = "failed", "expired_or_canceled_card"
	case "payment_intent":
		e := stripeDecline(failedSince)
		o.Status, o.AmountReceived, o.LastPaymentError = "requires_payment_method", new(int64), &e
	}
}

// stripeDecline renders a decline as an error of a card, or of a request.
func stripeDecline(v outcome) stripeError {
	d := outcomes[v]
	e := stripeError{Type: "invalid_request_error", Message: d.Message}
	switch v {
	case invalidPaymentMethod:
		e.Code, e.Param = "resource_missing", "payment_method"
	case invalidDestination:
		e.Code, e.Param = "resource_missing", "destination"
	case chargeNotFound:
		e.Code, e.Param = "resource_missing", "payment_intent"
	case accountClosed:
		e.Code = "account_closed"
	case refundExceedsCharge:
		e.Param = "amount"
	case currencyMismatch:
		e.Param = "currency"
	default:
		e.Type, e.Code, e.DeclineCode = "card_error", "card_declined", d.Code
	}
	switch v {
	case authenticationRequired:
		e.Code = d.Code
	case authenticationFailed: // which is no error of the card's
		e.Type, e.Code, e.DeclineCode = "invalid_request_error", d.Code, ""
	case tryAgainLater:
		e.AdviceCode, e.NetworkAdvice = "try_again_later", "24"
	case doNotTryAgain:
		e.AdviceCode, e.NetworkAdvice = "do_not_try_again", "03"
	default: // no advice
	}
	return e
}

// made reports whether a record has an object: a request that was refused outright has
// none.
func (r *record) made() bool {
	return r.outcome == approved || r.outcome.open() || (r.outcome != failedSince && r.outcome != happened && r.kind() == psp.KindCharge && (r.outcome == authenticationFailed || stripeDecline(r.outcome).Type == "card_error"))
}

// stripeEvent is the notice that Stripe would send: of record i, about object id.
func stripeEvent(rec record, i, id, charge int, refund, failed bool) any {
	if failed {
		rec.outcome = approved // as it had been
	}
	o := describeStripe(rec, id, charge, refund)
	var before map[string]string
	if failed {
		before = map[string]string{"status": o.Status}
		o.failed()
	}
	kind := map[string]string{
		"payment_intent succeeded": "payment_intent.succeeded", "payment_intent requires_payment_method": "payment_intent.payment_failed",
		"payment_intent requires_action": "payment_intent.requires_action", "payment_intent processing": "payment_intent.processing",
		"payment_intent requires_capture": "payment_intent.amount_capturable_updated", "payment_intent canceled": "payment_intent.canceled",
		"refund succeeded": "refund.created", "refund failed": "refund.failed", "transfer ": "transfer.created",
	}[o.Object+" "+o.Status]
	type data struct {
		Object stripeObject      `json:"object"`
		Before map[string]string `json:"previous_attributes,omitempty"`
	}
	return struct {
		ID         string `json:"id"`
		Object     string `json:"object"`
		APIVersion string `json:"api_version"`
		Created    int64  `json:"created"`
		Livemode   bool   `json:"livemode"`
		Type       string `json:"type"`
		Data       data   `json:"data"`
	}{eventID(i), "event", StripeAPIVersion, o.Created, false, kind, data{o, before}}
}

// StripeAccount is the account of every key in the Stripe-shaped API.
const StripeAccount = "acct_1Simulator"

// stripeHandler serves /v1/… in Stripe's spelling.
func (s *Simulator) stripeHandler() http.Handler {
	mux := http.NewServeMux()
	d := dialect{read: s.readStripeCall, outcome: s.writeStripeOutcome, refuse: refuseStripe}
	mux.HandleFunc("POST /v1/payment_intents", s.move(psp.KindCharge, d))
	mux.HandleFunc("POST /v1/payment_intents/{id}/confirm", s.acts(confirmedAgain))
	mux.HandleFunc("POST /v1/payment_intents/{id}/capture", s.acts(approved))
	mux.HandleFunc("POST /v1/payment_intents/{id}/cancel", s.acts(canceledCharge))
	mux.HandleFunc("POST /v1/transfers", s.move(psp.KindTransfer, d))
	mux.HandleFunc("POST /v1/refunds", s.move(psp.KindRefund, d))
	mux.HandleFunc("GET /v1/payment_intents/search", s.ask(s.searchPaymentIntents))
	mux.HandleFunc("GET /v1/transfers", s.ask(s.listTransfers))
	mux.HandleFunc("GET /v1/refunds", s.ask(s.listRefunds))
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.ask(s.retrieve(psp.KindCharge)))
	mux.HandleFunc("GET /v1/transfers/{id}", s.ask(s.retrieve(psp.KindTransfer)))
	mux.HandleFunc("GET /v1/refunds/{id}", s.ask(s.retrieve(psp.KindRefund)))
	mux.HandleFunc("GET /v1/account", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"id": StripeAccount, "object": "account"})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuseStripe(w, http.StatusNotFound, "invalid", "url_invalid", fmt.Sprintf("Unrecognized request URL (%s: %s).", r.Method, r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer sk_") {
			refuseStripe(w, http.StatusUnauthorized, "invalid", "", "You did not provide an API key, or not one that starts with sk_.")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// record copies durable record i and, of a refund, the number of its charge.
func (s *Simulator) record(i int) (rec record, charge int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < 0 || i >= s.durable {
		return record{}, 0, false
	}
	return *s.book.at(i), int(s.book.refundOf[uint32(i)]), true
}

func (s *Simulator) writeStripeOutcome(w http.ResponseWriter, rec record, i int) {
	id := i
	s.mu.Lock()
	if n, ok := s.book.actOf[uint32(i)]; ok {
		id = int(n)
	}
	s.mu.Unlock()
	o := s.stripeObject(rec, id)
	if rec.outcome == approved || rec.outcome.open() || rec.outcome == canceledCharge {
		write(w, http.StatusOK, o)
		return
	}
	e, status := stripeDecline(rec.outcome), http.StatusBadRequest
	switch {
	case e.Type == "card_error":
		status, e.PaymentIntent = http.StatusPaymentRequired, &o
	case e.Code == "resource_missing":
		status = http.StatusNotFound
	}
	write(w, status, stripeErrorBody{e})
}

func (s *Simulator) stripeObject(rec record, i int) stripeObject {
	whole, charge, ok := s.record(i)
	o := describeStripe(rec, i, charge, ok && rec.kind() == psp.KindRefund && rec.outcome == approved)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.book.manual[uint32(i)] {
		o.CaptureMethod = "manual"
		o.Amount = toStripeAmount(whole.amount, o.Currency)
	}
	if c := s.captures[i]; c != "" && o.Status == "succeeded" {
		o.Metadata["homeward_capture"] = c
	}
	return o
}

// standingStripe is stripeObject in its present state.
func (s *Simulator) standingStripe(rec record, i int) stripeObject {
	s.mu.Lock()
	if a, ok := s.book.acts[uint32(i)]; ok {
		rec.outcome, rec.amount = a.outcome, a.amount
	}
	s.mu.Unlock()
	o := s.stripeObject(rec, i)
	s.mu.Lock()
	_, failed := s.book.failed[uint32(i)]
	s.mu.Unlock()
	if failed {
		o.failed()
	}
	return o
}

func refuseStripe(w http.ResponseWriter, status int, class, code, message string) {
	e := stripeError{Type: "api_error", Code: code, Message: message}
	switch class {
	case "invalid":
		e.Type = "invalid_request_error"
	case "key_reuse":
		status, e.Type, e.Code = http.StatusBadRequest, "idempotency_error", ""
	}
	write(w, status, stripeErrorBody{e})
}

// ask answers a look-up after the latency, unless look-ups are off.
func (s *Simulator) ask(answer func(r *http.Request) (any, *stripeError)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.noLookup {
			refuseStripe(w, http.StatusNotImplemented, "server", "unsupported", "This provider answers no questions.")
			return
		}
		if (fate{delay: s.Faults().Latency}).pause(r.Context()) != nil {
			return
		}
		v, e := answer(r)
		switch {
		case e == nil:
			write(w, http.StatusOK, v)
		case e.Code == "resource_missing":
			write(w, http.StatusNotFound, stripeErrorBody{*e})
		default:
			write(w, http.StatusBadRequest, stripeErrorBody{*e})
		}
	}
}

func badStripeQuery(format string, args ...any) *stripeError {
	return &stripeError{Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// byMetadata is the one supported query.
var byMetadata = regexp.MustCompile(`^metadata\['` + referenceMember + `'\]:'((?:[^'\\]|\\.)*)'$`)

func (s *Simulator) searchPaymentIntents(r *http.Request) (any, *stripeError) {
	m := byMetadata.FindStringSubmatch(r.URL.Query().Get("query"))
	if m == nil {
		return nil, badStripeQuery("query: only metadata['%s']:'…' is understood", referenceMember)
	}
	return s.search("search_result", "/v1/payment_intents/search", psp.KindCharge, unescape(m[1])), nil
}

func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func (s *Simulator) listTransfers(r *http.Request) (any, *stripeError) {
	group := r.URL.Query().Get("transfer_group")
	if group == "" {
		return nil, badStripeQuery("transfer_group: this provider lists the transfers of a group only")
	}
	return s.search("list", "/v1/transfers", psp.KindTransfer, group), nil
}

// search lists the approval under a reference, and the last decline.
func (s *Simulator) search(object, at string, kind psp.Kind, reference string) stripeList {
	list := stripeList{Object: object, URL: at, Data: []stripeObject{}}
	s.mu.Lock()
	ref := s.book.byRef[string(letterOf(kind))+reference]
	s.mu.Unlock()
	for _, n := range slices.Compact([]uint32{ref.last, ref.approved}) { // newest first
		if rec, _, ok := s.record(int(n) - 1); ok && rec.made() {
			list.Data = append(list.Data, s.standingStripe(rec, int(n)-1))
		}
	}
	return list
}

// listRefunds lists the newest first, a page at a time.
func (s *Simulator) listRefunds(r *http.Request) (any, *stripeError) {
	q := r.URL.Query()
	limit := 10
	if v := q.Get("limit"); v != "" {
		var err error
		if limit, err = strconv.Atoi(v); err != nil || limit < 1 || limit > 100 {
			return nil, badStripeQuery("limit: must be 1 to 100")
		}
	}
	s.mu.Lock()
	i := s.durable - 1
	s.mu.Unlock()
	if v := q.Get("starting_after"); v != "" {
		id, _ := fromStripeID(psp.KindRefund, v)
		after, ok := parseID(psp.KindRefund, id)
		if !ok {
			return nil, badStripeQuery("starting_after: no such refund")
		}
		i = min(i, after-1)
	}
	list := stripeList{Object: "list", URL: "/v1/refunds", Data: []stripeObject{}}
	for ; i >= 0; i-- {
		rec, _, ok := s.record(i)
		if !ok || rec.kind() != psp.KindRefund || rec.outcome != approved {
			continue
		}
		o := s.standingStripe(rec, i)
		if of := q.Get("payment_intent"); of != "" && of != o.PaymentIntent {
			continue
		}
		if len(list.Data) == limit {
			list.HasMore = true
			break
		}
		list.Data = append(list.Data, o)
	}
	return list, nil
}

func (s *Simulator) retrieve(kind psp.Kind) func(r *http.Request) (any, *stripeError) {
	return func(r *http.Request) (any, *stripeError) {
		id, _ := fromStripeID(kind, r.PathValue("id"))
		if i, ok := parseID(kind, id); ok {
			if rec, _, ok := s.record(i); ok && rec.kind() == kind && rec.made() && !s.isAct(i) {
				return s.standingStripe(rec, i), nil
			}
		}
		e := badStripeQuery("No such object.")
		e.Code = "resource_missing"
		return nil, e
	}
}
