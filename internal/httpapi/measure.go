package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// measure records how long an answer took, by its route: a path may hold a key.
func (s *server) measure(pattern string, res *response, r *http.Request) {
	if s.took == nil {
		return
	}
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		path = pattern // of a method that the route does not have
	}
	status := res.status
	if status == 0 { // ServeHTTP answers for a handler that panicked
		status = http.StatusInternalServerError
	}
	s.took.Took(r.Context(), time.Since(res.began), method(r.Method), path, statusText(status))
}

// method returns a known method, or OpenTelemetry's value for any other.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return name
	default:
		return "_OTHER"
	}
}

// statusText formats the usual statuses without allocating.
func statusText(status int) string {
	switch status {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	case http.StatusPaymentRequired:
		return "402"
	default:
		return strconv.Itoa(status)
	}
}
