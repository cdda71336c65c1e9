// Package relay emits events: it delivers the rows of outbox.Events to their
// sinks, which are a NATS JetStream stream (package relay/nats), the webhook
// endpoint of the merchant ([Webhooks]) and the log ([Log]). [NewWorker]
// assembles them.
//
// # At least once
//
// The step that settles a claim writes its rows, so no event is lost and none
// is emitted for a step that failed. Each event is delivered at least once:
//
//	settle | take or offer | deliver | finish
//
// The node that settles offers the first events of a claim to its worker, and wakes it for
// later ones, which it takes. The worker delivers, and finishes many rows at a time. After a
// crash before the finish, a worker delivers the event again once the row is due: after two of
// the claim's leases, or the take's. It also does so after a lost
// answer: the worker treats an unknown delivery as failed. Each repetition carries
// the same event id, as Nats-Msg-Id, webhook-id or the id in the log, and the same
// bytes.
//
// A consumer therefore must store the ids that it has processed and ignore
// duplicates. It must not rely on the order of arrival across keys. A consumer that
// must miss nothing compares with GET of the object: the object is the truth, an
// event only announces it.
//
// # Order
//
// Of the rows of one tenant, key and sink only the oldest is taken, so each sink receives
// the events of one key in order. Events of different keys have no order. A
// row that waits for a retry delays only its key at its sink. A parked row delays
// nothing; it is delivered late if an operator retries it.
//
// # What fails
//
// A sink that is down uses up no attempts of its rows ([outbox.Later]) and blocks no slot
// of the worker for long; see package pace. The worker parks an event at once if no retry
// can succeed, and after [maxAttempts] tries if its sink keeps refusing it. homeward
// outbox list shows both.
package relay
