// Package relay tells the world what happened: it hands the rows of outbox.Events
// to their sinks, which are a NATS JetStream stream (package relay/nats), the
// webhook endpoint of the merchant ([Webhooks]) and the log ([Log]). [NewWorker]
// puts them together.
//
// # At least once
//
// A row is written in the step that settles its claim, so no event is lost and
// none tells of what did not happen. It is told at least once:
//
//	take | deliver | finish
//
// A crash after the delivery and before the finish tells it again, a minute later,
// when the row's lease has run out. So does an answer that was lost on the way:
// whether it arrived is unknown, and unknown is not told apart from no. Each
// repetition carries the same event id, as Nats-Msg-Id, webhook-id or the id in the
// log, and the same bytes.
//
// A consumer therefore must keep the ids that it has acted on, and ignore one that
// it knows. It must not take the order of arrival across keys for anything. Where
// it matters that nothing was missed, it compares with GET of the object: what that
// says is the truth, and an event is only its announcement.
//
// # Order
//
// Of the rows of one tenant, key and sink only the oldest is taken, so each sink
// hears of one key in the order in which things happened. Keys are not ordered among
// each other. A row that waits for its next try holds back its key at its sink and
// nothing else; a parked row holds back nothing, and is told late when a person
// retries it.
//
// # What fails
//
// A sink that is down costs no row its attempts ([outbox.Later]) and keeps no slot of the
// worker for long; see package pace. An event that no retry can mend is parked at
// once, one that is refused again and again after [maxAttempts] tries. A person
// sees both with homeward outbox list.
package relay
