package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// maxBody bounds a request body in bytes, as the merchant's contract does.
const maxBody = 1 << 20

// Server time-outs.
const (
	readHeaderTimeout = 5 * time.Second
	// readTimeout bounds header and body. net/http lifts it once the body is read,
	// so it does not run while a call is held.
	readTimeout = 15 * time.Second
	// idleTimeout is longer than any client of ours keeps a connection, so that the
	// client closes it first and never writes to a closed one.
	idleTimeout = 2 * time.Minute
	// writeTimeout exceeds the longest latency and jitter together.
	writeTimeout = 5 * time.Minute
	// maxHeader is in bytes; a request needs a few hundred.
	maxHeader = 16 << 10
)

// NewServer returns a server for Handler with every time-out set, which answers 403 to pages of
// other origins. The caller listens, serves, and shuts it down before it closes the simulator.
func (s *Simulator) NewServer(addr string) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           ownOrigin(s.Handler()),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
	}
}

// ownOrigin refuses requests that a foreign page makes a browser on this machine send: a request of
// another origin, and one to a name that the page's owner points to this address (DNS rebinding).
// Callers name an address, localhost, or a host without a dot, as in Compose, for which no other
// DNS answers.
func ownOrigin(h http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && strings.Contains(host, ".") {
			refuse(w, http.StatusForbidden, "invalid", "foreign_host", "the simulator is called by an address, localhost or a host without a dot, not by "+host)
			return
		}
		if err := origins.Check(r); err != nil {
			refuse(w, http.StatusForbidden, "invalid", "foreign_origin", "the simulator takes no request of a page of another origin")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Handler returns the provider's API, see the package comment. To drop a reply it
// panics with http.ErrAbortHandler, on which net/http's server cuts the connection.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	plain := dialect{read: readCall, outcome: writeOutcome, refuse: refuse}
	mux.HandleFunc("POST /v1/charges", s.move(psp.KindCharge, plain))
	mux.HandleFunc("POST /v1/transfers", s.move(psp.KindTransfer, plain))
	mux.HandleFunc("POST /v1/refunds", s.move(psp.KindRefund, plain))
	mux.HandleFunc("GET /v1/lookup", s.serveLookup)
	mux.HandleFunc("GET /v1/movements", s.serveMovement)
	mux.HandleFunc("GET /_sim/summary", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.Summary()) })
	mux.HandleFunc("GET /_sim/stats", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.Stats()) })
	mux.HandleFunc("GET /_sim/effects", s.serveEffects)
	mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.Faults().wire()) })
	mux.HandleFunc("PUT /_sim/faults", s.serveSetFaults)
	mux.HandleFunc("POST /_sim/late/release", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, released{s.ReleaseLate()}) })
	mux.HandleFunc("POST /_sim/fail", s.serveFail)
	mux.HandleFunc("POST /_sim/unasked", s.serveUnasked)
	mux.HandleFunc("POST /_sim/act", s.serveAct)
	mux.HandleFunc("GET /_sim/statement", s.serveStatement)
	mux.HandleFunc("GET /_sim/webhooks", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.NoticeStats()) })
	mux.HandleFunc("PUT /_sim/webhooks", s.serveSetNotices)
	mux.HandleFunc("POST /_sim/webhooks/release", s.serveRelease)
	mux.HandleFunc("POST /_sim/webhooks/discard", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, released{s.DiscardNotices()}) })
	mux.Handle("/stripe/", http.StripPrefix("/stripe", s.stripeHandler()))
	mux.Handle("/adyen/", http.StripPrefix("/adyen", s.adyenHandler()))
	return mux
}

// moveBody is the request for a movement.
type moveBody struct {
	Reference   string `json:"reference"`
	Amount      int64  `json:"amount"`
	Currency    string `json:"currency"`
	Source      string `json:"source"`
	Description string `json:"description"`
}

// outcomeBody is an approval, or a decline in a look-up.
type outcomeBody struct {
	ID        string      `json:"id,omitempty"`
	Status    string      `json:"status"`
	Reference string      `json:"reference"`
	Amount    int64       `json:"amount"`
	Currency  string      `json:"currency"`
	Created   int64       `json:"created"` // s since the Unix epoch
	Disputed  int64       `json:"disputed,omitempty"`
	Error     *errorValue `json:"error,omitempty"`
}

type errorBody struct {
	Error errorValue `json:"error"`
}

