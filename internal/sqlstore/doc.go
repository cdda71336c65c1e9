// Package sqlstore implements every store in a SQL database: CockroachDB in
// production, PostgreSQL 15 or newer for one region and for tests. Both run the
// statements of query/; only the table definitions of migration/ differ, and what
// [dialect.bind] does for CockroachDB.
//
// # Names
//
// Each statement is a file of query/, SQL as both databases parse it, with pgx's named
// arguments. The code that sends it declares it, with a struct of its arguments, whose
// fields the text names: see [statement]. TestEveryStatementIsUnderstood prepares all of them.
//
// # Who decides
//
// The transitions of package claim. A store that reads a row first runs the
// transition on it and writes the result under a comparison. Begin of a new key
// and Settle read nothing: [claim.New] and [claim.Settle] answer in durations, to which
// the statement adds its own now(). That makes each of them one statement and one
// round trip. Their WHERE clauses repeat what the transition compares.
//
// Begin, Settle and Pin share their statements, see package batch. The rows of their claims
// are sent as arrays, and each caller reads its own result.
//
// Statements are implicit transactions: atomic, committed in one phase if the database
// can, and never open while the client computes. The few methods that need more than
// one (tenants, topology) are for operators and use an explicit transaction.
//
// Isolation is not assumed: sessions set the level that the statements are written for
// and check it, serializable on CockroachDB, read committed on PostgreSQL.
// docs/DATABASE.md lists which statement needs it, and why.
//
// # Lost replies
//
// A statement whose reply is lost (40003, a connection that broke after the
// request was sent, a time-out) may be done, not done, or done later. Every
// write of a claim therefore carries a step: a UUID that the row keeps and that
// no other write has. The statement compares the state that it starts from, so
// running it again does nothing once it is done, in whatever order the two
// arrive; and the row's step then tells that the first one was ours:
//
//	write               compares                       after a lost reply
//	begin               there is no row                run again: our step in the row that find then reads is our own win
//	begin_here          there is no pin, no row        as begin: the pin is in the same statement
//	begin_again         the step that was read         read, and compare the step
//	change              the step that was read         read, and compare the step; a mark that is there is the answer
//	reattach            there is no row                read, and compare the step
//	settle, defer       object, fence, unknowns, state run again; on "no row" read, and compare the step,
//	                                                   which is the verdict's id: also in a later call
//	renew               the step that was read         reported as unknown: the holder's trust is not extended
//	pin                 there is no row                run again; whatever pin there is now is the answer
//	pin_write           the time that was read         read again: the pin there is the answer
//	pins_sweep          the time that it reads         run again: nothing changes
//	outbox_take         due, unlocked                  reported: rows that were taken are due again after the lease
//	outbox_finish       each row's fence               run again: rows that are gone are finished
//	outbox_retry        each row's fence               reported: each row is parked, or due after its pause or its lease
//	outbox_unpark       that it is parked              reported: a person looks again
//	ledger_book         there is no row                run again; whatever transaction there is now is the answer;
//	                                                   its events are booked with it
//	audit_advance       the version that was read      reported as unknown: the exporter reads the chain
//	audit_forget        that no claim says anything    run again: what is gone is forgotten
//	ledger_forget       the segment that was read      run again: it finds that the chain has moved, and reports that
//	document_put        the version that was read      run again: our step in the row is our own change
//	note                there is no row of its id      a note is kept for the next try, and may be there twice if it has no time; an appended line is reported
//	sweep               that its time is past          run again: what is gone is gone
//	witnesses_put       nothing: the latest counts     run again
//	witnesses_drop      the restore's version          run again: other rows go, and are to go as well
//	notices_keep        there is no row                run again: what is there stays, and has its row in the queue
//	notices_close       each the fence                 run again: what is gone is closed. Of one, on "no row" read: if status and detail equal what we wrote, our first try succeeded
//	notices_rewrite     what was read                  run again: what is not there any more stays as it is
//	notices_drop_bodies that there is a body           run again: nothing changes
//	tenant_change       nothing: the latest counts     run again
//	registrar_move      the move that was read         run again; on "no row" read who is registrar
//	registrar_forget    that no pin is there           run again: nothing changes
//	region_status       the epoch that was read        run again; on "no row" read the table
//	elapse              nothing                        reported as unknown: it may be done, or be done later
//	tenant_put,         nothing: the latest counts     run the transaction again
//	api_key_put,
//	api_keys_end
//
// Every queue has these statements, under a name of its own: events_take and so on. Those
// of provider calls, calls_take and so on, have a text of their own. look is read-only, and
// may be repeated; its result is a hint, and the take reads the rows.
//
// The posting, events, expiry and unpaid row of a claim's step are written by its
// settle statement, so that the claim's step covers all of them: done together or not
// at all, and once. A business event that is booked already fails the statement for
// certain, with [ledger.ErrConflict], and so does the id of a waiting event: nothing is
// done then, and the others of its batch are sent again without it.
//
// A failed statement of a batch is, whatever the failure, such a try for each of its
// callers. Each sends its step once more, alone, and its own row answers as above.
//
// When the tries or the time run out the result is [claim.ErrUnavailable], which
// promises nothing. A write that arrives after that leaves a claim whose holder does
// not know of it and does nothing: the lease lapses and a worker recovers it, as
// after a crash.
//
// A refusal that no repeat can change (a constraint, text that the database cannot keep, a
// message that is too large) is [claim.ErrUnstorable]: nothing is done. The key's next steps
// go without a batch for a while, so that they do not fail others.
//
// 40001 and connections that broke before the request was sent are definite: not done.
// The call is repeated with a back-off, within the same bounds.
//
// # Answers
//
// A final claim has its response in its own row. The step that begins the key anew clears it.
//
// # Provider calls
//
// The call of a claim in flight is in the claim's row: Begin writes it, the other steps move
// its due time, and Settle clears it, each in the one write of the row. Workers find calls
// by an index of those that are due. A take, a retry or a finish changes the call, not the
// claim: neither its step nor its fence, so that the holder's next step is none the wiser.
//
// # Audit
//
// The first line of a claim's audit is in the claim's row, which Begin writes; the first
// settlement puts it into audit, in one row with its own two lines. begun_noted says by whose
// step that was. Timelines and pages have the lines of both. elapse puts it there, too, since the line
// has the time of first use, which it moves.
//
// # Crash points
//
// Each step is one statement, so a process that dies has either sent it or not, and the
// database has either committed it or not; the next request sees one of the five cases
// of package claim's table. The steps of a batch are done together or not at all, and
// share nothing else. A step that waits for its batch has not been sent: a process that
// dies then leaves the row unchanged. Between the statements of one call:
//
//	pin | begin              a pin without a claim; its home makes the claim
//	begin (none made) | find nothing has changed; nor between find and begin, of a key that
//	                         was thought to be known
//	find | begin_again or change
//	                         nothing has changed
//	pin_read | pin_write     nothing has changed
//	documents | document_put nothing has changed: whoever reads next finds the same
//	look | outbox_take       nothing has changed: another node's look, or the next one,
//	                         finds the same; so it does where nobody was woken
//	outbox_take | outbox_finish or outbox_retry
//	                         each row of the batch is due again after its lease
//	outbox_finish | outbox_retry
//	                         the rows of the first are gone, those of the second are due
//	                         again after their lease
//
// Storing notices and closing one are a statement each: no notice is without its row in
// the queue, and a closed one has no row.
//
// # Connections
//
// A call waits for its connection with others of its pool, see package pool: requests that
// arrive do not block the end, renewal or take-over of claims, far rows do not block near
// ones, and no tenant blocks another. The ctx of an attempt and of a handler is marked with
// [outbox.Begun]: its calls are begun work. Methods that end, renew or take over claims mark
// themselves; what else begun work calls is an errand, and blocks none of them. A call that
// is refused has sent nothing.
//
// # In a program's transaction
//
// A ctx of [In] sends a claim's statements in a transaction of somebody else, on its connection. They
// are durable with that transaction, so no reply of theirs is lost by itself: each is sent once, and
// whoever runs the transaction again reads what the last try left. They name no schema. So the search
// path of the session is ours for the length of a statement, and set back after it.
//
// # The books
//
// A row of ledger is a whole transaction, so that none is ever written in part; a
// constraint ensures that it sums to zero. Nothing here updates or deletes one, and
// nodes need no right to. Balances are summed from the rows each time.
//
// # Order of events
//
// A row of events can be taken once no older one of its key for the same sink is left,
// except parked ones, so that a sink that is down delays no other. This check takes no
// locks: an older row stays until it is finished, whoever holds it, and a younger one that
// is held has nothing older except rows that an operator requeued. A take postpones the rows
// that it finds behind others: else they would be in the way of each take that follows. A
// crash after it delays them, and nothing else. Older is by created_at. It is the clock of the
// gateway that wrote, or just after the newest row that waits in the line if that clock is
// behind.
//
// # Time
//
// Leases, windows and due times are judged and written by the database's now().
// On CockroachDB gateways may differ by up to its max-offset:
// [claim.Policy.ClockOffset] must be at least that. Time-outs of calls are this
// process's own and only bound its patience.
//
// # The door
//
// API keys are looked up on connections of their own, each key by one query at a time,
// and unknown keys are cached for some seconds: see [door]. The query reads rows that
// are consistent in every region, and may be repeated at will.
//
// # Reading elsewhere
//
// Replica reads run AS OF SYSTEM TIME follower_read_timestamp() on CockroachDB and
// return only final rows. A row that they do not find may still exist. An opaque key's
// answer is looked for where its pin says, which is as old as the rest.
package sqlstore
