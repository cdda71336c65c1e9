// Package recon compares a provider's statement with the books and the claims, and
// names each mismatch.
//
// The three are joined by our id of the movement, which the provider received with the
// call. Each is read once, in order, and partitioned by a hash of that id into
// temporary files; then one part of each is compared at a time. So memory is bounded by
// a part of the statement ([Config.Parts]), whatever its size. Nothing is changed:
// recon passes refundable mismatches to [Config.Found], and the caller may refund them.
//
// Money moves while recon reads. The claims are read before the books, so that the
// books have every claim that was read as COMPLETED. A possible mismatch that a later
// step may have explained is read again, with authority, before it is reported.
//
// A period has soft edges: a movement is stated at one moment and booked at a later
// one, after hours if its outcome was unknown. A movement that only one side has,
// within [Config.Slack] of an edge, is counted as undecided and not as a mismatch.
package recon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/internal/spill"
	"github.com/homeward-io/homeward/payment/psp"
)

// Class names a mismatch. Part of the output; values never change.
type Class string

// The classes.
const (
	// ChargedButUnknown: stated, and booked neither as a movement nor as a ghost.
	ChargedButUnknown Class = "charged_but_unknown_to_us"
	// NotOnStatement: booked, and not stated; or booked once more than stated.
	NotOnStatement Class = "not_on_statement"
	// AmountDiffers, also if one side has the money coming in and the other going out.
	AmountDiffers Class = "amount_differs"
	// CurrencyDiffers comes without AmountDiffers: amounts of two currencies do not
	// compare.
	CurrencyDiffers Class = "currency_differs"
	// Duplicate: stated beside another movement for the same object, and not booked.
	Duplicate Class = "duplicate"
	// RefundMissing: a ghost that has not been refunded, or a refund that is booked and
	// not stated.
	RefundMissing Class = "refund_missing"
	// ClaimWithoutBooking: by the claim money moved, by the books it did not.
	ClaimWithoutBooking Class = "claim_without_booking"
	// BookingWithoutClaim: by the claim no money moved, by the books it did.
	BookingWithoutClaim Class = "booking_without_claim"
	// FailedButBooked: stated as failed after it had succeeded, and booked as if it had
	// not.
	FailedButBooked Class = "failed_but_booked"
	// UnaskedNotBooked: stated as made by the provider without a request, such as a
	// dispute, a manual refund or a failure, and not booked, or of a payment that is not.
	UnaskedNotBooked Class = "unasked_not_booked"
	// RepeatedLine: the statement has the same movement twice.
	RepeatedLine Class = "repeated_line"
	// UnreadableLine: a line of the statement that cannot be read.
	UnreadableLine Class = "unreadable_line"
)

// Classes lists all classes, in the order of reports.
func Classes() []Class {
	return []Class{ChargedButUnknown, NotOnStatement, AmountDiffers, CurrencyDiffers, Duplicate, RefundMissing, ClaimWithoutBooking, BookingWithoutClaim, FailedButBooked, UnaskedNotBooked, RepeatedLine, UnreadableLine}
}

// Mismatch is one difference between statement, books and claim.
type Mismatch struct {
	Class Class `json:"class"`
	// Reference is our id of the movement, "" if the provider states none.
	Reference string `json:"reference"`
	// Home is the region that the reference names, "" if there is no such region.
	Home string `json:"home,omitempty"`
	// Tenant is the tenant of the movement, "" if none of our records has it.
	Tenant string `json:"tenant,omitempty"`
	// ProviderRef is the provider's id of the movement.
	ProviderRef string   `json:"provider_ref,omitempty"`
	Kind        psp.Kind `json:"kind,omitempty"`
	// Stated and Booked are minor units, 0 if one side has nothing.
	Stated         int64  `json:"stated,omitempty"`
	StatedCurrency string `json:"stated_currency,omitempty"`
	Booked         int64  `json:"booked,omitempty"`
	BookedCurrency string `json:"booked_currency,omitempty"`
	// Detail is one line for people.
	Detail string `json:"detail"`
	// Refundable: a payer's money moved and no merchant is owed it; its tenant is recorded.
	Refundable bool `json:"refundable"`
	// second: the object has been paid by another movement.
	second bool
}

