// Package restore is what a person does to a store that was restored from a backup, before
// nodes may use it and until nothing of what is lost would be remembered any more. What
// keeps money from moving twice meanwhile is the row, see "After a restore" in package claim.
// Rows, and the bucket of the audit, are handed to it.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/payment/notice"
)

// Rows are the stores of the deployment, and Region those of its regions.
type (
	Rows interface {
		claim.Regions
		claim.Restores
		notice.BrakeStore
		// Sessions returns the database sessions that others have open.
		Sessions(ctx context.Context) ([]string, error)
		// Windows are the longest that keys were kept for.
		Windows(ctx context.Context) (claim.Policy, error)
		// DeploymentID is the id of the rows, which a backup keeps.
		DeploymentID(ctx context.Context) (uuid.UUID, error)
	}
	Region interface {
		AuditChain(ctx context.Context, home string) (c audit.Chain, now time.Time, found bool, err error)
		AdvanceAudit(ctx context.Context, home string, was uint64, next audit.Chain) (moved bool, err error)
		ForgetBooks(ctx context.Context, home string, was uint64, next audit.Chain, ids []string) (moved bool, err error)
	}
)

// Lost describes which writes the rows lack.
type Lost struct {
	// From is when the backup was made. Until is since when no node has run; zero: now.
	From, Until time.Time
	// By is who restores the store, and Why the reason.
	By, Why string
	// Sessions: the open sessions belong to no nodes.
	Sessions bool
}

// ErrSessions: other sessions have the database open.
var ErrSessions = errors.New("the database has other sessions, possibly nodes")

// stopped is the reason for which automatic refunds are held, for the next operator.
const stopped = "a restore is in effect: what looks like a ghost may be a charge whose record is lost"

// Begin writes the row. It may be repeated; each time a new one is written, with the earlier of the
// two times of backups while one is in effect.
//
//	sessions | automatic refunds are stopped | the row is written | they are stopped again | sessions
//
// The second look is what counts: a node that opened its session after it reads the row
// before its first request. If it finds any, the row is put back to what it was, which
// leaves automatic refunds stopped. The first look only spares a deployment that runs the
// row. A crash after the refunds are stopped leaves them so, a crash after the row leaves
// it standing: keys are withheld, and Begin may be repeated.
//
// Refunds are stopped twice because an operator may release them who has looked before there was a
// row: the first keeps a crash from leaving a row with refunds going on, the second undoes that
// release.
func Begin(ctx context.Context, rows Rows, at Region, lost Lost) (claim.Restore, error) {
	was, now, err := rows.Restore(ctx)
	if err != nil {
		return was, err
	}
	if lost.Until.IsZero() {
		lost.Until = now
	}
	switch {
	case lost.From.IsZero() || !lost.From.Before(lost.Until):
		return was, fmt.Errorf("the backup of %s is not older than %s, since when no node has run", stamp(lost.From), stamp(lost.Until))
	case lost.Until.After(now):
		return was, fmt.Errorf("%s, since when no node has run, is in the future; the store's clock says %s", stamp(lost.Until), stamp(now))
	}
	if err := alone(ctx, rows, &lost); err != nil {
		return was, err
	}
	exported, err := prepare(ctx, rows, at, &was)
	if err != nil {
		return was, err
	}
	r := claim.NewRestore(was, lost.From, lost.Until, now, exported, lost.By, lost.Why)
	r, err = change(ctx, rows, func(at claim.Restore) (claim.Restore, error) {
		if at.Version != was.Version {
			return at, errors.New("another operator has begun a restore meanwhile; look at homeward restore show")
		}
		return r, nil
	})
	if err != nil {
		return was, err
	}
	if err := stop(ctx, rows); err != nil {
		return r, fmt.Errorf("the row is written, but automatic refunds may not be stopped; run this again: %w", err)
	}
	if err := alone(ctx, rows, &lost); err != nil {
		return was, errors.Join(err, takeBack(ctx, rows, &r, was))
	}
	return r, nil
}

