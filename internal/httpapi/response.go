package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
)

// response is one exchange: the writer, who is asking, and what has been
// answered. It travels as the http.ResponseWriter, which saves a context.
type response struct {
	http.ResponseWriter
	tenant claim.Tenant
	status int // 0 until an answer is written
	began  time.Time
	// timed: the connection has a read deadline for the body.
	timed bool
}

// Unwrap lets http.ResponseController reach the connection.
func (res *response) Unwrap() http.ResponseWriter { return res.ResponseWriter }

func (res *response) WriteHeader(status int) {
	res.status = status
	res.ResponseWriter.WriteHeader(status)
}

// send writes a whole answer. body is only read.
func (res *response) send(status int, contentType string, body []byte) {
	h := res.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	res.WriteHeader(status)
	// A failed write means that the client is gone; there is nobody to tell.
	_, _ = res.Write(body)
}

// Header names in the spelling that http.Header keys have, so that they can be
// set without being canonicalised on every request.
const (
	headerKey             = "Idempotency-Key"
	headerReplayed        = "Idempotent-Replayed"
	headerExpiresAt       = "Idempotency-Expires-At"
	headerOriginalRequest = "Idempotency-Original-Request-At"
	headerHome            = "Homeward-Home-Region"
	headerServedBy        = "Homeward-Served-By"
	headerHops            = "Homeward-Hops"
	headerTraceparent     = "Traceparent"

	replyHeaders = 7 // the most that sendReply adds to the remembered ones
)

// sendReply writes what the home answered: the remembered part to the byte,
// this exchange's part in headers beside it.
func (res *response) sendReply(reply *claim.Reply) {
	h := res.Header()
	// One array for all values: this is every request's way out.
	values := make([]string, 0, replyHeaders+len(reply.Response.Header))
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set(headerHome, reply.Home)
	set(headerServedBy, reply.ServedBy)
	set(headerHops, strconv.Itoa(reply.Hops))
	if !reply.ExpiresAt.IsZero() {
		set(headerExpiresAt, timestamp(reply.ExpiresAt))
	}
	if reply.Replayed {
		set(headerReplayed, "true")
		set(headerOriginalRequest, timestamp(reply.FirstUse))
	}
	for _, f := range reply.Response.Header {
		set(http.CanonicalHeaderKey(f.Name), f.Value)
	}
	body := reply.Response.Body
	set("Content-Length", strconv.Itoa(len(body)))
	res.WriteHeader(reply.Response.Status)
	_, _ = res.Write(body) // as in send
}

// timestamp is how the API spells times: RFC 3339, UTC, whole seconds.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