// Report counts what was compared.
type Report struct {
	// Lines, Bookings and Claims are how many of each were read, Lines without those that
	// could not be, and of unknown kinds.
	Lines    int `json:"lines"`
	Bookings int `json:"bookings"`
	Claims   int `json:"claims"`
	// Agree counts movements that are stated and booked alike.
	Agree int `json:"agree"`
	// Outside counts lines of another period without a booking among those read.
	Outside int `json:"outside"`
	// OtherAccount counts lines of a connected account's own business: they have no
	// reference of ours, and no booking.
	OtherAccount int `json:"other_account"`
	// Undecided counts movements too near an edge of the period, or still in flight, and
	// bookings of kinds that the statement does not list, as a report without payouts.
	Undecided  int           `json:"undecided"`
	Mismatches map[Class]int `json:"mismatches"`
	// NotBooked counts fees, payouts and conversions that are stated and not booked, which is
	// no mismatch: only the statement has them. Posted are those that Config.Book has booked.
	NotBooked map[psp.Kind]int `json:"not_booked,omitempty"`
	Posted    map[psp.Kind]int `json:"posted,omitempty"`
	// Unknown counts lines of an unknown kind, or with money that moved the other way than their
	// kind's, by the provider's term for it. Nothing follows from them.
	Unknown map[string]int `json:"unknown_kinds,omitempty"`
}

// Total is the number of mismatches of all classes.
func (r *Report) Total() (n int) {
	for _, c := range r.Mismatches {
		n += c
	}
	return n
}

// Unjudged lists what is stated or booked and was not judged, as in "2 lines of another
// period, 1 undecided"; "" if everything was. Only then does everything agree that has no
// mismatch.
func (r *Report) Unjudged() string {
	var out []string
	add := func(n int, one, more string) {
		if n == 1 {
			more = one
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, more))
		}
	}
	unknown := 0
	for _, n := range r.Unknown {
		unknown += n
	}
	add(unknown, "line of an unknown kind", "lines of unknown kinds")
	add(r.Outside, "line of another period", "lines of another period")
	add(r.OtherAccount, "line of the account's own business", "lines of the account's own business")
	add(r.Undecided, "undecided", "undecided")
	for _, kind := range slices.Sorted(maps.Keys(r.NotBooked)) {
		add(r.NotBooked[kind], fmt.Sprintf("of kind %s that is not booked", kind), fmt.Sprintf("of kind %s that are not booked", kind))
	}
	return strings.Join(out, ", ")
}

// Claims reads the claims of a home.
type Claims interface {
	// Settled lists up to limit claims of home that are not in flight, after a key,
	// in order, without their responses.
	Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error)
	// Unpaid reads the [claim.Unpaid] row of an object for which no money moved; it
	// outlives its claim.
	ByObject(ctx context.Context, home, id string) (rec claim.Record, found bool, err error)
	// Unpaid reads what is remembered, long after its claim is forgotten, of an object
	// for which no money moved.
	Unpaid(ctx context.Context, home, id string) (u claim.Unpaid, found bool, err error)
}

// Config configures a comparison. Books, Claims, Provider, Regions, Home and Found are
// required.
type Config struct {
	Books  ledger.Store
	Claims Claims
	// Provider is the name under which the provider is booked.
	Provider string
	// Account is the connected account of the statement; "": our own. Bookings in another account
	// are on another statement. The account may have other business than ours: a line without our
	// reference that is not booked is ignored.
	Account string
	// Regions are the homes of the books and claims to read.
	Regions []string
	// Home names the region of a code.
	Home func(claim.RegionCode) (string, bool)
	// From and To are the period that the statement covers, To excluded. Zero: from the
	// beginning, or up to now, which is when Run is called. With neither, every booking
	// has to be stated.
	From, To time.Time
	// Left is up to when books have left the store for segments; zero: none have. Run refuses a
	// period that begins before it: what it states may be booked there, and could be booked
	// again.
	Left time.Time
	// Slack is how much later than stated a movement may be booked; 0 means
	// [DefaultSlack].
	Slack time.Duration
	// Lag is how much later than booked a movement may be stated: a booking that is
	// this near the end of the period, and not stated, counts as in flight. 0 means
	// that of the statement's mapping, or [DefaultLag].
	Lag time.Duration
	// Book books fees, payouts and conversions that only the statement has, as
	// ledger.Store's Post does; nil: they are not booked. Those that belong to no
	// tenant are booked in the books of Common.
	Book   func(context.Context, ledger.Transaction) (posted bool, err error)
	Common string
	// Mapping is the format of the statement if it is not built in. Nil: Run takes a
	// format.
	Mapping *Mapping
	// Parts is how many parts are compared one after the other; 0 means 64: a million
	// lines are then 16,000 at a time.
	Parts int
	// Dir is for the temporary files; "" means the system's.
	Dir string
	// Found is called for every mismatch, in an order that is the same each time, from one
	// goroutine. Its error ends the comparison.
	Found func(context.Context, Mismatch) error
	// Now is when Run was called; nil means time.Now.
	Now func() time.Time
}

