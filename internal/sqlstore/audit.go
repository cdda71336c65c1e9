package sqlstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
)

var (
	auditPage    = declare[auditPageArgs]("audit_page")
	auditForget  = declare[auditForgetArgs]("audit_forget")
	auditChain   = declare[homeArgs]("audit_chain")
	auditAdvance = declare[auditAdvanceArgs]("audit_advance")

	ledgerLeaving = declare[ledgerNamedArgs]("ledger_leaving")
	ledgerForget  = declare[forgetBooksArgs]("ledger_forget")
)

type (
	// auditPlace is a row of audit within its region.
	auditPlace struct {
		keyRow
		At time.Time
		ID uuid.UUID
	}
	auditPageArgs struct {
		Home string
		auditPlace
		From, To time.Time
		Limit    int64
	}
	auditForgetArgs struct {
		Home    string
		Entries []auditPlace
	}
	auditAdvanceArgs struct {
		Home                string
		Was, Number         int64
		Digest              string
		FromAt              time.Time
		ToAt                zeronull.Timestamptz
		Part                int32
		AfterTenant         string
		AfterKey            string
		AfterAt, SweptUntil zeronull.Timestamptz
		AfterID             string
		booksPlace
	}
	booksPlace struct {
		BooksAt zeronull.Timestamptz
		BooksID string
	}
	forgetBooksArgs struct {
		Home        string
		Was, Number int64
		Digest      string
		booksPlace
		IDs []string
	}
)

// forEver is later than every row.
var forEver = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func auditPlaceOf(p *audit.Position) (auditPlace, error) {
	place := auditPlace{keyRow: keyRow{TenantID: p.Tenant, IdemKey: p.Key}, At: p.At}
	if p.ID == "" {
		return place, nil
	}
	var err error
	if place.ID, err = uuid.Parse(p.ID); err != nil {
		return place, fmt.Errorf("database: %q is not an audit entry", p.ID)
	}
	return place, nil
}

// auditLines are the lines of a row of audit: its own, and those of columns.Lines.
type auditLines struct {
	at                                  zeronull.Timestamptz
	id, attemptID, begunID              *uuid.UUID
	event, region, node, detail         zeronull.Text
	attemptEvent, attemptDetail         zeronull.Text
	begunRegion, begunNode, begunDetail zeronull.Text
	begunAt                             zeronull.Timestamptz
	fence                               zeronull.Int8
	generation                          zeronull.Int4
}

func (r *auditLines) targets() []any {
	return []any{
		&r.at, &r.id, &r.event, &r.region, &r.node, &r.fence, &r.generation, &r.detail,
		&r.attemptID, &r.attemptEvent, &r.attemptDetail, &r.begunID, &r.begunAt, &r.begunRegion, &r.begunNode, &r.begunDetail,
	}
}

// auditLine is one of them.
type auditLine struct {
	id uuid.UUID
	claim.AuditEntry
}

// all returns the lines in their order; none if all columns are NULL.
func (r *auditLines) all() (all []auditLine) {
	if r.begunID != nil {
		all = append(all, auditLine{*r.begunID, claim.AuditEntry{
			At: utc(r.begunAt), Event: claim.EventClaimed, Region: string(r.begunRegion), Node: string(r.begunNode),
			Fence: 1, Generation: 1, Detail: string(r.begunDetail),
		}})
	}
	if r.id == nil {
		return all
	}
	own := claim.AuditEntry{
		At: utc(r.at), Event: claim.Event(r.event), Region: string(r.region), Node: string(r.node),
		Fence: uint64(r.fence), Generation: uint32(r.generation), Detail: string(r.detail),
	}
	if r.attemptID != nil {
		attempt := own
		attempt.Event, attempt.Detail = claim.Event(r.attemptEvent), string(r.attemptDetail)
		all = append(all, auditLine{*r.attemptID, attempt})
	}
	return append(all, auditLine{*r.id, own})
}

