package restore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/audit/audittest"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/claim/claimtest"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/restore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/payment/notice"
)

const home, away = "us-east1", "europe-west1"

// world is a store that lives on, with its bucket, and one that was put back to nothing.
type world struct {
	*testing.T
	bucket *audittest.Bucket
	keys   *audit.Keys
	lost   []claim.Arrival
}

func open(t *testing.T) deployment.Deployment {
	t.Helper()
	ago := audit.MinKeepBooks + 48*time.Hour
	db, err := embedded.Open(embedded.Config{Dir: t.TempDir(), Clock: func() time.Time { return time.Now().Add(-ago) }, Policy: claim.DefaultPolicy(), Regions: []claim.Region{{Name: home, Code: 1}, {Name: away, Code: 2}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	d := restored{deployment.Embedded(db)}
	require.NoError(t, d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: home}))
	for i := range 2 {
		id := fmt.Sprintf("ch_old_%d", i)
		_, err := rows(t, d).Post(t.Context(), ledger.Transaction{
			ID: id, Region: home, Tenant: "acme", Kind: ledger.Charge, Debit: ledger.Provider("sim"), Credit: ledger.Merchant("acme"),
			Amount: 5, Currency: "usd", Object: id, Provider: "sim", ProviderRef: "psp_" + id,
		})
		require.NoError(t, err)
	}
	ago = 0
	return d
}

func rows(t *testing.T, d deployment.Deployment) deployment.Store {
	t.Helper()
	v, err := d.Region(home)
	require.NoError(t, err)
	return v
}

// deploymentID is the id of the deployment that was lost, which every store of these tests has: a
// backup keeps it.
var deploymentID = uuid.New()

// restored is the deployment, put back.
type restored struct{ deployment.Deployment }

func (restored) DeploymentID(context.Context) (uuid.UUID, error) { return deploymentID, nil }

func newWorld(t *testing.T) *world {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	w := &world{T: t, bucket: audittest.NewBucket(), keys: keys}
	d := open(t)
	v := rows(t, d)
	for i := range 3 {
		a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: fmt.Sprintf("key-%d", i)}, home, "100", "node-1", fmt.Sprintf("ch_%d", i))
		a.Provider, a.Providers = "simulator", []string{"simulator"}
		begun, err := v.Begin(t.Context(), a)
		require.NoError(t, err)
		require.Equal(t, claim.Won, begun.Decision)
		w.lost = append(w.lost, a)
	}
	policy := audit.DefaultPolicy()
	policy.KeepBooks = audit.MinKeepBooks
	for _, region := range []string{home, away} {
		x, err := audit.NewExporter(audit.Config{
			Store: v, Objects: w.bucket, Keys: keys, Deployment: deploymentID, Policy: policy, Home: region, Node: "n", Providers: []string{"simulator"}, Entries: 1, Page: 1,
		})
		require.NoError(t, err)
		_, err = x.Round(t.Context())
		require.NoError(t, err)
		_, err = x.Finish(t.Context())
		require.NoError(t, err)
	}
	return w
}

// restore does what a person does, up to where all witnesses are read.
func (w *world) restore(all restore.Rows, at restore.Region, stopped time.Time) error {
	if _, err := restore.Begin(w.Context(), all, at, restore.Lost{From: stopped.Add(-time.Hour), Until: stopped, By: "ops", Why: "a test"}); err != nil {
		return err
	}
	r, err := restore.Audit(w.Context(), all, at, w.bucket, w.keys.Trust(), func(restore.Witnessed) {})
	if err == nil && r.Phase != claim.RestoreWitnessed {
		err = fmt.Errorf("it is %s", r.Phase)
	}
	return err
}

// dying is a store that fails at its nth write, before or after it was done.
type dying struct {
	deployment.Deployment
	deployment.Store
	remaining int
	after     bool
}

var errDied = errors.New("died here")

func (d *dying) write(do func() error) error {
	if d.remaining--; d.remaining == 0 && !d.after {
		return errDied
	}
	err := do()
	if d.remaining == 0 {
		err = errDied
	}
	return err
}

func (d *dying) PutRestore(ctx context.Context, r claim.Restore) (ok bool, err error) {
	err = d.write(func() (err error) { ok, err = d.Deployment.PutRestore(ctx, r); return err })
	return ok, err
}