type errorValue struct {
	Class   string `json:"class"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// released answers a request that ends a wait.
type released struct {
	Released int `json:"released"`
}

// dialect is how an API encodes a call, its outcome and a refusal.
type dialect struct {
	read    func(w http.ResponseWriter, r *http.Request, kind psp.Kind) (psp.Call, int, error)
	outcome func(w http.ResponseWriter, rec record, i int)
	refuse  func(w http.ResponseWriter, status int, class, code, message string)
	// firstAnswer: a key repeats its first answer, whatever parameters come with it.
	firstAnswer bool
}

func (s *Simulator) move(kind psp.Kind, d dialect) http.HandlerFunc {
	return s.moveBy(kind, d, func(call psp.Call) (record, int, error) {
		return s.decideAs(call, d.firstAnswer || s.ignoreParameters)
	})
}

// moveBy handles calls that decide decides.
func (s *Simulator) moveBy(kind psp.Kind, d dialect, decide func(psp.Call) (record, int, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		call, status, err := d.read(w, r, kind)
		if err != nil {
			d.refuse(w, status, "invalid", "invalid_request", err.Error())
			return
		}
		ctx := r.Context()
		fate := s.faults.draw()
		if fate.pause(ctx) != nil {
			return // the caller is gone, and nothing has happened
		}
		if fate.errorBefore {
			s.errorsBefore.Add(1)
			d.refuse(w, http.StatusServiceUnavailable, "server", "unavailable", "The provider is not available.")
			return
		}
		if fate.late {
			s.decideLater(call, fate.lateBy, decide)
			if fate.dropReply {
				s.dropped.Add(1)
				panic(http.ErrAbortHandler)
			}
			d.refuse(w, http.StatusGatewayTimeout, "server", "timeout", "The provider did not answer in time.")
			return
		}
		s.before(ctx, call)
		rec, i, err := decide(call)
		if err != nil {
			s.refuseUndecided(w, d, call, err)
			return
		}
		s.after(ctx, call)
		switch {
		case fate.dropReply:
			s.dropped.Add(1)
			panic(http.ErrAbortHandler)
		case fate.errorAfter:
			s.errorsAfter.Add(1)
			d.refuse(w, http.StatusInternalServerError, "server", "internal", "The provider failed.")
		default:
			d.outcome(w, rec, i)
		}
	}
}

func (s *Simulator) refuseUndecided(w http.ResponseWriter, d dialect, call psp.Call, err error) {
	switch {
	case errors.Is(err, errUnexpected):
		d.refuse(w, http.StatusBadRequest, "invalid", "payment_intent_unexpected_state", "You cannot do this to this PaymentIntent because of its status.")
		return
	case errors.Is(err, errNoMovement):
		d.refuse(w, http.StatusNotFound, "invalid", "resource_missing", "No such payment_intent.")
		return
	}
	if errors.Is(err, errKeyReuse) {
		s.logger.Warn("a provider key was reused with other parameters", "key", call.Key, "reference", call.Reference)
		d.refuse(w, http.StatusConflict, "key_reuse", "key_reuse", "The key was used with other parameters.")
		return
	}
	d.refuse(w, http.StatusServiceUnavailable, "server", "storage", err.Error())
}

// readCall reads and checks a request. The status goes with the error.
func readCall(w http.ResponseWriter, r *http.Request, kind psp.Kind) (psp.Call, int, error) {
	var m moveBody
	if status, err := readJSON(w, r, &m); err != nil {
		return psp.Call{}, status, fmt.Errorf("body: %w", err)
	}
	call := psp.Call{
		Kind: kind, Key: r.Header.Get("Idempotency-Key"), Reference: m.Reference,
		Amount: m.Amount, Currency: m.Currency, Source: m.Source, Description: m.Description,
	}
	return call, http.StatusBadRequest, validate(call)
}

// readJSON reads a body of one JSON value. The status goes with the error.
func readJSON(w http.ResponseWriter, r *http.Request, to any) (int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return unreadable(err)
	}
	return http.StatusBadRequest, decodeStrictly(bytes.NewReader(body), to)
}

func unreadable(err error) (int, error) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("over %d bytes", tooLarge.Limit)
	}
	return http.StatusBadRequest, errors.New("could not be read")
}

// writeOutcome renders a record. The bytes depend on nothing else, which is what
// makes every repeat identical.
func writeOutcome(w http.ResponseWriter, rec record, i int) {
	if rec.outcome != approved {
		write(w, http.StatusPaymentRequired, errorBody{declineOf(rec)})
		return
	}
	write(w, http.StatusOK, describe(rec, i))
}

func describe(rec record, i int) outcomeBody {
	out := outcomeBody{
		Status: "declined", Reference: rec.reference(), Amount: rec.amount,
		Currency: string(rec.currency[:]), Created: time.Unix(0, rec.at).Unix(),
	}
	if rec.outcome == approved {
		out.ID, out.Status = formatID(rec.kind(), i), "succeeded"
	} else {
		d := declineOf(rec)
		out.Error = &d
	}
	return out
}

func declineOf(rec record) errorValue {
	d := outcomes[rec.outcome]
	return errorValue{Class: d.Class.String(), Code: d.Code, Message: d.Message}
}

func (s *Simulator) serveLookup(w http.ResponseWriter, r *http.Request) {
	if s.noLookup {
		refuse(w, http.StatusNotImplemented, "unsupported", "unsupported", "This provider has no look-up.")
		return
	}
	q := r.URL.Query()
	kind, reference := psp.Kind(q.Get("kind")), q.Get("reference")
	if kind != psp.KindCharge && kind != psp.KindTransfer && kind != psp.KindRefund {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", "kind: must be charge, transfer or refund")
		return
	}
	if !visible(reference) {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", fmt.Sprintf("reference: must be 1 to %d visible ASCII characters", maxText))
		return
	}
	f := s.Faults()
	if (fate{delay: f.Latency}).pause(r.Context()) != nil {
		return
	}
	rec, i, found, err := s.lookup(kind, reference)
	switch {
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "server", "storage", err.Error())
	case !found:
		refuse(w, http.StatusNotFound, "not_found", "not_found", "There is no record of this reference.")
	default:
		write(w, http.StatusOK, s.standing(rec, i))
	}
}

func (s *Simulator) serveEffects(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	page := make([]Effect, 0, effectsPage)
	for i, more := 0, true; more; {
		page, i, more = s.effects(page[:0], i)
		for k := range page {
			if enc.Encode(&page[k]) != nil {
				return // the reader has disconnected
			}
		}
	}
}

func (s *Simulator) serveSetFaults(w http.ResponseWriter, r *http.Request) {
	f, err := parseFaults(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", err.Error())
		return
	}
	s.faults.set(f)
	write(w, http.StatusOK, f.wire())
}

func refuse(w http.ResponseWriter, status int, class, code, message string) {
	write(w, status, errorBody{errorValue{Class: class, Code: code, Message: message}})
}

func write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // no value above can fail to encode; the error is reported all the same
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a reader that disconnected retries
}