// DefaultSlack is four hours: as long as the worker asks about an unknown outcome by
// claim.DefaultPolicy.
const DefaultSlack = 4 * time.Hour

// DefaultLag is how far the provider's clock may be ahead of the store's, so that a
// movement is booked before it is stated. A clock that is a minute off is broken.
const DefaultLag = time.Minute

// LagOf is [Config.Lag] of a statement of m or, if that is nil, in a format: lag, if it is set.
func LagOf(lag time.Duration, m *Mapping, f Format) time.Duration {
	if m == nil {
		m, _ = MappingOf(string(f)) // nil for a format without a mapping
	}
	switch {
	case lag > 0:
		return lag
	case m != nil && m.Lag > 0:
		return m.Lag
	default:
		return DefaultLag
	}
}

const (
	defaultParts = 64
	// page is how many rows are read at a time.
	page = 1000
)

// line, booking and settled are the parts of a row in a temporary file.
type line struct {
	ID        string
	Kind      psp.Kind
	Reference string
	Amount    int64
	Currency  string
	At        int64 // ns since the Unix epoch
	Failed    bool

	Entry, Of, Settled string
	Gross, Fee         int64
}

// side distinguishes a movement, its failure, and other records with its id.
type side struct {
	ID     string
	Failed bool
	// Unasked is the kind of a movement that we did not request, "" for charges, transfers and
	// refunds.
	Unasked psp.Kind
}

func (l *line) side() side {
	if requestable(l.Kind) {
		return side{ID: l.ID, Failed: l.Failed}
	}
	return side{ID: l.ID, Unasked: l.Kind}
}

func (b *booking) side() side {
	if kind, unasked := unaskedKinds[b.Kind]; unasked {
		return side{ID: b.Ref, Unasked: kind}
	}
	_, failed := b.Kind.Failed()
	return side{ID: b.Ref, Failed: failed}
}

type booking struct {
	Object, Ref, Tenant, Home string
	Kind                      ledger.Kind
	Amount                    int64
	Currency                  string
	At                        int64 // ns since the Unix epoch
	// Elsewhere: at another provider, or in another account there, which this statement
	// does not cover.
	Elsewhere bool
}

func settledOf(rec *claim.Record) settled {
	return settled{rec.Minted.ID, rec.ProviderRef, rec.Key.Tenant, rec.Home, rec.Reason, rec.State, rec.SettledAt.UnixNano()}
}

func (r *run) booking(t *ledger.Transaction) booking {
	return booking{t.Object, t.ProviderRef, t.Tenant, t.Region, t.Kind, t.Amount, t.Currency, t.At.UnixNano(), !r.here(t)}
}

// here reports whether t moved in the account that the statement covers.
func (r *run) here(t *ledger.Transaction) bool {
	return t.Provider == r.c.Provider && psp.AccountOf(t.ProviderRef) == r.c.Account
}

type settled struct {
	Object, Ref, Tenant, Home, Reason string
	State                             claim.State
	At                                int64 // ns since the Unix epoch
}

