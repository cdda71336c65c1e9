package outbox

import (
	"context"
	"errors"
	"time"
)

// Kind is the type of a message and selects its handler.
type Kind string

// The kinds, each with the queue that it is in. Stored; values never change.
const (
	// KindProviderCall, in [ProviderCalls], is the recovery of one provider call:
	// the message exists from the claim's Begin until its Settle and is due when the
	// lease runs out.
	KindProviderCall Kind = "provider_call"
	// KindExpiry, in [Expiries], closes a released claim whose request is not
	// payable any more.
	KindExpiry Kind = "expiry"
	// KindRefund, in [Expiries], gives back the money that moved for a claim whose key was canceled.
	KindRefund Kind = "refund"
	// KindNotice, in [Notices], is a provider's notice to process.
	KindNotice Kind = "notice"
	// KindNATS, KindWebhook and KindLog, in [Events], are one event for one sink. Each
	// sink has its own order: a sink that fails does not delay the others.
	KindNATS    Kind = "event_nats"
	KindWebhook Kind = "event_webhook"
	KindLog     Kind = "event_log"
)

// Queue names one of the queues that a store keeps. They are apart so that a sink
// which is down, or a flood of notices, delays no provider call.
type Queue string

// The queues.
const (
	// ProviderCalls is written by the steps of claims. A claim has one at most, which a store
	// may keep in the claim's own row.
	ProviderCalls Queue = "provider_calls"
	// Events is written by Settle. Of the rows of one tenant, key and kind only the
	// oldest that is not parked can be taken, so that each sink receives a key's
	// events in order, and no sink delays another. A claim's first holder delivers the
	// first of them without a take, see [Worker.Offer].
	Events Queue = "events"
	// Expiries is written by Settle of a released claim, and of a canceled one whose money moved.
	Expiries Queue = "expiries"
	// Notices is written when a notice arrives.
	Notices Queue = "notices"
)

// AllQueues returns the names of all queues. A new queue needs its table in both stores
// (sqlstore's queueTables, look.sql and usedTables, embedded's queues), a worker in
// internal/node (newWorkers, and notifying if its rows are due at once), its name among the
// flags of homeward outbox, and a case in claimtest.
func AllQueues() []Queue { return []Queue{ProviderCalls, Events, Expiries, Notices} }

// Queues is a store of several queues, each under its own name.
type Queues interface {
	Queue(q Queue) Store
	// NextDue returns for each queue of a home the time until a row can be taken, by the
	// store's clock; 0 is now. A queue without rows is absent. The time may be too early:
	// a due row may be in progress, or wait for another row. It changes nothing.
	NextDue(ctx context.Context, region string) (map[Queue]time.Duration, error)
}

// Message is one row of the outbox. Times are the store's clock.
type Message struct {
	// ID is unique within Region, and rows of one id are one row; for a provider call it is the
	// object's id.
	ID string
	// Region is the home of the key that the message follows from.
	Region string
	Kind   Kind
	Tenant string
	Key    string
	// Operation and Payload describe the work: for a provider call the
	// operation ("charge") and the request's payload (claim.Request).
	Operation string
	Payload   []byte
	// TraceParent is the W3C context of the request that wrote the row, or "".
	TraceParent string
	// CreatedAt is when the row was written. In [Events] it is also the row's place in its
	// line: later than that of each row which waited there, even if the clock was set back.
	// Rows of one step share it, and follow each other by ID.
	CreatedAt time.Time
	// Due is the earliest time at which a worker may take the row.
	Due time.Time
	// Fence tells takes apart; Finish, Retry and Park compare it. It is 0 before the first,
	// and never the same one twice.
	Fence uint64
	// Attempts counts the failures reported with Retry.
	Attempts uint32
	// LastError is the reason of the latest Retry or Park.
	LastError string
	// Parked rows are never due; an operator retries them.
	Parked bool
}

// Errors of a [Store].
var (
	// ErrFenced: another worker has taken the row since, or it is gone.
	ErrFenced = errors.New("outbox: row was taken by another worker")
)

// Hold is a row that a worker has taken, and the fence that it got. Tenant and Key are the
// row's: they say where it is kept.
type Hold struct {
	Tenant, Key, ID string
	Fence           uint64
}

// Hold returns what the worker that took m has to show when it ends m.
func (m Message) Hold() Hold { return Hold{m.Tenant, m.Key, m.ID, m.Fence} }

// Delay is the input of [Store.Retry] for one row.
type Delay struct {
	Hold
	After  time.Duration
	Reason string
}

// Depth is a region's backlog at one moment.
type Depth struct {
	// Pending rows are neither done nor parked; Due ones could be taken now.
	Pending, Due, Parked int
	// OldestDue is the Due time of the most overdue row; zero when none is due.
	OldestDue time.Time
}

// Store keeps the rows of one queue. Rows are inserted by the transaction they
// follow from (claim.Store, notice.Store), never here. Implementations are safe for concurrent use.
type Store interface {
	// Take leases up to limit due rows of region, oldest first: each gets
	// Fence+1 and Due = now+lease, so that a worker's death only delays it. Rows
	// that another worker holds, or that are just being written, are skipped,
	// never waited for: a later Take finds them. Of the events of one key and kind only the
	// first that is not parked can be taken. The next one may become due a second after that, or
	// at the time until which one that had failed was held.
	Take(ctx context.Context, region string, limit int, lease time.Duration) ([]Message, error)
	// Message reads a row without taking it. In [Events] it may scan: it is for operators there.
	Message(ctx context.Context, region, id string) (m Message, found bool, err error)
	// Finish removes a row. ErrFenced unless fence is current.
	Finish(ctx context.Context, region string, row Hold) error
	// Retry makes the row due again after the delay. A non-empty reason counts
	// as an attempt; "" only postpones. ErrFenced unless fence is current.
	Retry(ctx context.Context, region string, row Hold, after time.Duration, reason string) error
	// FinishAll is Finish of many rows of one region, each of which is named once. A row
	// whose fence is not current is left as it is, which is no error. After an error
	// each row may be finished or not.
	FinishAll(ctx context.Context, region string, rows []Hold) error
	// RetryAll is Retry in the same way.
	RetryAll(ctx context.Context, region string, rows []Delay) error
	// Park takes the row out of the queue until an operator unparks it.
	// ErrFenced as above.
	Park(ctx context.Context, region string, row Hold, reason string) error
	// Unpark requeues a parked row: it is due now, and its attempt count is 0.
	// It reports false if no parked row has that id.
	Unpark(ctx context.Context, region, id string) (bool, error)
	// Parked lists up to limit parked rows of region with ID > after, in order.
	Parked(ctx context.Context, region, after string, limit int) ([]Message, error)
	// Waiting lists up to limit rows of region that are not parked, in the order in which
	// they are due. Of rows that wait for another one it may leave out all but the first.
	// It takes none, and is for operators.
	Waiting(ctx context.Context, region string, limit int) ([]Message, error)
	// Depth counts the backlog, and of each sort no further than some 100,000 rows. It may scan; it is for operators, not requests.
	Depth(ctx context.Context, region string) (Depth, error)
}
