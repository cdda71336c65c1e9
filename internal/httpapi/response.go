package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// response is one exchange: the writer, the caller, and the answer so far. It is passed
// as the http.ResponseWriter, which saves a context.
type response struct {
	http.ResponseWriter
	tenant claim.Tenant
	status int // 0 until an answer is written
	code   problem.Code
	began  time.Time
	// timed: the connection has a read deadline for the body.
	timed bool
	// intake counts the request's body, of which held bytes have arrived; nil if none is
	// read.
	intake *intake
	held   int64
	// stripe is nil but for a request that carries Stripe-Version.
	stripe *stripeExchange
	// patience is the context of a request that may have to wait.
	patience patience
	// values backs the values of set: one array for all, as every request uses it.
	values [maxValues]string
	used   int
}

// maxValues is how many headers a reply to a movement has: 4 of the request, 6 of the
// exchange, and Content-Type and Location of the object.
const maxValues = 12

// set sets a header, whose name is spelled as the keys of http.Header are.
func (res *response) set(name, value string) {
	if res.used == len(res.values) {
		res.Header()[name] = []string{value}
		return
	}
	at := res.used
	res.used++
	res.values[at] = value
	res.Header()[name] = res.values[at : at+1 : at+1]
}

// Unwrap lets http.ResponseController reach the connection.
func (res *response) Unwrap() http.ResponseWriter { return res.ResponseWriter }

func (res *response) WriteHeader(status int) {
	res.status = status
	if res.stripe != nil {
		res.stripe.head(res.Header(), status)
	}
	res.ResponseWriter.WriteHeader(status)
}

// send writes a whole answer. body is only read.
func (res *response) send(status int, contentType string, body []byte) {
	h := res.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	res.WriteHeader(status)
	// A failed write means that the client has disconnected.
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
)

// sendReply writes the home's answer: the stored part unchanged, and headers about this
// exchange beside it.
func (res *response) sendReply(reply *claim.Reply) {
	res.set(headerHome, reply.Home)
	res.set(headerServedBy, reply.ServedBy)
	res.set(headerHops, strconv.Itoa(reply.Hops))
	// Format all values at once, in one string.
	body := reply.Response.Body
	var buf [2*len(time.RFC3339) + 20]byte
	text := strconv.AppendInt(buf[:0], int64(len(body)), 10)
	length := len(text)
	text = appendTimestamp(text, reply.ExpiresAt)
	expires := len(text)
	if reply.Replayed {
		text = appendTimestamp(text, reply.FirstUse)
	}
	all := string(text)
	res.set("Content-Length", all[:length])
	if !reply.ExpiresAt.IsZero() {
		res.set(headerExpiresAt, all[length:expires])
	}
	if reply.Replayed {
		res.set(headerReplayed, "true")
		res.set(headerOriginalRequest, all[expires:])
	}
	for _, f := range reply.Response.Header {
		res.set(http.CanonicalHeaderKey(f.Name), f.Value)
	}
	res.WriteHeader(reply.Response.Status)
	_, _ = res.Write(body) // as in send
}

// timestamp formats times as the API does: RFC 3339, UTC, whole seconds.
func timestamp(t time.Time) string { return string(appendTimestamp(nil, t)) }

func appendTimestamp(to []byte, t time.Time) []byte { return t.UTC().AppendFormat(to, time.RFC3339) }