func (d *dying) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	return d.write(func() error { return d.Deployment.PutWitnesses(ctx, all) })
}

func (d *dying) PutBrake(ctx context.Context, b notice.Brake) (ok bool, err error) {
	err = d.write(func() (err error) { ok, err = d.Deployment.PutBrake(ctx, b); return err })
	return ok, err
}

func (d *dying) AdvanceAudit(ctx context.Context, region string, was uint64, next audit.Chain) (ok bool, err error) {
	err = d.write(func() (err error) { ok, err = d.Store.AdvanceAudit(ctx, region, was, next); return err })
	return ok, err
}

func (d *dying) ForgetBooks(ctx context.Context, region string, was uint64, next audit.Chain, ids []string) (ok bool, err error) {
	err = d.write(func() (err error) { ok, err = d.Store.ForgetBooks(ctx, region, was, next, ids); return err })
	return ok, err
}

// only makes one of the two that dying has of each.
type only struct {
	*dying
}

func (o only) Regions(ctx context.Context) ([]claim.Region, uint64, error) {
	return o.Deployment.Regions(ctx)
}

func (o only) DeploymentID(ctx context.Context) (uuid.UUID, error) {
	return o.Deployment.DeploymentID(ctx)
}

func (o only) Restore(ctx context.Context) (claim.Restore, time.Time, error) {
	return o.Deployment.Restore(ctx)
}
func (o only) Witness(ctx context.Context, key claim.Key) (claim.Witness, bool, error) {
	return o.Deployment.Witness(ctx, key)
}
func (o only) Witnesses(ctx context.Context, after claim.Key, limit int) ([]claim.Witness, error) {
	return o.Deployment.Witnesses(ctx, after, limit)
}
func (o only) DropWitnesses(ctx context.Context, version uint64, limit int) (int, error) {
	return o.Deployment.DropWitnesses(ctx, version, limit)
}
func (o only) SetRegionStatus(ctx context.Context, name string, s claim.RegionStatus) (uint64, error) {
	return o.Deployment.SetRegionStatus(ctx, name, s)
}
func (o only) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	return o.Deployment.Brakes(ctx)
}

// TestRestoreDiesAnywhere: at whichever write the tool dies, a repeat of all steps ends alike, and
// at no moment the guard releases a key before its witness is read.
func TestRestoreDiesAnywhere(t *testing.T) {
	w := newWorld(t)
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			d := open(t)
			stopped := time.Now().Add(-time.Millisecond)
			stopped = w.exportedUntil(stopped)
			mortal := only{&dying{d, rows(t, d), step, after}}
			err := w.restore(mortal, mortal, stopped)
			if err == nil {
				require.Greater(t, step, 6, "writes")
				break
			}
			require.ErrorIs(t, err, errDied)
			r, _, err := d.Restore(t.Context())
			require.NoError(t, err)
			witnesses, err := d.Witnesses(t.Context(), claim.Key{}, 10)
			require.NoError(t, err)
			if r.Phase == claim.RestoreWitnessed {
				require.Len(t, witnesses, len(w.lost))
			}
			require.NoError(t, w.restore(d, rows(t, d), stopped))
			w.requireRestored(d)
		}
	}
}

// lossy loses the reply of each step in which books leave: a second try finds it done.
type lossy struct {
	deployment.Store
	left []int
}

func (u *lossy) ForgetBooks(ctx context.Context, region string, was uint64, next audit.Chain, ids []string) (bool, error) {
	u.left = append(u.left, len(ids))
	if moved, err := u.Store.ForgetBooks(ctx, region, was, next, ids); err != nil || !moved {
		return moved, err
	}
	return u.Store.ForgetBooks(ctx, region, was, next, ids)
}

// Books leave again as they had left, a segment at a time: all of them may be too many for one
// step of the database.
func TestBooksLeaveAgainBySegments(t *testing.T) {
	w := newWorld(t)
	d := open(t)
	at := &lossy{Store: rows(t, d)}
	require.NoError(t, w.restore(d, at, w.exportedUntil(time.Now().Add(-time.Millisecond))))
	require.Equal(t, []int{1, 1}, at.left)
	w.requireRestored(d)
}

