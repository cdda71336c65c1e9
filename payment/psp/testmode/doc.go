// Package testmode is the provider of test tenants, inside each node. It moves no money.
//
// An answer follows from the call alone: from its payment method ([Methods]) and its key. So every
// node gives the same answer to the same call, before and after a crash, and no process of its own
// has to run, be reached or be backed up. Only whether a refund exceeds its charge follows from what
// the books, and the claims in flight, leave of that: of two at once both may be refused. What happens later (the payer authenticates, a bank
// settles, a payment is disputed) it reports as any provider does, in notices: they are durable
// before the call is answered, and each says how long it waits ([psp.Notice].After). A call that is
// repeated reports the same notices, which are kept once.
//
// The simulator, a program for tests of Homeward itself, counts money and breaks on purpose, for
// all its callers at once; it needs a disk. Merchants need answers that they choose.
package testmode
