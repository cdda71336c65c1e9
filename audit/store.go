package audit

import (
	"context"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

// Chain is the row that records how far the audit of a region is exported. An exporter
// reads it and changes it by compare-and-set; the loser of a race has changed nothing.
type Chain struct {
	// Version is the row's version, raised by each change.
	Version uint64
	// Number and Digest are those of the last segment; 0 and "" before the first.
	Number uint64
	Digest string
	// From is the start of the window that is being exported: everything before it is
	// exported.
	From time.Time
	// After is the position within that window, and Part how many segments it has. To is the
	// window's end, which its first part fixes for the others; zero before that.
	After Position
	Part  int
	To    time.Time `json:",omitzero"`
	// SweptUntil: rows before it have been looked up in segments, and are deleted if their claim
	// was deleted.
	SweptUntil time.Time
	// Books is the position up to which the region's books were looked through, and have left.
	Books ledger.Position `json:",omitzero"`
}

// ActorKey is the key of the entries of an actor who is no merchant; see claim.EventActed. No tenant
// has the id of its tenant.
func ActorKey(name string) claim.Key { return claim.Key{Tenant: "@operators", Value: name} }

// Page is a part of a region's audit.
type Page struct {
	Entries []Entry
	// Next is the position of the next page; More is false after the last one.
	Next Position
	More bool
}

// BooksPage is a part of the books that may leave.
type BooksPage struct {
	Transactions []ledger.Transaction
	// Next and More are as those of a Page.
	Next ledger.Position
	More bool
}

// Store keeps the audit of every region. The steps of claims write their audit, and nothing changes
// it. Implementations are safe for concurrent use; errors wrap claim.ErrUnavailable or
// claim.ErrHomeUnreachable if the step may be done or not.
type Store interface {
	// AuditPage reads the entries of home after a position with from <= At < to, key by
	// key; a zero from or to is no bound. It scans up to limit rows of audit, which have up
	// to three entries each, and up to limit claims, which have one, and returns the matching
	// entries: so a page may have few, or none, while more follow. It returns only entries
	// that a crash cannot undo.
	AuditPage(ctx context.Context, home string, from, to time.Time, after Position, limit int) (Page, error)
	// AppendAudit adds an entry that no step of a claim writes to the audit of home, and
	// returns once it is durable. The entry's time is the store's. After an error it may be
	// there or not.
	AppendAudit(ctx context.Context, home string, key claim.Key, e claim.AuditEntry) error
	// AuditAge is how long a committed entry may be missing from pages, because they are read
	// from a replica; 0: pages are read with authority.
	AuditAge() time.Duration
	// ForgetAudit deletes rows and returns how many entries they had. It deletes a row if all
	// of its entries are among entries, if it is [MinKeepRows] old by the store's clock, and
	// if its claim is no longer stored, or is gone. A missing entry is no error.
	ForgetAudit(ctx context.Context, home string, entries []Position) (forgotten int, err error)
	// AuditChain reads the chain of home, and the store's clock.
	AuditChain(ctx context.Context, home string) (c Chain, now time.Time, found bool, err error)
	// AdvanceAudit replaces the chain of home if its version is that of was; 0: if
	// there is none. It sets next.Version to the following version. moved is false, and
	// nothing is done, if the version differs. After an error, or a repeated call, it
	// may be done or not: read the row.
	AdvanceAudit(ctx context.Context, home string, was uint64, next Chain) (moved bool, err error)

	// LeavingBooks scans up to limit transactions of home after a position and before a time,
	// and returns those that may leave, each with all that belongs to it: charges and transfers
	// with their refunds, all of home, fees and conversions. It returns a charge with the
	// youngest of its refunds. What anything else belongs to stays: a dispute, a failure, a
	// ghost, a refund in the books of another region. So does a charge or transfer of which a
	// refusal is remembered (claim.Unpaid): without its booking, what its provider repeats of it
	// would look like news.
	LeavingBooks(ctx context.Context, home string, after ledger.Position, before time.Time, limit int) (BooksPage, error)
	// ForgetBooks deletes transactions of home, with refusals of their objects that need not be
	// remembered any more, adds their sums to what is carried forward, and sets Version,
	// Number, Digest and Books of the chain to those of next, in one step. It does
	// none of that and returns false if the version is not was, or if one of ids is missing, is
	// younger than [MinKeepBooks] by the store's clock, or may not leave with the others. After
	// an error, or a repeated call, it may be done or not: read the row.
	ForgetBooks(ctx context.Context, home string, was uint64, next Chain, ids []string) (moved bool, err error)
	// Carried is that of ledger.Store.
	Carried(ctx context.Context, region string, after ledger.AccountKey, limit int) ([]ledger.Balance, error)
}
