package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
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
