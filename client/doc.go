// Package client is the merchant's side of Homeward: it gives every logical
// call one idempotency key, and repeats the call under that key, in whichever
// region answers, until the outcome is known or repeating it is no use.
//
// A network error or a time-out says nothing about the payment. So the client
// never makes a second key on its own: not within a call, and not for a call
// that failed. A caller that must survive its own crash sets IdempotencyKey
// itself, from something it has stored (an order's number, a minted key).
//
// An error's Retry says what is left to do: RetrySameKey (call again with the
// same key: [Error.IdempotencyKey]), RetryNewKey, or RetryNever.
package client
