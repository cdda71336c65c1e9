package audit

import (
	"context"
	"time"
)

// Chain is the row that records how far the audit of a region is exported. An exporter
// reads it and changes it by compare-and-set; the loser of a race has changed nothing.
type Chain struct {
	// Version is the row's version, raised by each change.
	Version uint64
	// Number and Digest are of the last segment; 0 and "" before the first.
	Number uint64
	Digest string
	// From is the begin of the window that is being exported: everything before it
	// is exported.
	From time.Time
	// After is how far in that window, and Part how many segments of it there are.
	After Position
	Part  int
	// SweptUntil: rows before it have been looked for in segments, and are deleted where
	// their claim is gone.
	SweptUntil time.Time
}

// Page is a part of a region's audit.
type Page struct {
	Entries []Entry
	// Next is the position of the next page; More is false after the last one.
	Next Position
	More bool
}

// Store keeps the audit of every region. The audit of a claim's steps is written by those
// steps, and never changed. Implementations are safe for concurrent use; errors wrap
// claim.ErrUnavailable or claim.ErrHomeUnreachable where nothing is known.
type Store interface {
	// AuditPage reads the entries of home after a position with from <= At < to, where a
	// zero from or to is no bound, key by key. It looks at some limit rows and returns those
	// of them that are wanted, so that a page may have few entries, or none, and more follow.
	// Only entries that a crash cannot take back are returned.
	AuditPage(ctx context.Context, home string, from, to time.Time, after Position, limit int) (Page, error)
	// ForgetAudit deletes those rows of entries whose claim is not stored any more, or is
	// gone. An entry that is not there is no error.
	ForgetAudit(ctx context.Context, home string, entries []Position) (forgotten int, err error)
	// AuditChain reads the chain of home, and the store's clock.
	AuditChain(ctx context.Context, home string) (c Chain, now time.Time, found bool, err error)
	// AdvanceAudit makes next the chain of home where was is, by its Version; 0: where there
	// is none. Next.Version is set to the one that follows. moved is false, and nothing is
	// done, where another is. After an error, or a repeated call, it may be done or not:
	// the row says.
	AdvanceAudit(ctx context.Context, home string, was uint64, next Chain) (moved bool, err error)
}
