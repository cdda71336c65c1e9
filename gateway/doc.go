// Package gateway puts claims in front of an HTTP API that somebody has. A guarded request becomes a
// claim with the operation [Operation]: its home, forwards, deputies, replicas, expiry and audit are
// those of any claim. Nothing is booked and no event is emitted. [Gateway.Match] finds the rule of a
// request, [Call.Request] makes the claim's request at the entry, [Gateway.Attempt] sends it at the home,
// and [Gateway.ServeHTTP] passes what is not guarded. internal/httpapi has the handler that divides
// requests among them.
//
//	g, err := gateway.New(gateway.Config{Settings: s, Region: "us-east1", Seal: ring})
//	if c := g.Match(r); c != nil {
//		id, _, err := c.Tenant(r)
//		sent, key, err := c.Key(r, body)
//		req := claim.Request{Key: claim.Key{Tenant: id, Value: key}}
//		err = c.Request(r, body, sent, &req)
//		// and req goes to the router, whose claims have g as their executor
//	}
//
// # At most one send
//
// Unless its route says otherwise, an upstream is taken to recognise no repeat and to answer no
// question. So the first attempt of a generation sends the request, once, and no other attempt sends
// anything: an attempt after that finds only that an earlier one may have sent it, and its outcome is
// unknown. It stays unknown, until claim.Policy.MaxUnknowns ends the claim with an answer that says so.
// A generation begins again only after a definitive no: the upstream refused the request for now, no
// byte of it was sent, or the upstream, asked, certainly does not know it.
//
//	the process dies                the upstream got it   the next request, or the worker
//	before Begin is durable         not                   is the first request
//	after Begin, before the send    not                   finds it unknown: it cannot know that
//	Begin's answer comes when the   not                   is the first request: the row says that
//	lease is over (nobody dies)                           nothing was begun
//	after the send, before the      once                  finds it unknown
//	reply
//	after the reply, before Settle  once                  finds it unknown
//	after Settle                    once                  reads the reply
//
// # A repeat, and a question
//
// An upstream that recognises a repeat by a header gets one under the same value from each recovery,
// for as long as it remembers that, an hour less. Each request then has one effect there. An answer to a
// repeat counts only if it says that the request is done, or if a rule believes it of a repeat: a
// refusal may be of the repeat alone. The row's operation names the header that the request was sent
// with, so that no repeat goes out under another one.
//
// An upstream that can be asked gets a GET from each recovery. What it finds is the outcome. What it does
// not find may still be on its way there. So the first such answer is an unknown that the row counts
// (claim.Record.NotFounds), and only the next one, as much later as the route says that a request can
// take to show, is a no.
//
//	the process dies while it     the row           the next attempt
//	has sent a repeat             IN_FLIGHT         repeats again
//	has found it, before Settle   IN_FLIGHT         finds it again
//	has not found it, before the  IN_FLIGHT         asks; not found counts as the first
//	unknown is durable
//	after that                    NotFounds is 1    asks, no sooner than Ask.SureAfter; not found is a no
//	has released it               FAILED_RETRY      is a retry, which sends it in the next generation
//
// # Upstreams of regions
//
// A request goes to the upstream of its key's home, whichever region makes the attempt. So a deputy
// neither repeats at an upstream that never had the request, nor takes its ignorance for a no. Where
// upstreams recognise the same repeats, each region has its own.
//
// # What net/http does by itself
//
// It repeats some requests, with an Idempotency-Key above all. It repeats no guarded one: a body cannot
// be rewound, and without a body the header is not where net/http looks for it. Of the rest it repeats
// only what is harmless by its method, as GET is.
//
// # The reply
//
// A reply is its status, the headers that belong to it, and its body as it came, packed or not. No
// retry gets another one. Rules say what it means: done, refused for good, released, or unknown. By
// default 2xx and 3xx are done, and 4xx refused for good. 401, 403 and 429 release the key. 408, 409,
// 425 and 5xx are unknown, never a no. A reply that is not whole, and no reply at all, are unknown by any
// rule. A rule that asks for a member of a body that cannot be read makes its reply unknown: no looser
// rule behind it takes that for an absent member. A reply that ends with its connection and names no length cannot be seen to be cut off.
//
// # The stored request
//
// The payload of a claim is what its recovery needs, sealed for its key: the request and its rule as of
// its arrival, or its head, or the rule alone. What it lacks travels beside it to the attempt that the
// request makes, sealed as well, and no store gets it (claim.Request.Unstored). A body or a
// target with a member that nobody may keep, as a card's verification code, is never in the payload, and
// neither is what cannot be looked into.
//
// # Keys that are given up
//
// What was sent cannot be called back. So claims of a gateway are not marked (claim.Config.Unstopped):
// they go on to their end. A key without a claim, or with a released one, takes no more requests.
//
// # While no claim can be made
//
// A request is refused, on every route. An error of the store or of the home does not prove that there is
// no claim: its step may have been made and its answer lost. So no setting sends such a request unguarded.
package gateway