// prepare stops automatic refunds before the row is written, and returns the last segments
// that the rows know of. If was is over, it first deletes what an End that died has left: a witness
// of that restore is none of this one.
func prepare(ctx context.Context, rows DetectRows, at Region, was *claim.Restore) (map[string]claim.Segment, error) {
	if err := stop(ctx, rows); err != nil {
		return nil, err
	}
	if !was.Withholds() {
		if err := drop(ctx, rows, was); err != nil {
			return nil, err
		}
	}
	return ends(ctx, rows, at)
}

// stop stops automatic refunds. Who releases them, and looked for a restore before, does not.
func stop(ctx context.Context, rows notice.BrakeStore) error {
	_, err := notice.Stop(ctx, rows, notice.AllProviders, stopped)
	return err
}

// alone returns an error if others have the rows open, or if it cannot tell.
func alone(ctx context.Context, rows Rows, lost *Lost) error {
	if lost.Sessions {
		return nil
	}
	open, err := rows.Sessions(ctx)
	if err == nil && len(open) > 0 {
		err = fmt.Errorf("%w: %s; stop every node, so that none runs without having read the row", ErrSessions, strings.Join(open, ", "))
	}
	return err
}

// takeBack restores the row that replacing replaced. If there was none, it leaves one that says
// nothing, above all not since when: the bucket is compared with the store as before.
func takeBack(ctx context.Context, rows claim.Restores, replacing *claim.Restore, was claim.Restore) error {
	if was.Phase == "" {
		was = claim.Restore{Phase: claim.RestoreOver, Tag: replacing.Tag, By: replacing.By, Why: replacing.Why}
	}
	_, err := change(ctx, rows, func(at claim.Restore) (claim.Restore, error) {
		if at.Version != replacing.Version {
			return at, errors.New("another operator has changed it meanwhile")
		}
		return was, nil
	})
	if err != nil {
		return fmt.Errorf("the row could not be undone and is in effect; see homeward restore show: %w", err)
	}
	return nil
}

