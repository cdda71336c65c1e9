package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/payment"
)

// response is one exchange: the writer, the caller, and the answer so far. It is passed
// as the http.ResponseWriter, which saves a context.
type response struct {
	http.ResponseWriter
	tenant claim.Tenant
	// moves is what a request that moves money does, "" of the others; testKey: its API key says that
	// none moves.
	moves   payment.Operation
	testKey bool
	status  int // 0 until an answer is written
	code    problem.Code
	began   time.Time
	// timed: the connection has a read deadline for the body.
	timed bool
	// intake counts the request's body, which has taken held; nil if none is read.
	intake *intake
	held   InFlight
	// stripe is nil but for a request that carries Stripe-Version.
	stripe *stripeExchange
	// words replace the details of problems; nil: none are.
	words map[problem.Code]string
	// dialect spells problems of a gateway, about the request with this key.
	dialect gateway.Dialect
	key     string
}

// set sets a header, whose name is as [http.Header] spells it.
func (res *response) set(name, value string) { res.Header()[name] = []string{value} }

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
	res.set("Content-Type", contentType)
	res.set("Content-Length", strconv.Itoa(len(body)))
	res.WriteHeader(status)
	// A failed write means that the client has disconnected.
	_, _ = res.Write(body)
}

// Header names, as [http.Header] spells its keys.
const (
	headerKey             = "Idempotency-Key"
	headerReplayed        = "Idempotent-Replayed"
	headerExpiresAt       = "Idempotency-Expires-At"
	headerOriginalRequest = "Idempotency-Original-Request-At"
	headerHome            = "Homeward-Home-Region"
	headerServedBy        = "Homeward-Served-By"
	headerHops            = "Homeward-Hops"
	headerTraceparent     = "Traceparent"
	headerTag             = "Etag"
	headerIfNoneMatch     = "If-None-Match"
)

// sendReply writes the home's answer: the stored part unchanged, and headers about this
// exchange beside it.
func (res *response) sendReply(reply *claim.Reply) {
	res.set(headerHome, reply.Home)
	res.set(headerServedBy, reply.ServedBy)
	res.set(headerHops, strconv.Itoa(reply.Hops))
	body := reply.Response.Body
	res.set("Content-Length", strconv.Itoa(len(body)))
	if !reply.ExpiresAt.IsZero() {
		res.set(headerExpiresAt, timestamp(reply.ExpiresAt))
	}
	if reply.Replayed {
		res.set(headerReplayed, "true")
		res.set(headerOriginalRequest, timestamp(reply.FirstUse))
	}
	h := res.Header()
	h["Content-Type"] = nil // else net/http guesses one where the reply has none
	for _, f := range reply.Response.Header {
		h.Del(f.Name)
	}
	for _, f := range reply.Response.Header { // a name may stand more than once
		h.Add(f.Name, f.Value)
	}
	res.WriteHeader(reply.Response.Status)
	_, _ = res.Write(body) // as in send
}

// timestamp formats times as the API does: RFC 3339, UTC, whole seconds.
func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
