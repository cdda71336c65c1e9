package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// answer is a whole reply of the upstream, as rules read it.
type answer struct {
	status int
	header http.Header
	body   []byte

	read  bool // of the body
	value any  // nil if it is no JSON
}

// fits reports whether r is about a.
func (r *Reply) fits(a *answer) bool {
	if len(r.Status) > 0 && !slices.ContainsFunc(r.Status, func(s string) bool { return matches(s, a.status) }) {
		return false
	}
	switch {
	case r.Header != "":
		values := a.header[http.CanonicalHeaderKey(r.Header)]
		return len(values) > 0 && (len(r.Is) == 0 || slices.ContainsFunc(values, r.names))
	case r.Member != "":
		if !a.read {
			a.read = true
			a.value, _ = decode(a.body)
		}
		v, ok := at(a.value, r.Member)
		return ok && (len(r.Is) == 0 || r.names(text(v)))
	}
	return true
}

// names reports whether value is one of r.Is.
func (r *Reply) names(value string) bool {
	return slices.ContainsFunc(r.Is, func(is any) bool { return text(is) == value })
}

// text is a value as people write it.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// matches reports whether s, as 404 or 4xx, is about status.
func matches(s string, status int) bool {
	if s[1:] == "xx" {
		return status/100 == int(s[0]-'0')
	}
	return s == strconv.Itoa(status)
}

// meaning is the outcome of a by the first of rules that fits; unknown if none does. repeat: it is
// believed of an answer to a repeat, too.
func meaning(a *answer, rules ...[]Reply) (outcome string, repeat bool) {
	for _, some := range rules {
		for i := range some {
			if r := &some[i]; r.fits(a) {
				return r.Outcome, r.Repeat || r.Outcome == done
			}
		}
	}
	return unclear, false
}
