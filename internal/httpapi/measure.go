package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/internal/span"
)

// measure records how long an answer took, by its route: a path may hold a key.
func (s *server) measure(pattern string, res *response, r *http.Request) {
	if s.took == nil || !claim.Livemode(res.tenant.ID) {
		return
	}
	status := res.status
	if status == 0 { // ServeHTTP answers for a handler that panicked
		status = http.StatusInternalServerError
	}
	s.took.Took(r.Context(), time.Since(res.began), method(r.Method), pathOf(pattern), strconv.Itoa(status))
}

// unclaimed are the codes of refusals because no claim could be made, with the outcomes of such requests.
var unclaimed = map[problem.Code]string{problem.StoreUnavailable: meter.Unavailable, problem.HomeUnavailable: meter.HomeUnavailable}

// movesMoney reports whether the request moves live money: metrics count no other.
func (res *response) movesMoney() bool {
	return res.moves != "" && claim.Livemode(res.tenant.ID) && !res.testKey
}

// turnedAway counts a request that err refuses before it gets to the router, which counts the others, if
// it moves money and no claim could be made. It reports whether it did.
func (s *server) turnedAway(res *response, err error) bool {
	if err == nil || !res.movesMoney() {
		return false
	}
	p, _ := problemOf(err)
	outcome := unclaimed[p.Code]
	if outcome == "" {
		return false
	}
	s.requests.Add(1, string(res.moves), outcome, "", span.WayLocal)
	return true
}

// pathOf returns the path of a pattern, which may name a method.
func pathOf(pattern string) string { return pattern[strings.IndexByte(pattern, ' ')+1:] }

// method returns a known method, or OpenTelemetry's value for any other.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return name
	default:
		return "_OTHER"
	}
}