// ends returns the last segments that the rows know of.
func ends(ctx context.Context, rows claim.Regions, at Region) (map[string]claim.Segment, error) {
	regions, _, err := rows.Regions(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]claim.Segment{}
	for _, one := range regions {
		chain, _, _, err := at.AuditChain(ctx, one.Name)
		if err != nil {
			return nil, fmt.Errorf("region %s: %w", one.Name, err)
		}
		all[one.Name] = claim.Segment{Number: chain.Number, Digest: chain.Digest, From: chain.From.UTC()}
	}
	return all, nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// maxTries bounds compare-and-set among operators.
const maxTries = 8

// change applies how to the row until it is written.
func change(ctx context.Context, rows claim.Restores, how func(claim.Restore) (claim.Restore, error)) (claim.Restore, error) {
	for range maxTries {
		was, _, err := rows.Restore(ctx)
		if err != nil {
			return was, err
		}
		next, err := how(was)
		if err != nil {
			return was, err
		}
		next.Version = was.Version
		changed, err := rows.PutRestore(ctx, next)
		if err != nil {
			return was, err
		}
		if changed {
			next.Version++
			return next, nil
		}
	}
	return claim.Restore{}, errors.New("the row of restores keeps changing; try again")
}

// ErrNone: no restore is in effect.
var ErrNone = errors.New("no restore is in effect; homeward restore begin records one")

// requireOpen returns an error if no restore has begun.
func requireOpen(r *claim.Restore) error {
	if !r.Withholds() {
		return ErrNone
	}
	return nil
}

// Witnessed is what a region's bucket had.
type Witnessed struct {
	Region string `json:"region"`
	audit.Followed
}

// batch is how many witnesses are written in one step.
const batch = 500

// Audit reads what the bucket has of what is lost, writes it as witnesses, and moves each
// region's chain on to the bucket's end, so that the export goes on there. When the bucket
// has all of the time that is lost, in every region, the restore is witnessed.
//
//	witnesses | books that had left | the chain | the row
//
// It may be repeated from the start after a crash anywhere: the same segments say the same,
// and no node exports before the row says that the region was read. It reads nothing while the rows
// lack a region of the bucket.
func Audit(ctx context.Context, rows Rows, at Region, objects audit.Objects, trust audit.Trust, each func(Witnessed)) (claim.Restore, error) {
	r, _, err := rows.Restore(ctx)
	if err == nil {
		err = requireOpen(&r)
	}
	if err != nil {
		return r, err
	}
	regions, _, err := rows.Regions(ctx)
	if err != nil {
		return r, err
	}
	deployment, err := rows.DeploymentID(ctx)
	if err != nil {
		return r, err
	}
	if err := sameRegions(ctx, regions, &audit.Lost{Objects: objects, Trust: trust, Deployment: deployment}); err != nil {
		return r, err
	}
	lives := map[claim.Key]time.Time{}
	for _, one := range regions {
		chain, _, _, err := at.AuditChain(ctx, one.Name)
		if err != nil {
			return r, fmt.Errorf("region %s: %w", one.Name, err)
		}
		from := endedAt(chain, r.Exported[one.Name])
		lost := audit.Lost{Objects: objects, Trust: trust, Deployment: deployment, Home: one.Name, Before: r.OpenedAt}
		found, err := lost.Follow(ctx, from)
		if err != nil {
			return r, err
		}
		if read := r.Audited[one.Name]; found.Covered.Before(read) {
			return r, fmt.Errorf("region %s: the bucket holds the audit up to %s, but it was read up to %s before (%s); name the bucket that has all of it, nothing of this one was used",
				one.Name, stamp(found.Covered), stamp(read), cmp.Or(found.Broken, "its chain ends there"))
		}
		for some := latest(lives, found.Witnesses); len(some) > 0; {
			n := min(batch, len(some))
			if err := keepBooked(ctx, rows, &r, some[:n]); err != nil {
				return r, err
			}
			if err := rows.PutWitnesses(ctx, some[:n]); err != nil {
				return r, err
			}
			some = some[n:]
		}
		if err := goOn(ctx, at, &lost, chain, from, &found); err != nil {
			return r, fmt.Errorf("region %s: %w", one.Name, err)
		}
		// Last: from here on nodes export.
		if r, err = audited(ctx, rows, one.Name, found.Covered, regions); err != nil {
			return r, err
		}
		each(Witnessed{one.Name, found})
	}
	return r, nil
}

// latest returns those of a region's witnesses that are of the last life of their keys: one that was free
// again may have had another home before. lives has when the lives of the regions before began. A claim of
// which the audit shows later generations alone began before the backup. Which life is the last is unknown
// with a blind witness, which withholds the key.
func latest(lives map[claim.Key]time.Time, all []claim.Witness) []claim.Witness {
	return slices.DeleteFunc(slices.Clone(all), func(w claim.Witness) bool {
		began := w.FirstUse
		if w.Object == "" {
			began = time.Unix(1<<40, 0) // after all others
		}
		if began.Before(lives[w.Key]) {
			return true
		}
		lives[w.Key] = began
		return false
	})
}

// sameRegions compares the regions of the rows with those of the bucket. A backup lacks a region that was
// added since, and with it its code: what was begun there would be begun again elsewhere.
func sameRegions(ctx context.Context, regions []claim.Region, l *audit.Lost) error {
	codes, err := l.Codes(ctx)
	if err != nil {
		return err
	}
	for _, one := range regions {
		if code := codes[one.Name]; code != 0 && code != one.Code {
			return fmt.Errorf("region %s has code %d in the database, and its objects in the bucket have code %d: restore the backup again, and add the region as %s=%d", one.Name, one.Code, code, one.Name, code)
		}
		delete(codes, one.Name)
	}
	lacking := slices.Sorted(maps.Keys(codes))
	if len(lacking) == 0 {
		return nil
	}
	code := "CODE, with the code that it had"
	if known := codes[lacking[0]]; known != 0 {
		code = strconv.Itoa(int(known))
	}
	return fmt.Errorf("the bucket has the audit of region %s, which the database lacks, as it was added after the backup: add it again by homeward migrate up --regions %s=%s, and run this again", lacking[0], lacking[0], code)
}

// goOn moves the chain of a region on to the bucket's end, as l has found it from from. Where the chain
// is further than that, nodes have exported since the restore was begun, and the bucket is at most ahead
// by a segment that one has not recorded; or the store was put back again to a backup of that time.
func goOn(ctx context.Context, at Region, l *audit.Lost, chain, from audit.Chain, found *audit.Followed) error {
	end := *found
	if from.Number != chain.Number {
		var err error
		if end, err = l.Follow(ctx, chain); err != nil {
			return err
		}
		if end.Segments == 1 && len(end.Left) > 0 { // a node's, of books that it kept; a spare one
			return nil
		}
	}
	if end.Segments == 0 {
		return nil
	}
	next := end.Chain
	if next.From.Before(chain.From) { // the store's rows of this time are exported
		next.From, next.To, next.After, next.Part = chain.From, chain.To, chain.After, chain.Part
	}
	var err error
	if len(end.Left) > 0 {
		if chain, err = leaveAgain(ctx, at, l.Home, chain, next.From, end.Left); err != nil {
			return err
		}
	}
	moved, err := at.AdvanceAudit(ctx, l.Home, chain.Version, next)
	if err == nil && !moved {
		err = errors.New("the chain of the audit has moved meanwhile; run this again")
	}
	return err
}

// leaveAgain has restored books leave again if their segments exist, a segment in a step: as the
// exporter does, since a step of many more may be too large. It returns the chain's row.
func leaveAgain(ctx context.Context, at Region, home string, chain audit.Chain, from time.Time, all []audit.Left) (audit.Chain, error) {
	if chain.From = cmp.Or(chain.From, from); chain.Version == 0 { // the backup is older than the export
		if _, err := at.AdvanceAudit(ctx, home, 0, chain); err != nil {
			return chain, err
		}
		chain.Version++
	}
	for _, left := range all {
		chain.Books = left.Until
		moved, err := at.ForgetBooks(ctx, home, chain.Version, chain, left.IDs)
		if err != nil {
			return chain, err
		}
		if chain.Version++; moved {
			continue
		}
		switch now, _, _, err := at.AuditChain(ctx, home); {
		case err != nil:
			return chain, err
		case now.Version != chain.Version || now.Books.Before(chain.Books): // not an attempt of ours with a lost reply
			return chain, errors.New("the books that have left for segments are not all as they were; run homeward ledger verify, and ask who changed them")
		}
	}
	return chain, nil
}

// endedAt is the chain as it ended when the restore was begun. The time is of that moment, too:
// since then nodes may have exported what they wrote, which is no witness of what is lost.
func endedAt(now audit.Chain, then claim.Segment) audit.Chain {
	if now.Number != then.Number || !now.From.Equal(then.From) {
		now.To, now.After, now.Part = time.Time{}, audit.Position{}, 0
	}
	now.Number, now.Digest, now.From = then.Number, then.Digest, then.From
	return now
}

// audited records that the bucket's audit of a region was read up to a time.
func audited(ctx context.Context, rows claim.Restores, region string, to time.Time, all []claim.Region) (claim.Restore, error) {
	return change(ctx, rows, func(r claim.Restore) (claim.Restore, error) {
		if err := requireOpen(&r); err != nil {
			return r, err
		}
		if r.Audited == nil {
			r.Audited = map[string]time.Time{}
		}
		r.Audited[region] = to
		for _, one := range all {
			if r.Audited[one.Name].Before(r.Until) {
				return r, nil
			}
		}
		r.Phase, r.Partial = claim.RestoreWitnessed, false
		return r, nil
	})
}

// Release records a person's statement that every key that matters has a witness: keys without one
// are new from then on. A claim that the audit does not show to its end stays withheld, unless all
// of the audit was read: nothing shows which generation of it was the last.
func Release(ctx context.Context, rows claim.Restores, by, why string) (claim.Restore, error) {
	return change(ctx, rows, func(r claim.Restore) (claim.Restore, error) {
		if err := requireOpen(&r); err != nil {
			return r, err
		}
		r.Partial = r.Partial || r.Phase != claim.RestoreWitnessed
		r.Phase, r.ReleasedBy, r.ReleasedWhy = claim.RestoreWitnessed, by, why
		return r, nil
	})
}

// ErrUnreleased: a restore is in effect, and keeps automatic refunds stopped.
var ErrUnreleased = errors.New("a restore is in effect: what looks like a ghost may be a charge whose record is lost, and a release refunds it")

// AllowRefunds returns [ErrUnreleased] while a restore is in effect. [notice.Release] calls it.
func AllowRefunds(ctx context.Context, rows claim.Restores) error {
	r, _, err := rows.Restore(ctx)
	if err == nil && r.Withholds() {
		err = ErrUnreleased
	}
	return err
}

// ErrRemembered: keys used in the lost time would not have expired yet.
var ErrRemembered = errors.New("keys that were used in the lost time count as used")

// End ends the restore, once no key of what is lost would be remembered by a store that has lost
// nothing, and deletes the witnesses. A claim that may have been in flight, as a bank debit is for
// days, would be remembered until it is settled: while there are witnesses of such claims, and a
// payment method may still take its time, the restore stays in effect for their keys alone. kept is
// how many they are; End is then due again at [claim.Restore.ResolvedAt]. windows are those of
// [Rows.Windows], with the longest ProcessingFor and ActionFor that nodes have had.
//
//	the row | witnesses
//
// The next Begin deletes the witnesses that a crash in between has left.
func End(ctx context.Context, rows Rows, windows *claim.Policy) (r claim.Restore, kept int, err error) {
	_, now, err := rows.Restore(ctx)
	if err != nil {
		return r, 0, err
	}
	r, err = change(ctx, rows, func(r claim.Restore) (claim.Restore, error) {
		if err := requireOpen(&r); err != nil && r.Phase != claim.RestoreOver {
			return r, err
		}
		if free := r.ForgottenAt(windows); now.Before(free) {
			return r, fmt.Errorf("%w until %s", ErrRemembered, stamp(free))
		}
		if r.Phase != claim.RestoreOver && now.Before(r.ResolvedAt(windows)) {
			if _, kept, err = CountWitnesses(ctx, rows); err != nil {
				return r, err
			}
			if kept > 0 {
				r.Partial = r.Partial || r.Phase != claim.RestoreWitnessed
				r.Phase, r.Settled = claim.RestoreWitnessed, true
				return r, nil
			}
		}
		r.Phase = claim.RestoreOver
		return r, nil
	})
	if err != nil || r.Withholds() {
		return r, kept, err
	}
	return r, 0, drop(ctx, rows, &r)
}

// drop deletes the witnesses of r, which is over, unless its row has changed since.
func drop(ctx context.Context, rows claim.Restores, r *claim.Restore) error {
	for {
		n, err := rows.DropWitnesses(ctx, r.Version, batch)
		if err != nil || n == 0 {
			return err
		}
	}
}

// CountWitnesses counts the witnesses, and of them those that do not show the claim's end.
func CountWitnesses(ctx context.Context, rows claim.Restores) (all, open int, err error) {
	for after := (claim.Key{}); ; {
		some, err := rows.Witnesses(ctx, after, batch)
		if err != nil || len(some) == 0 {
			return all, open, err
		}
		all += len(some)
		for i := range some {
			if !some[i].Final() {
				open++
			}
		}
		after = some[len(some)-1].Key
	}
}
