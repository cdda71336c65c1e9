package gateway

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/claim"
)

// answer is a whole reply of the upstream, as rules read it.
type answer struct {
	status int
	header http.Header
	body   []byte

	read     bool // of the body
	readable bool // as JSON
	value    any
}

// json is the body's value, unpacked; ok is false if it cannot be read: it is no JSON, has a member twice,
// is packed otherwise than by gzip or deflate, or is longer than what is kept of it.
func (a *answer) json() (v any, ok bool) {
	if !a.read {
		a.read = true
		if plain, err := claim.Canonical(a.plain(), claim.CanonicalOptions{}); err == nil {
			a.value, a.readable = decode(plain)
		}
	}
	return a.value, a.readable
}

// plain is the body as it was before it was packed; nil if that cannot be told.
func (a *answer) plain() []byte {
	if len(a.body) > replyBytes { // its end is missing
		return nil
	}
	var z io.ReadCloser
	var err error
	switch strings.ToLower(strings.Join(a.header["Content-Encoding"], ",")) {
	case "", "identity":
		return a.body
	case "gzip", "x-gzip":
		z, err = gzip.NewReader(bytes.NewReader(a.body))
	case "deflate":
		z, err = zlib.NewReader(bytes.NewReader(a.body))
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	defer func() { _ = z.Close() }()
	plain, err := io.ReadAll(io.LimitReader(z, replyBytes+1)) // a small one may be packed from one that fills memory
	if err != nil || len(plain) > replyBytes {
		return nil
	}
	return plain
}

// fits reports whether r is about a. sure is false if that cannot be told, as r is about a member, and
// the body cannot be read.
func (r *Reply) fits(a *answer) (yes, sure bool) {
	if len(r.Status) > 0 && !slices.ContainsFunc(r.Status, func(s string) bool { return matches(s, a.status) }) {
		return false, true
	}
	switch {
	case r.Header != "":
		values := a.header[http.CanonicalHeaderKey(r.Header)]
		return len(values) > 0 && (len(r.Is) == 0 || slices.ContainsFunc(values, func(v string) bool { return r.names(v) })), true
	case r.Member != "" && a.status == http.StatusNoContent:
		return false, true
	case r.Member != "":
		v, ok := a.json()
		if !ok {
			return false, false
		}
		v, ok = at(v, r.Member)
		if v == nil && len(r.Is) == 0 && r.Outcome != unclear { // null is nothing that was found
			return false, true
		}
		return ok && (len(r.Is) == 0 || r.names(v)), true
	}
	return true, true
}

// names reports whether value is one of r.Is, which are text.
func (r *Reply) names(value any) bool {
	want, ok := text(value)
	_, number := value.(json.Number)
	return ok && slices.ContainsFunc(r.Is, func(is any) bool {
		if is == want || !number || is == "" {
			return is == want
		}
		n, ok := text(json.Number(fmt.Sprint(is)))
		return ok && n == want
	})
}

// text is a value as people write it, and a number in its one spelling; ok is false if it is no text, number,
// true, false or null.
func text(v any) (out string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case nil:
		return "null", true
	case int, int64, uint64, float64, json.Number:
		plain, err := json.Marshal(v)
		if err == nil {
			plain, err = claim.Canonical(plain, claim.CanonicalOptions{})
		}
		return string(plain), err == nil
	}
	return "", false
}

// spelled are all with their values as text, so that a request that is stored has them alike.
func spelled(all []Reply) []Reply {
	all = slices.Clone(all)
	for i := range all {
		is := slices.Clone(all[i].Is)
		for j := range is {
			is[j], _ = text(is[j])
		}
		all[i].Is = is
	}
	return all
}

// matches reports whether s, as 404 or 4xx, is about status.
func matches(s string, status int) bool {
	if s[1:] == "xx" {
		return status/100 == int(s[0]-'0')
	}
	return s == strconv.Itoa(status)
}

// meaning is the outcome of a by the first of rules that fits; unknown if none does, or if it cannot be
// told whether one does: what a rule behind it says, it says of all others. repeat: it is believed of an
// answer to a repeat, too.
func meaning(a *answer, rules ...[]Reply) (outcome string, repeat bool) {
	for _, some := range rules {
		for i := range some {
			r := &some[i]
			switch yes, sure := r.fits(a); {
			case !sure:
				return unclear, false
			case yes:
				return r.Outcome, r.Repeat || r.Outcome == done
			}
		}
	}
	return unclear, false
}
