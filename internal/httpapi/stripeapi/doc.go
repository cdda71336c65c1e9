// Package stripeapi speaks Stripe's API v1 in place of the merchant's own: it reads
// Stripe's forms as requests of the merchant's API ([View.ReadForm]), and
// renders its answers as Stripe's objects and errors ([View.Object], [View.Failure]).
// It does nothing else: what is claimed, stored and replayed is the merchant's API's.
//
// Everything here is a pure function. A rendering follows from the stored bytes, the
// endpoint that was asked and what it was asked to expand, so that every retry reads
// the same bytes; golden files hold them. A form means the JSON body that it is read
// as: under one key the two are the same request.
//
// It follows Stripe's documentation as of API version 2026-08-26.dahlia: "Errors",
// "Error handling", "Advanced error handling", "Error codes", "Idempotent requests",
// "Expanding Responses", "Versioning", and the schemas of stripe/openapi, which the
// tests hold every object against.
//
// What is not served is refused by name. In particular nothing that could change who
// pays, who is paid, or how much, is ever ignored.
package stripeapi
