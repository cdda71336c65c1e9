// Package gateway puts claims in front of an HTTP API that somebody has. A guarded request becomes a
// claim with the operation [Operation]: its home, forwards, deputies, replicas, expiry and audit are
// those of any claim. Nothing is booked and no event is emitted. [Gateway.Request] makes the claim's
// request at the entry, [Gateway.Attempt] sends it at the home, and [Gateway.ServeHTTP] passes what
// is not guarded. internal/httpapi has the handler that divides requests among them.
//
// # At most one send
//
// Unless [Config].Dedupe is set, the upstream is taken to recognise no repeat. So the first attempt of a generation sends the
// request, once, and no other attempt sends anything: an attempt after that finds only that an
// earlier one may have sent it, and its outcome is unknown. It stays unknown, until
// claim.Policy.MaxUnknowns ends the claim with an answer that says so. A generation begins again
// only after a definitive no: the upstream refused the request for now, or no byte of it was sent.
//
//	the process dies                the upstream got it   the next request, or the worker
//	before Begin is durable         not                   is the first request
//	after Begin, before the send    not                   finds it unknown: it cannot know that
//	after the send, before the      once                  finds it unknown
//	reply
//	after the reply, before Settle  once                  finds it unknown
//	after Settle                    once                  reads the reply
//
// An upstream that recognises a repeat by a header gets one under the same value from each recovery,
// for as long as it remembers that. Each request then has one effect there. An answer to a repeat
// counts only if it says that the request is done: a refusal may be of the repeat alone.
//
// net/http repeats some requests by itself, with an Idempotency-Key above all. It repeats no guarded
// one: a body cannot be rewound, and without a body the header is not where net/http looks for it. Of
// the rest it repeats only what is harmless by its method, as GET is.
//
// # The reply
//
// A reply is its status, the headers that belong to it, and its body as it came, packed or not. No
// retry gets another one. Package claim stores it: 2xx and 3xx as done, and 4xx as refused for good.
// 401, 403 and 429 release the key. 408, 409, 425, 5xx, a reply that is not whole and no reply at all
// are unknown, never a no. A reply that ends with its connection and names no length cannot be seen
// to be cut off.
//
// # The stored request
//
// The payload of a claim is the request with the headers that the upstream gets, sealed for its key.
// It travels sealed from the entry to the home, and is stored until the claim is settled.
package gateway
