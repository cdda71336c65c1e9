// Package httpapi is the merchant's API over HTTP. It authenticates, checks and
// canonicalises a request until it is a claim.Request, hands that to a [Router],
// and writes the answer down; it decides nothing about money.
//
// The checks run in one order, so that a refusal comes before any claim. A card number
// alone is refused after its claim was looked for: a retry of what was let in before is
// answered.
//
//	API key → rate limit → route and method → media type → Idempotency-Key
//	→ body, whole → canonical JSON → payment.Parse → payment.Screen → Router.Do
//
// The body is read in full, under its own deadline, before a claim exists: a
// slow client holds a connection and nothing else.
//
// Providers' notices come in by a route of their own, which needs no API key: their
// signature is checked behind [Notices], which also keeps them. They have no tenant,
// no rate and no claim, and are never remembered.
//
// A request that carries Stripe-Version is read and answered as Stripe does, in package
// stripeapi; stripe.go is where the two meet. What is claimed and remembered is the same.
//
// A remembered response's status, headers and body are repeated byte for byte;
// headers that describe this exchange (Idempotent-Replayed and so on) are added
// beside them. Every error is application/problem+json; errors.go is
// where errors of claims and of the router become problems, notice.go where those of
// notices do.
package httpapi