// auditRow is what the statement audit_page returns.
type auditRow struct {
	next *audit.Position // nil after the last page
	// entries are the row's, in the window or not; none if the page has no rows.
	entries []audit.Entry
}

func scanAudit(row pgx.CollectableRow) (r auditRow, err error) {
	var lines auditLines
	var nextID *uuid.UUID
	var nextAt, first zeronull.Timestamptz
	var latest zeronull.Int4
	var version zeronull.Int2
	var sum []byte
	var nextTenant, nextKey, tenant, key, object, ref, providerKey zeronull.Text
	targets := append([]any{&nextTenant, &nextKey, &nextAt, &nextID, &tenant, &key}, lines.targets()...)
	if err := row.Scan(append(targets, &object, &ref, &providerKey, &latest, &first, &version, &sum)...); err != nil {
		return r, err
	}
	if nextID != nil {
		r.next = &audit.Position{Tenant: string(nextTenant), Key: string(nextKey), At: utc(nextAt), ID: nextID.String()}
	}
	for _, l := range lines.all() {
		e := audit.Entry{
			Tenant: string(tenant), Key: string(key), ID: l.id.String(),
			At: l.At, Event: l.Event, Region: l.Region, Node: l.Node, Fence: l.Fence, Generation: l.Generation, Detail: l.Detail,
		}
		if object != "" && !utc(first).After(e.At) { // else it is of a life before
			e.Object, e.ProviderRef = string(object), string(ref)
			if len(sum) == sha256.Size {
				e.Claim = &claim.Record{
					Key: claim.Key{Tenant: e.Tenant, Value: e.Key}, Minted: claim.Minted{ID: e.Object}, ProviderKey: string(providerKey),
					Generation: uint32(latest), FirstUse: utc(first), Fingerprint: claim.Fingerprint{Version: claim.FingerprintVersion(version), Sum: [sha256.Size]byte(sum)},
				}
			}
		}
		r.entries = append(r.entries, e)
	}
	return r, nil
}

// auditAge is more than pages are old on CockroachDB: follower_read_timestamp() is 4.2 s ago by
// default ("Follower Reads"), by a gateway's clock that may be 500 ms behind another's.
const auditAge = 10 * time.Second

// AuditAge implements [audit.Store].
func (v *View) AuditAge() time.Duration {
	if !v.db.dialect.cockroach {
		return 0
	}
	return auditAge
}

