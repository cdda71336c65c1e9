// Package httpapi is the merchant's API over HTTP. It authenticates, checks and
// canonicalises a request, passes the resulting claim.Request to a [Router], and writes
// the answer; it decides nothing about money.
//
// The checks run in one order, so that a refusal comes before any claim. Only a card
// number is refused after the claim was looked up: a retry of a request that was
// accepted before gets its answer.
//
//	API key → rate limit → route and method → query → media type → Idempotency-Key
//	→ body, whole → canonical JSON → payment.Parse → payment.Screen → Router.Do
//
// The body is read in full, under its own deadline, before a claim exists: a
// slow client holds a connection and nothing else.
//
// Providers' webhooks have a route of their own, without an API key: [Notices] verifies
// their signature and stores them. They have no tenant, no rate and no claim, and their
// responses are never stored. Their query is ignored, as a provider's setting of the
// address may need one; every other POST refuses a query, or reads it as a form.
//
// A request that carries Stripe-Version is read and answered as Stripe does, by package
// stripeapi; stripe.go connects the two. The claim and the stored response are the
// same.
//
// A stored response's status, headers and body are repeated byte for byte; headers that
// describe this exchange (Idempotent-Replayed and so on) are added beside them. Every
// error is application/problem+json; errors.go maps errors of claims and of the router
// to problems, notice.go those of notices.
package httpapi
