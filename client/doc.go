// Package client is the merchant's client of Homeward. It gives every logical
// call one idempotency key, and retries the call under that key, in any region
// that answers, until the outcome is known or a retry cannot change it.
//
// A region that refuses the connection costs no pause: the call goes to the next of
// [Config].BaseURLs at once. A region that answers nothing at all, not even GET /livez, which
// the client asks beside a request that has no answer, loses the call to the next one in 0.7 s; one that
// is slow keeps it, and so does the last one. A client that has one name for all regions, and follows DNS
// alone, has no next one: its calls fail, or hang, until the lost region's address is gone
// from the answer and from its caches. That takes a minute or more, see docs/DEPLOYING.md.
//
// After a network error or a time-out the outcome of the payment is unknown. So
// the client never makes a second key on its own: not within a call, and not
// after a call that failed. A caller that must survive its own crash sets
// IdempotencyKey itself, from something it has stored (an order's number, a
// minted key).
//
// [Error].Retry says how to continue: RetrySameKey (call again with
// [Error.IdempotencyKey]), RetryNewKey, or RetryNever. A soft decline releases the key: [Client.CancelKey]
// closes it before another card pays under another key, as an attempt that was held up on its way would
// ask the bank again.
package client
