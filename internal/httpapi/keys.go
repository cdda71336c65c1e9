package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// maxMint is how many keys one request may ask for: about 40 KB of answer.
const maxMint = 1000

// mint makes stamped keys whose home is this region, or another one while this takes no
// new homes. It stores nothing, so an unused key costs nothing.
func (s *server) mint(res *response, r *http.Request) error {
	if err := checkMedia(r); err != nil {
		return err
	}
	body, err := s.readBody(res, r)
	if err != nil {
		return err
	}
	count, err := onlyNumber(body, "count", maxMint)
	if err != nil {
		return err
	}
	home, ok := s.NewKeys()
	if !ok {
		return errNoNewKeys
	}
	answer := struct {
		Keys []string `json:"keys"`
	}{make([]string, count)}
	for i := range answer.Keys {
		if answer.Keys[i], err = claim.Stamp(home, s.Random); err != nil {
			return err
		}
	}
	return res.sendJSON(http.StatusOK, answer)
}

// onlyNumber reads the body of a request that has one member, a whole number from 1 to most.
func onlyNumber(body []byte, only string, most int) (int, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return 0, &payment.InvalidError{Reason: "must be a JSON object"}
	}
	for name := range members {
		if name != only {
			return 0, &payment.InvalidError{Member: payment.MemberName(name), Reason: "is not a member of this request; remove it"}
		}
	}
	// Canonical integers are plain digits; an absent number is not one.
	n, err := strconv.Atoi(string(members[only]))
	if err != nil || n < 1 || n > most {
		return 0, &payment.InvalidError{Member: only, Reason: fmt.Sprintf("must be a whole number from 1 to %d", most)}
	}
	return n, nil
}

// errNoNewKeys is as retryable as an unavailable home: an operator is about to activate
// a region.
var errNoNewKeys = func() error {
	p := problem.New(problem.HomeUnavailable, "No region takes new keys now. Send the same request again later.")
	p.RetryAfter = retryHome
	return &refusal{Problem: p}
}()

type keyStatus struct {
	Key         string          `json:"key"`
	State       string          `json:"state"`
	HomeRegion  string          `json:"home_region"`
	Attempts    uint32          `json:"attempts"`
	FirstUsedAt string          `json:"first_used_at"`
	ExpiresAt   string          `json:"expires_at"`
	FreeAt      string          `json:"free_at"`
	Object      string          `json:"object"`
	Timeline    []timelineEntry `json:"timeline"`
}

type timelineEntry struct {
	At     string `json:"at"`
	Event  string `json:"event"`
	Region string `json:"region"`
	Fence  uint64 `json:"fence"`
	Detail string `json:"detail,omitempty"`
}

// stateExpired is shown for a claim whose replay window is over.
const stateExpired = "EXPIRED"

// inspect returns the history of a merchant's own key. The key is spelled as in the
// Idempotency-Key header, percent-encoded.
func (s *server) inspect(res *response, r *http.Request) error {
	value, err := claim.ParseKey(r.PathValue("key"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
	defer cancel()
	status, found, err := s.Router.Inspect(ctx, claim.Key{Tenant: res.tenant.ID, Value: value}, hint(r))
	if err != nil {
		return err
	}
	if !found || status.Age == claim.Gone {
		return errNoSuchKey
	}
	rec := &status.Record
	answer := keyStatus{
		Key: rec.Key.Value, State: rec.State.String(), HomeRegion: rec.Home, Attempts: rec.Attempts,
		FirstUsedAt: timestamp(rec.FirstUse), ExpiresAt: timestamp(status.ExpiresAt), FreeAt: timestamp(status.FreeAt),
		Object: rec.Minted.ID, Timeline: make([]timelineEntry, len(status.Timeline)),
	}
	if status.Age == claim.Expired {
		answer.State = stateExpired
	}
	for i, e := range status.Timeline {
		answer.Timeline[i] = timelineEntry{
			At: e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Event: string(e.Event), Region: e.Region, Fence: e.Fence,
			Detail: publicDetail(&e),
		}
	}
	res.Header()[headerHome] = []string{rec.Home}
	return res.sendJSON(http.StatusOK, answer)
}

// cancelPath is the path in the fingerprint of every request that gives a key up.
const cancelPath = "/v1/idempotency-keys/cancel"

// cancelKey gives a merchant's own key up. It is routed as a payment under the key is, so that one row
// decides which of both came first. The answer is of the moment: nothing of it is stored.
func (s *server) cancelKey(res *response, r *http.Request) error {
	a := s.newAnswer(res, payment.CancelKey)
	return s.finish(res, r, &a, s.giveUp(res, r, &a))
}

func (s *server) giveUp(res *response, r *http.Request, a *Answer) error {
	trace := traceparent(r)
	res.set(headerTraceparent, trace)
	value, err := claim.ParseKey(r.PathValue("key"))
	if err != nil {
		return err
	}
	if err := s.noMembers(res, r); err != nil {
		return err
	}
	a.Key = value
	stamp, _ := claim.ReadStamp(value)
	if home, ok := s.HomeOf(stamp); ok {
		a.Home = home
		res.set(headerHome, home)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.Limits.Request)
	defer cancel()
	reply, err := s.Router.Do(ctx, claim.Request{
		Key:       claim.Key{Tenant: res.tenant.ID, Value: value},
		Operation: claim.CancelKey,
		Input: claim.FingerprintInput{
			Method: http.MethodPost, Path: cancelPath, Tenant: res.tenant.ID, ContentType: mediaJSON, Canonical: []byte("{}"),
		},
		Stamp: stamp, TraceParent: trace, Began: res.began,
	}, hint(r))
	a.Hops = reply.Hops
	if reply.Home != "" {
		a.Home = reply.Home
	}
	if err != nil {
		res.setRoute(&reply)
		return err
	}
	a.ServedBy = reply.ServedBy
	s.explain(res, &reply.Response)
	if res.stripe != nil && reply.Response.Status >= http.StatusBadRequest {
		if err := res.asStripe(&reply.Response); err != nil {
			return err
		}
	}
	res.sendReply(&reply)
	return nil
}

// noMembers reads the body of a request that has none, or an empty object.
func (s *server) noMembers(res *response, r *http.Request) error {
	if named := r.URL.Query(); len(named) > 0 { // of a form, see withQuery
		return &payment.InvalidError{Reason: "has no query here; remove it"}
	}
	if r.ContentLength == 0 {
		return nil
	}
	if err := checkMedia(r); err != nil {
		return err
	}
	body, err := s.readBody(res, r)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return &payment.InvalidError{Reason: "must be a JSON object"}
	}
	for name := range members {
		return &payment.InvalidError{Member: payment.MemberName(name), Reason: "is not a member of this request; remove it"}
	}
	return nil
}

// publicDetail is the detail of an entry about the merchant's payment. The detail of
// other events may name nodes.
func publicDetail(e *claim.AuditEntry) string {
	switch e.Event {
	case claim.EventClaimed, claim.EventAttempt, claim.EventDeferred, claim.EventReleased, claim.EventSettled, claim.EventGivenUp, claim.EventClosed:
		return e.Detail
	default:
		return ""
	}
}

func (res *response) sendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	res.send(status, mediaJSON, body)
	return nil
}
