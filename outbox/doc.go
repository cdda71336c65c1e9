// Package outbox runs pending work: rows that a store wrote in the same atomic step as
// their cause, and the workers that take them.
//
//	here := func() []string { return []string{"europe-west1"} }
//	w, err := outbox.NewWorker(outbox.WorkerConfig{
//		Store: store.Queue(outbox.Events), Regions: here,
//		Handlers: map[outbox.Kind]outbox.Handler{outbox.KindLog: deliver},
//	})
//	p, err := outbox.NewPoller(outbox.PollerConfig{
//		Queues: store, Regions: here, Workers: map[outbox.Queue]*outbox.Worker{outbox.Events: w},
//	})
//	w.Start()
//	p.Start()
//	w.Wake("europe-west1", 0) // this process wrote a row that is due
//	w.Offer("europe-west1", due, row) // or one that is due later, to be handled here before
//	p.Stop()
//	err = w.Drain(ctx) // take no more, and wait for those that were taken
//
// The inline path is the fast path; the outbox is the recovery path. A provider
// call's row becomes due only when its claim's lease has ended, so workers
// normally find no provider calls to make.
//
// # Parts
//
// The [Poller] asks the store when a row of any queue of a home is due, and wakes the
// workers of queues that have one. One process polls a home often, a second one as its
// deputy and the others rarely, so that together they cost about as much as one. Which one
// polls often is a hint: two waste a poll, and without one the others find the rows later.
// A process that writes a row which is due at once wakes its own worker; one that is due later,
// as a claim's first events are, it offers to its worker, which needs no take for it. So a poll
// finds the rows of a process that died.
//
// The [Worker] of a queue takes many due rows at once, each with a lease and a fence, and
// runs the handler of each in a slot. A worker that dies delays its rows by the lease; a
// slow worker is fenced off. Neither protects the money: for a provider call the claim's
// own fence does, and two workers on one row only waste a look at the claim.
//
// The worker's completer finishes and retries rows of one home that end at about the same
// time, many in a statement.
//
// # Crash points
//
//	take or offer | handle | finish
//
// A crash before the take changes nothing. After it, the row is due again when
// its lease has run out. An offered row is due at the time until which its writer handles it.
// After the handling and before the finish, the row is handled again, so handlers are idempotent; a provider call's handler finds its
// claim settled and the row gone. A crash before a step that finishes many rows is a crash
// before the finish of each of them.
//
// A handler that panics is a crash of its row alone: the worker counts the row as
// failed, and after a few such tries parks it and pages an operator. The panic does
// not change the row's cause: a parked provider call's claim stays in flight.
//
// # Many rows for one handler
//
// A queue whose rows mostly come to the same, such as notices of what is known, has a
// [WorkerConfig].BatchHandler: it gets all rows of a take and ends many in a few statements.
// The rows that it returns go to the handlers, as many at once as there are slots; rows
// beyond those are due again at once. Such a worker pauses between the takes from a
// backlog, as long as the last one took and no longer than a twentieth of Poll: at least half
// of the time is for work that somebody waits for, and a slow store slows the worker down
// further. A crash in BatchHandler is a crash of each of its rows.
package outbox