// TestNoNodeExportsBeforeItMay: wherever the tool dies, a node that exports as soon as the row lets
// it goes on from the end of the lost chain.
func TestNoNodeExportsBeforeItMay(t *testing.T) {
	w := newWorld(t)
	whole := w.bucket
	for _, after := range []bool{false, true} {
		for step := 1; ; step++ {
			w.bucket = whole.Clone()
			d := open(t)
			stopped := w.exportedUntil(time.Now().Add(-time.Millisecond))
			mortal := only{&dying{d, rows(t, d), step, after}}
			died := w.restore(mortal, mortal, stopped)
			r, _, err := d.Restore(t.Context())
			require.NoError(t, err)
			if r.Withholds() && !r.Unread(home) {
				x, err := audit.NewExporter(audit.Config{
					Store: rows(t, d), Objects: w.bucket, Keys: w.keys, Deployment: deploymentID, Policy: audit.DefaultPolicy(), Home: home, Node: "n",
				})
				require.NoError(t, err)
				_, err = x.Finish(t.Context())
				require.NoError(t, err)
			}
			if died == nil {
				break
			}
			require.NoError(t, w.restore(d, rows(t, d), stopped), "after step %d", step)
			w.requireRestored(d)
		}
	}
}

// exportedUntil is a time that the bucket covers.
func (w *world) exportedUntil(t time.Time) time.Time {
	w.Helper()
	r, err := audit.Verify(w.Context(), audit.VerifyConfig{Objects: w.bucket, Trust: w.keys.Trust()})
	require.NoError(w, err)
	require.Empty(w, r.Failures)
	for _, one := range r.Regions {
		if one.To.Before(t) {
			t = one.To
		}
	}
	return t
}

// requireRestored asserts that a node of d finds each lost claim again, and that the books that had left
// have left again, as the bucket says.
func (w *world) requireRestored(d deployment.Deployment) {
	w.Helper()
	r, err := audit.Verify(w.Context(), audit.VerifyConfig{Objects: w.bucket, Trust: w.keys.Trust(), Regions: []string{home}})
	require.NoError(w, err)
	require.Empty(w, r.Failures)
	require.EqualValues(w, 2, r.Regions[0].Books)
	carried, err := ledger.Carried(w.Context(), rows(w.T, d), home)
	require.NoError(w, err)
	require.Equal(w, r.Regions[0].Carried, carried)
	books, err := rows(w.T, d).Transactions(w.Context(), home, ledger.Position{}, time.Time{}, 10)
	require.NoError(w, err)
	require.Empty(w, books)
	guard, err := claim.NewGuard(w.Context(), d)
	require.NoError(w, err)
	for _, a := range w.lost {
		witness, err := guard.Recall(w.Context(), a.Key)
		require.NoError(w, err)
		require.Equal(w, a.Mint.ID, witness.Object)
		require.Equal(w, a.Print, witness.Fingerprint)
		require.Equal(w, "simulator", witness.Provider)
		require.Equal(w, uint32(1), witness.Generation)
		begun, err := rows(w.T, d).Reattach(w.Context(), a, *witness)
		require.NoError(w, err)
		require.Equal(w, claim.WonUnknown, begun.Decision)
	}
}

// While a restore is in effect, an operator who does not confirm it releases no brake.
func TestARestoreKeepsTheBrake(t *testing.T) {
	d := open(t)
	now := time.Now()
	release := func(provider string) error {
		_, err := notice.Release(t.Context(), d, provider, func(ctx context.Context) error { return restore.AllowRefunds(ctx, d) })
		return err
	}
	require.NoError(t, release(notice.AllProviders), "nothing is held")
	_, err := restore.Begin(t.Context(), d, rows(t, d), restore.Lost{From: now.Add(-100 * time.Hour), Until: now.Add(-49 * time.Hour), By: "a", Why: "b"})
	require.NoError(t, err)
	_, err = notice.Stop(t.Context(), d, "sim", "a drill")
	require.NoError(t, err)
	both := func(want error) {
		t.Helper()
		for _, of := range []string{notice.AllProviders, "sim"} {
			require.ErrorIs(t, release(of), want)
		}
	}
	both(restore.ErrUnreleased)
	_, err = restore.Release(t.Context(), d, "ops", "")
	require.NoError(t, err)
	both(restore.ErrUnreleased)
	windows, err := d.Windows(t.Context())
	require.NoError(t, err)
	_, _, err = restore.End(t.Context(), d, &windows)
	require.NoError(t, err)
	both(nil)
	held, _, err := d.Brakes(t.Context())
	require.NoError(t, err)
	for _, b := range held {
		require.Nil(t, b.Held)
	}
}