// AuditPage implements [audit.Store].
func (v *View) AuditPage(ctx context.Context, home string, from, to time.Time, after audit.Position, limit int) (page audit.Page, err error) {
	ctx, err = v.reach(ctx, home)
	if err != nil || limit <= 0 {
		return page, err
	}
	place, err := auditPlaceOf(&after)
	if err != nil {
		return page, err
	}
	if to.IsZero() {
		to = forEver
	}
	rows, err := many(ctx, v.db, auditPage, repeatable, auditPageArgs{home, place, from, to, int64(limit)}, scanAudit)
	if err != nil || len(rows) == 0 {
		return page, claimError(auditPage.name, err)
	}
	if next := rows[0].next; next != nil {
		page.Next, page.More = *next, true
	}
	for i := range rows {
		for _, e := range rows[i].entries {
			if !e.At.Before(from) && e.At.Before(to) {
				page.Entries = append(page.Entries, e)
			}
		}
	}
	slices.SortFunc(page.Entries, func(a, b audit.Entry) int { // the join keeps no order
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Key, b.Key), a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	return page, nil
}

// ForgetAudit implements [audit.Store].
func (v *View) ForgetAudit(ctx context.Context, home string, entries []audit.Position) (int, error) {
	ctx, err := v.reach(ctx, home)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	args := auditForgetArgs{home, make([]auditPlace, len(entries))}
	for i := range entries {
		if args.Entries[i], err = auditPlaceOf(&entries[i]); err != nil {
			return 0, err
		}
	}
	n, _, _, err := one(ctx, v.db, auditForget, repeatable, args, pgx.RowTo[int64])
	return int(n), claimError(auditForget.name, err)
}

// AuditChain implements [audit.Store].
func (v *View) AuditChain(ctx context.Context, home string) (c audit.Chain, now time.Time, found bool, err error) {
	ctx, err = v.reach(ctx, home)
	if err != nil {
		return c, now, false, err
	}
	c, _, _, err = one(ctx, v.db, auditChain, repeatable, homeArgs{home}, func(row pgx.CollectableRow) (c audit.Chain, err error) {
		var version, number zeronull.Int8
		var part zeronull.Int4
		var digest, tenant, key, id, book zeronull.Text
		var from, to, at, swept, books zeronull.Timestamptz
		if err := row.Scan(&now, &version, &number, &digest, &from, &to, &part, &tenant, &key, &at, &id, &swept, &books, &book); err != nil {
			return c, err
		}
		return audit.Chain{
			Version: uint64(version), Number: uint64(number), Digest: string(digest), From: utc(from), To: utc(to), Part: int(part),
			After: audit.Position{Tenant: string(tenant), Key: string(key), At: utc(at), ID: string(id)}, SweptUntil: utc(swept),
			Books: ledger.Position{At: utc(books), ID: string(book)},
		}, nil
	})
	return c, now.UTC(), c.Version > 0, claimError(auditChain.name, err)
}

// utc converts a time that was read, zero for NULL.
func utc(t zeronull.Timestamptz) time.Time {
	if time.Time(t).IsZero() {
		return time.Time{}
	}
	return time.Time(t).UTC()
}

// AdvanceAudit implements [audit.Store].
func (v *View) AdvanceAudit(ctx context.Context, home string, was uint64, next audit.Chain) (moved bool, err error) {
	ctx, err = v.reach(ctx, home)
	if err != nil {
		return false, err
	}
	// As a brake's: a second run after a lost reply would look as if another had been
	// faster.
	_, moved, _, err = one(ctx, v.db, auditAdvance, once, auditAdvanceArgs{
		Home: home, Was: int64(was), Number: int64(next.Number), Digest: next.Digest, FromAt: next.From, ToAt: zeronull.Timestamptz(next.To), Part: int32(next.Part),
		AfterTenant: next.After.Tenant, AfterKey: next.After.Key, AfterAt: zeronull.Timestamptz(next.After.At), AfterID: next.After.ID,
		SweptUntil: zeronull.Timestamptz(next.SweptUntil), booksPlace: booksPlaceOf(&next),
	}, pgx.RowTo[int64])
	return moved, claimError(auditAdvance.name, err)
}

func booksPlaceOf(c *audit.Chain) booksPlace {
	return booksPlace{zeronull.Timestamptz(c.Books.At), c.Books.ID}
}

// LeavingBooks implements [audit.Store].
func (v *View) LeavingBooks(ctx context.Context, home string, after ledger.Position, before time.Time, limit int) (page audit.BooksPage, err error) {
	rows, err := v.Transactions(ctx, home, after, before, limit)
	if err != nil || len(rows) == 0 {
		return page, err
	}
	page.Next, page.More = rows[len(rows)-1].Position(), len(rows) == limit
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	page.Transactions, err = manySlowly(ctx, v.db, ledgerLeaving, ledgerNamedArgs{home, ids}, scanTransaction)
	return page, err
}

// ForgetBooks implements [audit.Store]. Where the reply to COMMIT was lost, the second run finds
// the chain moved.
func (v *View) ForgetBooks(ctx context.Context, home string, was uint64, next audit.Chain, ids []string) (moved bool, err error) {
	if ctx, err = v.reach(ctx, home); err != nil {
		return false, err
	}
	done, err := manySlowly(ctx, v.db, ledgerForget, forgetBooksArgs{
		home, int64(was), int64(next.Number), next.Digest, booksPlaceOf(&next), append([]string{}, ids...),
	}, pgx.RowTo[bool])
	return len(done) == 1 && done[0], err
}