// Run compares a statement. It reads all of it before it compares anything, so that a
// statement which cannot be read leaves nothing half-done.
func Run(ctx context.Context, c Config, statement io.Reader, f Format) (_ *Report, err error) {
	if c.Books == nil || c.Claims == nil || c.Provider == "" || len(c.Regions) == 0 || c.Home == nil || c.Found == nil {
		return nil, errors.New("recon: Books, Claims, Provider, Regions, Home and Found are required")
	}
	if c.Slack == 0 {
		c.Slack = DefaultSlack
	}
	if c.Parts <= 0 {
		c.Parts = defaultParts
	}
	if c.Mapping == nil && f != CSV && f != JSONLines {
		if c.Mapping, err = MappingOf(string(f)); err != nil {
			return nil, err
		}
	}
	c.Lag = LagOf(c.Lag, c.Mapping, f)
	if begins := c.From.Add(-c.Slack); !c.Left.IsZero() && (c.From.IsZero() || !begins.After(c.Left)) {
		return nil, fmt.Errorf("recon: old books from before %s have left for the audit's segments, so a statement can be compared from %s on; name that or a later time with --from",
			c.Left.UTC().Format(time.RFC3339), c.Left.Add(c.Slack).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339))
	}
	dir, err := os.MkdirTemp(c.Dir, "homeward-reconcile-")
	if err != nil {
		return nil, fmt.Errorf("recon: make a directory for temporary files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{c: c, upTo: c.To, report: Report{Mismatches: map[Class]int{}}, has: map[psp.Kind]bool{}}
	if c.To.IsZero() {
		r.upTo = time.Now()
		if c.Now != nil {
			r.upTo = c.Now()
		}
	}
	if r.lines, err = spill.New[line](dir, "lines", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.lines.Close()
	if r.bookings, err = spill.New[booking](dir, "bookings", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.bookings.Close()
	if r.claims, err = spill.New[settled](dir, "claims", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.claims.Close()
	if r.nameless, err = spill.New[line](dir, "nameless", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.nameless.Close()
	if r.refs, err = spill.New[ref](dir, "refs", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.refs.Close()
	if r.charges, err = spill.New[ref](dir, "charges", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.charges.Close()
	if r.unjoined, err = spill.New[line](dir, "unjoined", c.Parts); err != nil {
		return nil, fmt.Errorf("recon: %w", err)
	}
	defer r.unjoined.Close()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return r.readStatement(ctx, statement, f) }, r.readClaims, r.readBooks, r.name, r.compare,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return &r.report, nil
}

type run struct {
	c        Config
	upTo     time.Time // To, or now
	report   Report
	lines    *spill.Parts[line]
	bookings *spill.Parts[booking]
	claims   *spill.Parts[settled]
	// nameless are lines without our reference, and refs how movements are booked by
	// the provider's: read only if there are nameless ones.
	nameless *spill.Parts[line]
	refs     *spill.Parts[ref]
	names    int
	// charges are how the statement's charges are stated by the provider's references, and unjoined
	// nameless lines about payments that are not booked.
	charges  *spill.Parts[ref]
	unjoined *spill.Parts[line]
	// unreadable are the lines that cannot be read.
	unreadable []*StatementError
	has        map[psp.Kind]bool // the kinds that the statement has
}

// key is the join key of rows. A movement without our reference joins with nothing: it is alone
// under its own id.
func (l *line) key() string {
	switch {
	case l.Kind == psp.KindPayout || l.Kind == psp.KindPayoutReversal || l.Kind == psp.KindTopUp:
		return l.ID
	case l.Kind == psp.KindFee || l.Kind == psp.KindFeeRefund:
		return l.Entry
	case l.Reference == "":
		return "\x00" + l.ID
	default:
		return l.Reference
	}
}

func (r *run) readStatement(ctx context.Context, statement io.Reader, f Format) (err error) {
	defer func() {
		if err == nil && r.report.Lines+len(r.report.Unknown) == 0 && len(r.unreadable) > 0 {
			err = r.unreadable[0]
		}
	}()
	r.report.Lines, err = r.read(statement, f, func(l Line) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.c.Account != "" {
			l.ID, l.Entry, l.Of = psp.InAccount(l.ID, r.c.Account), psp.InAccount(l.Entry, r.c.Account), psp.InAccount(l.Of, r.c.Account)
		}
		l.ID, l.Entry, l.Of = psp.Ref(l.ID), psp.Ref(l.Entry), psp.Ref(l.Of) // as the books have them
		row := line{l.ID, l.Kind, l.Reference, l.Amount, l.Currency, l.At.UnixNano(), l.Failed, l.Entry, l.Of, l.Settled, l.Gross, l.Fee}
		if row.Kind == psp.KindFee || row.Kind == psp.KindFeeRefund {
			row.ID = row.Entry // it has no other name in the books
		}
		r.has[l.Kind] = true
		if r.isNameless(&row) {
			r.names++
			return r.nameless.Put(row.ID, row)
		}
		if row.Kind == psp.KindCharge && !row.Failed && r.c.Account == "" {
			if err := r.charges.Put(row.ID, ref{row.ID, row.Reference}); err != nil {
				return err
			}
		}
		return r.lines.Put(row.key(), row)
	})
	return err
}

// read reads the statement as it is described.
func (r *run) read(statement io.Reader, f Format, each func(Line) error) (lines int, err error) {
	if r.c.Mapping != nil {
		return r.c.Mapping.read(statement, each, r.unknown, r.bad)
	}
	return read(statement, f, each, r.unknown, r.bad)
}

// maxUnreadable bounds the lines of a statement that cannot be read: more of them are written
// in another format.
const maxUnreadable = 100

// bad keeps a line that cannot be read.
func (r *run) bad(e *StatementError) error {
	if len(r.unreadable) == maxUnreadable {
		return fmt.Errorf("recon: more than %d lines cannot be read, of which the first is: %w", maxUnreadable, r.unreadable[0])
	}
	r.unreadable = append(r.unreadable, e)
	return nil
}

// unknown counts a line of an unknown kind. If the column is no kind at all there would
// be as many terms as lines: beyond a bound they are counted together.
func (r *run) unknown(kind string) {
	if r.report.Unknown == nil {
		r.report.Unknown = map[string]int{}
	}
	if _, had := r.report.Unknown[kind]; !had && len(r.report.Unknown) >= maxUnknown {
		kind = otherKinds
	}
	r.report.Unknown[kind]++
}

const (
	maxUnknown = 100
	otherKinds = "(others)"
)

func (r *run) readBooks(ctx context.Context) error {
	from, to := r.c.From, r.c.To
	if !from.IsZero() {
		from = from.Add(-r.c.Slack)
	}
	if !to.IsZero() {
		to = to.Add(r.c.Slack)
	}
	for _, home := range r.c.Regions {
		for at := (ledger.Position{At: from}); ; {
			rows, err := r.c.Books.Transactions(ctx, home, at, to, page)
			if err != nil {
				return fmt.Errorf("recon: the books of %s cannot be read: %w", home, err)
			}
			for i := range rows {
				at = rows[i].Position()
				b := r.booking(&rows[i])
				if unstated(b.Kind) {
					continue
				}
				if !b.Elsewhere {
					r.report.Bookings++
				}
				if r.names > 0 && !b.Elsewhere {
					if err := r.refs.Put(b.Ref, ref{b.Ref, b.Object}); err != nil {
						return fmt.Errorf("recon: %w", err)
					}
				}
				if err := r.bookings.Put(b.Object, b); err != nil {
					return fmt.Errorf("recon: %w", err)
				}
			}
			if len(rows) < page {
				break
			}
		}
	}
	return nil
}

func (r *run) readClaims(ctx context.Context) error {
	for _, home := range r.c.Regions {
		for at := (claim.Key{}); ; {
			rows, err := r.c.Claims.Settled(ctx, home, at, page)
			if err != nil {
				return fmt.Errorf("recon: the claims of %s cannot be read: %w", home, err)
			}
			for i := range rows {
				rec := &rows[i]
				at = rec.Key
				if payment.Operation(rec.Operation).Orders() {
					continue // the charge's own line has its money
				}
				r.report.Claims++
				row := settledOf(rec)
				if err := r.claims.Put(row.Object, row); err != nil {
					return fmt.Errorf("recon: %w", err)
				}
			}
			if len(rows) < page {
				break
			}
		}
	}
	return nil
}