func TestRestoreRefuses(t *testing.T) {
	d := open(t)
	v := rows(t, d)
	_, err := restore.Audit(t.Context(), d, v, audittest.NewBucket(), nil, nil)
	require.ErrorIs(t, err, restore.ErrNone)
	_, err = restore.Release(t.Context(), d, "ops", "")
	require.ErrorIs(t, err, restore.ErrNone)
	windows, err := d.Windows(t.Context())
	require.NoError(t, err)
	end := func() error { _, _, err := restore.End(t.Context(), d, &windows); return err }
	require.ErrorIs(t, end(), restore.ErrNone)
	now := time.Now()
	for name, lost := range map[string]restore.Lost{
		"no backup":              {},
		"younger than the store": {From: now.Add(time.Hour)},
		"stopped in the future":  {From: now.Add(-time.Hour), Until: now.Add(time.Hour)},
	} {
		_, err := restore.Begin(t.Context(), d, v, lost)
		require.Error(t, err, name)
	}
	// A second restore lacks what the first one lacked.
	first, err := restore.Begin(t.Context(), d, v, restore.Lost{From: now.Add(-3 * time.Hour), By: "a", Why: "b"})
	require.NoError(t, err)
	second, err := restore.Begin(t.Context(), d, v, restore.Lost{From: now.Add(-time.Hour), By: "a", Why: "b"})
	require.NoError(t, err)
	require.Equal(t, first.From, second.From)
	require.NotEqual(t, first.Tag, second.Tag)
	held, _, err := d.Brakes(t.Context())
	require.NoError(t, err)
	require.NotNil(t, held[0].Held)
	require.ErrorIs(t, end(), restore.ErrRemembered)
	// Two days later it is over.
	old, err := restore.Begin(t.Context(), d, v, restore.Lost{From: now.Add(-100 * time.Hour), Until: now.Add(-49 * time.Hour), By: "a", Why: "b"})
	require.NoError(t, err)
	require.True(t, old.Withholds())
	require.NoError(t, d.PutWitnesses(t.Context(), []claim.Witness{{Key: claim.Key{Tenant: "acme", Value: "k"}, Done: true}}))
	require.NoError(t, end())
	require.NoError(t, end(), "again")
	written, err := d.Witnesses(t.Context(), claim.Key{}, 10)
	require.NoError(t, err)
	require.Empty(t, written)
	guard, err := claim.NewGuard(t.Context(), d)
	require.NoError(t, err)
	require.Nil(t, guard.Standing())
}

// dropping is a deployment in which something happens before the first deletion of witnesses.
type dropping struct {
	deployment.Deployment
	before func() error
}

func (d *dropping) DropWitnesses(ctx context.Context, version uint64, limit int) (int, error) {
	if before := d.before; before != nil {
		d.before = nil
		if err := before(); err != nil {
			return 0, err
		}
	}
	return d.Deployment.DropWitnesses(ctx, version, limit)
}

// TestAWitnessIsOfItsRestoreAlone: an operator's end of a restore dies, or is held up, before it
// deletes the witnesses. A later restore has none of those, and keeps its own.
func TestAWitnessIsOfItsRestoreAlone(t *testing.T) {
	now := time.Now()
	windows := claim.DefaultPolicy()
	old, lost := claim.Key{Tenant: "acme", Value: "old"}, claim.Key{Tenant: "acme", Value: "lost"}
	for _, dies := range []bool{true, false} {
		d := open(t)
		v := rows(t, d)
		_, err := restore.Begin(t.Context(), d, v, restore.Lost{From: now.Add(-100 * time.Hour), Until: now.Add(-49 * time.Hour), By: "a", Why: "b"})
		require.NoError(t, err)
		require.NoError(t, d.PutWitnesses(t.Context(), []claim.Witness{{Key: old, Home: home, Object: "ch_old", Generation: 1, Done: true}}))
		next := func() error {
			if _, err := restore.Begin(t.Context(), d, v, restore.Lost{From: now.Add(-time.Hour), By: "a", Why: "b"}); err != nil {
				return err
			}
			return d.PutWitnesses(t.Context(), []claim.Witness{{Key: lost, Home: home, Object: "ch_lost", Generation: 1, Done: true}})
		}
		if dies {
			_, _, err := restore.End(t.Context(), &dropping{d, func() error { return errDied }}, &windows)
			require.ErrorIs(t, err, errDied)
			require.NoError(t, next())
		} else {
			_, _, err := restore.End(t.Context(), &dropping{d, next}, &windows)
			require.NoError(t, err)
		}
		_, err = restore.Release(t.Context(), d, "ops", "all is read")
		require.NoError(t, err)
		guard, err := claim.NewGuard(t.Context(), d)
		require.NoError(t, err)
		w, err := guard.Recall(t.Context(), old)
		require.NoError(t, err)
		require.Nil(t, w, "a key that was free again gets the answer of its former charge")
		w, err = guard.Recall(t.Context(), lost)
		require.NoError(t, err)
		require.NotNil(t, w, "a lost key is charged again")
	}
}

