package cockroach

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
)

var (
	auditPage    = declare[auditPageArgs]("audit_page")
	auditForget  = declare[auditForgetArgs]("audit_forget")
	auditChain   = declare[homeArgs]("audit_chain")
	auditAdvance = declare[auditAdvanceArgs]("audit_advance")
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

// auditRow is what the statement audit_page returns.
type auditRow struct {
	seen int64
	next audit.Position
	// entry has no ID if none of the rows is in the window.
	entry audit.Entry
}

func scanAudit(row pgx.CollectableRow) (r auditRow, err error) {
	var nextID uuid.UUID
	var at zeronull.Timestamptz
	var id *uuid.UUID
	var fence zeronull.Int8
	var generation, latest zeronull.Int4
	var first zeronull.Timestamptz
	var version zeronull.Int2
	var sum []byte
	var tenant, key, event, region, node, detail, object, ref, providerKey zeronull.Text
	err = row.Scan(&r.seen, &r.next.Tenant, &r.next.Key, &r.next.At, &nextID,
		&tenant, &key, &at, &id, &event, &region, &node, &fence, &generation, &detail, &object, &ref, &providerKey, &latest, &first, &version, &sum)
	if err != nil {
		return r, err
	}
	r.next.At, r.next.ID = r.next.At.UTC(), nextID.String()
	if id != nil {
		r.entry = audit.Entry{
			Tenant: string(tenant), Key: string(key), Object: string(object), ProviderRef: string(ref), ID: id.String(),
			At: time.Time(at).UTC(), Event: claim.Event(event), Region: string(region), Node: string(node),
			Fence: uint64(fence), Generation: uint32(generation), Detail: string(detail),
		}
		if object != "" && len(sum) == sha256.Size {
			r.entry.Claim = &claim.Record{
				Key: claim.Key{Tenant: r.entry.Tenant, Value: r.entry.Key}, Minted: claim.Minted{ID: r.entry.Object}, ProviderKey: string(providerKey),
				Generation: uint32(latest), FirstUse: utc(first), Fingerprint: claim.Fingerprint{Version: claim.FingerprintVersion(version), Sum: [sha256.Size]byte(sum)},
			}
		}
	}
	return r, nil
}

// auditAge is more than pages are old on CockroachDB: follower_read_timestamp() is 4.2 s ago by
// default ("Follower Reads"), by a gateway's clock that may be 500 ms behind another's.
const auditAge = 10 * time.Second

// AuditAge implements [audit.Store].
func (v *View) AuditAge() time.Duration {
	if v.db.dialect.fromReplica == "" {
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
	page.Next, page.More = rows[0].next, rows[0].seen == int64(limit)
	for i := range rows {
		if rows[i].entry.ID != "" {
			page.Entries = append(page.Entries, rows[i].entry)
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
	n, _, err := affected(ctx, v.db, auditForget, repeatable, args)
	return n, claimError(auditForget.name, err)
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
		var digest, tenant, key, id zeronull.Text
		var from, to, at, swept zeronull.Timestamptz
		if err := row.Scan(&now, &version, &number, &digest, &from, &to, &part, &tenant, &key, &at, &id, &swept); err != nil {
			return c, err
		}
		return audit.Chain{
			Version: uint64(version), Number: uint64(number), Digest: string(digest), From: utc(from), To: utc(to), Part: int(part),
			After: audit.Position{Tenant: string(tenant), Key: string(key), At: utc(at), ID: string(id)}, SweptUntil: utc(swept),
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
		SweptUntil: zeronull.Timestamptz(next.SweptUntil),
	}, pgx.RowTo[int64])
	return moved, claimError(auditAdvance.name, err)
}
