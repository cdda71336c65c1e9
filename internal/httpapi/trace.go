package httpapi

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
)

// traceparentLength is that of W3C trace context version 00, in characters.
const traceparentLength = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")

// traceparent returns the caller's trace context, or a new one that is not
// sampled. Trace ids have to differ, not to be secret.
func traceparent(r *http.Request) string {
	if values := r.Header[headerTraceparent]; len(values) == 1 && validTraceparent(values[0]) {
		return values[0]
	}
	var id [24]byte
	for i := 0; i < len(id); i += 8 {
		binary.BigEndian.PutUint64(id[i:], rand.Uint64())
	}
	id[0], id[16] = id[0]|1, id[16]|1 // all zeros are not valid
	text := make([]byte, 0, traceparentLength)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, id[:16])
	text = append(text, '-')
	text = hex.AppendEncode(text, id[16:])
	return string(append(text, "-00"...))
}

func validTraceparent(v string) bool {
	if len(v) != traceparentLength || v[:3] != "00-" || v[35] != '-' || v[52] != '-' {
		return false
	}
	return lowerHex(v[3:35], true) && lowerHex(v[36:52], true) && lowerHex(v[53:], false)
}

func lowerHex(s string, notZero bool) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
		if c != '0' {
			notZero = false
		}
	}
	return !notZero
}