// another is a deployment in which another operator acts while this one looks for sessions.
type another struct {
	deployment.Deployment
	acts func()
}

func (a *another) Sessions(ctx context.Context) ([]string, error) {
	if acts := a.acts; acts != nil {
		a.acts = nil
		acts()
	}
	return a.Deployment.Sessions(ctx)
}

// braking has an operator between the steps of another: before each write of the restore's row.
type braking struct {
	deployment.Deployment
	before func()
}

func (b *braking) PutRestore(ctx context.Context, r claim.Restore) (bool, error) {
	b.before()
	return b.Deployment.PutRestore(ctx, r)
}

// TestAReleaseMeanwhileDoesNotCount: an operator releases automatic refunds, and has seen no restore,
// when another, or a node, writes its row.
func TestAReleaseMeanwhileDoesNotCount(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, d restore.Rows, v deployment.Store) error{
		"begin": func(t *testing.T, d restore.Rows, v deployment.Store) error {
			_, err := restore.Begin(t.Context(), d, v, restore.Lost{From: time.Now().Add(-time.Hour), By: "ops", Why: "a test"})
			return err
		},
		"detected": func(t *testing.T, d restore.Rows, v deployment.Store) error {
			_, err := restore.Detected(t.Context(), d, v, []*audit.AheadError{{Home: home, From: time.Now().Add(-time.Hour)}}, "node-1")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			v := rows(t, d)
			looked, written, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
			_, err := notice.Stop(t.Context(), d, notice.AllProviders, "an outage")
			require.NoError(t, err)
			begun := &braking{d, sync.OnceFunc(func() {
				go func() {
					defer close(released)
					_, err := notice.Release(t.Context(), d, notice.AllProviders, func(ctx context.Context) error {
						err := restore.AllowRefunds(ctx, d)
						if err == nil { // it has looked, and the row is written before it goes on
							close(looked)
							<-written
						}
						return err
					})
					assert.ErrorIs(t, err, restore.ErrUnreleased)
				}()
				<-looked
			})}
			require.NoError(t, write(t, begun, v))
			close(written)
			<-released
			held, _, err := d.Brakes(t.Context())
			require.NoError(t, err)
			require.NotNil(t, held[0].Held, "automatic refunds go on while a restore is in effect")
		})
	}
}

func TestTwoOperatorsBeginOneRestore(t *testing.T) {
	d := open(t)
	v, from := rows(t, d), time.Now().Add(-time.Hour)
	_, err := restore.Begin(t.Context(), &another{d, func() {
		_, err := restore.Begin(t.Context(), d, v, restore.Lost{From: from, By: "first"})
		require.NoError(t, err)
	}}, v, restore.Lost{From: from, By: "second"})
	require.ErrorContains(t, err, "another operator")
	r, _, err := d.Restore(t.Context())
	require.NoError(t, err)
	require.Equal(t, "first", r.By)
}

