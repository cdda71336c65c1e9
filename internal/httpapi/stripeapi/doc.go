// Package stripeapi implements Stripe's API v1 on top of the merchant's own: it reads
// Stripe's forms as requests of the merchant's API ([View.ReadForm]), and renders its
// answers as Stripe's objects and errors ([View.Object], [View.Failure]). Claims,
// storage and replay are those of the merchant's API.
//
// Everything here is a pure function. A rendering follows from the stored bytes, the
// endpoint and the expand parameter, so every retry reads the same bytes; golden files
// hold them. A form and the JSON body that it is read as are the same request under one
// key.
//
// It follows Stripe's documentation as of API version 2026-08-26.dahlia: "Errors",
// "Error handling", "Advanced error handling", "Error codes", "Idempotent requests",
// "Expanding Responses", "Versioning", and the schemas of stripe/openapi. The tests check
// every object against them.
//
// Unsupported parameters are refused by name. In particular no parameter that could
// change who pays, who is paid, or how much, is ever ignored.
package stripeapi