// TestARegionThatTheBackupLacks: a region was added after the backup. Without it nothing is witnessed, since
// its claims would be begun again elsewhere; nor under the code of another one.
func TestARegionThatTheBackupLacks(t *testing.T) {
	text, err := audit.NewKey()
	require.NoError(t, err)
	keys, err := audit.ParseKeys(text)
	require.NoError(t, err)
	opened := func(codes ...claim.RegionCode) (deployment.Deployment, deployment.Store) {
		c := embedded.Config{Dir: t.TempDir(), Policy: claim.DefaultPolicy()}
		for i, code := range codes {
			c.Regions = append(c.Regions, claim.Region{Name: []string{home, away}[i], Code: code})
		}
		db, err := embedded.Open(c)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		d := restored{deployment.Embedded(db)}
		require.NoError(t, d.PutTenant(t.Context(), claim.Tenant{ID: "acme", Name: "Acme", Registrar: home}))
		return d, rows(t, d)
	}
	for _, named := range []bool{true, false} { // the bucket has an object of the region
		bucket := audittest.NewBucket()
		_, lost := opened(1, 7)
		if named {
			object, err := claim.NewObjectID("ch", 7, nil)
			require.NoError(t, err)
			a := claimtest.NewArrival(claim.Key{Tenant: "acme", Value: "lost"}, away, "100", "node-1", object)
			_, err = lost.Begin(t.Context(), a)
			require.NoError(t, err)
		}
		for _, region := range []string{home, away} {
			x, err := audit.NewExporter(audit.Config{Store: lost, Objects: bucket, Keys: keys, Deployment: deploymentID, Policy: audit.DefaultPolicy(), Home: region, Node: "n", Providers: []string{"simulator"}})
			require.NoError(t, err)
			_, err = x.Finish(t.Context())
			require.NoError(t, err)
		}
		read := func(deployment uuid.UUID, codes ...claim.RegionCode) (claim.Restore, error) {
			d, v := opened(codes...)
			_, err := restore.Begin(t.Context(), d, v, restore.Lost{From: time.Now().Add(-time.Hour), Until: time.Now().Add(-time.Minute), By: "ops", Why: "a lost disk"})
			require.NoError(t, err)
			_, err = restore.Audit(t.Context(), ofOther{d, deployment}, v, bucket, keys.Trust(), func(restore.Witnessed) {})
			r, _, rerr := d.Restore(t.Context())
			require.NoError(t, rerr)
			return r, err
		}
		r, err := read(deploymentID, 1)
		require.ErrorContains(t, err, "the bucket has the audit of region "+away+", which the database lacks")
		require.Equal(t, claim.RestoreHolding, r.Phase)
		require.True(t, r.Unread(home), "nodes export what they write beside what is lost")
		if named {
			require.ErrorContains(t, err, "--regions "+away+"=7,")
			_, err = read(deploymentID, 1, 2)
			require.ErrorContains(t, err, "region "+away+" has code 2 in the database, and its objects in the bucket have code 7")
		}
		r, err = read(deploymentID, 1, 7)
		require.NoError(t, err)
		require.Equal(t, claim.RestoreWitnessed, r.Phase)
		_, err = read(uuid.New(), 1)
		require.ErrorIs(t, err, audit.ErrOtherDeployment, "another deployment's regions are none of ours")
	}
}

// ofOther is a deployment with another id.
type ofOther struct {
	deployment.Deployment
	id uuid.UUID
}

func (o ofOther) DeploymentID(context.Context) (uuid.UUID, error) { return o.id, nil }

// A bucket that has less of the audit than was read is not believed.
func TestABucketWithLessIsRefused(t *testing.T) {
	stopped := time.Now()
	w, d := newWorld(t), open(t)
	v := rows(t, d)
	require.NoError(t, w.restore(d, v, stopped))
	was, _, err := d.Restore(t.Context())
	require.NoError(t, err)
	_, err = restore.Audit(t.Context(), d, v, audittest.NewBucket(), w.keys.Trust(), func(restore.Witnessed) {})
	require.ErrorContains(t, err, "nothing of this one was used")
	is, _, err := d.Restore(t.Context())
	require.NoError(t, err)
	require.Equal(t, was, is)

	released, err := restore.Release(t.Context(), d, "ops", "all is read")
	require.NoError(t, err)
	require.False(t, released.Partial)
}

// A person who releases before the audit is read knows a part of what is lost.
func TestAReleaseBeforeTheAuditIsPartial(t *testing.T) {
	d := open(t)
	_, err := restore.Begin(t.Context(), d, rows(t, d), restore.Lost{From: time.Now().Add(-time.Hour), By: "ops"})
	require.NoError(t, err)
	for range 2 {
		r, err := restore.Release(t.Context(), d, "ops", "the audit is lost")
		require.NoError(t, err)
		require.True(t, r.Partial)
	}
}
