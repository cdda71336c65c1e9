package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// TestAnotherActsMeanwhile holds a call between its statement and the reply, lets
// another node act, and breaks the connection: what our node then tells its caller
// is what the row says by now. Never do two believe that they hold one claim.
func TestAnotherActsMeanwhile(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	all := map[string]operation{}
	for _, o := range operations(w.database) {
		all[o.name] = o
	}
	takesOver := func(c *cell) {
		c.lapse()
		rec, _, found, err := c.others.Get(c.ctx, c.key, here)
		require.NoError(c, err)
		require.True(c, found)
		_, err = c.others.TakeOver(c.ctx, c.key, here, rec.Minted.ID, "b", here, claim.News{})
		require.NoError(c, err)
	}
	decision := func(want claim.Decision) func(c *cell, err error) {
		return func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, want.String(), c.got.(claim.Begun).Decision.String())
		}
	}
	fails := func(want error) func(c *cell, err error) {
		return func(c *cell, err error) { require.ErrorIs(c, err, want) }
	}
	home := func(want string) func(c *cell, err error) {
		return func(c *cell, err error) {
			require.NoError(c, err)
			pinned(want)(c)
		}
	}
	// deaf makes the database unreachable for the statement that reads back.
	deaf := func(statement string) func(c *cell) {
		return func(c *cell) { c.proxy.Arm(statement, wireproxy.DropBefore, sqlstore.MaxTries) }
	}
	drains := func(c *cell) { c.sql("UPDATE regions SET status = 1 WHERE name = $1", here) }
	noNewHomes := func(c *cell, err error) {
		c.sql("UPDATE regions SET status = 0 WHERE name = $1", here)
		require.ErrorIs(c, err, claim.ErrNoNewHomes)
	}
	const before, after = wireproxy.StallBefore, wireproxy.StallAfter
	for _, tt := range []struct {
		operation string
		hold      wireproxy.Fault
		what      string
		meanwhile func(c *cell)
		then      func(c *cell, err error)
	}{
		{"begin a new key", after, "taken over", takesOver, decision(claim.Busy)},
		{"begin a new key", after, "taken over and settled", func(c *cell) {
			c.lapse()
			c.settles(c.arrives("b", claim.WonUnknown), approved)
		}, decision(claim.Replay)},
		{"begin a new key", after, "put off", func(c *cell) {
			c.lapse()
			c.settles(c.arrives("b", claim.WonUnknown), timedOut)
		}, decision(claim.Busy)},
		{"begin a new key", before, "begun", func(c *cell) { c.arrives("b", claim.Won) }, decision(claim.Busy)},
		// Another request at the same node is another holder.
		{"begin a new key", before, "begun at our node", func(c *cell) { c.arrives("a", claim.Won) }, decision(claim.Busy)},
		{"begin a new key", before, "begun and settled", func(c *cell) {
			c.settles(c.arrives("b", claim.Won), approved)
		}, decision(claim.Replay)},
		{"begin again after a soft decline", after, "taken over", takesOver, decision(claim.Busy)},
		{"begin again after a soft decline", before, "begun", func(c *cell) { c.arrives("b", claim.Won) }, decision(claim.Busy)},
		{"begin again after a soft decline", before, "begun at our node", func(c *cell) { c.arrives("a", claim.Won) }, decision(claim.Busy)},
		{"begin again after a soft decline", after, "not readable", deaf("find"), fails(claim.ErrUnavailable)},
		{"begin takes a lapsed claim over", after, "taken over", takesOver, decision(claim.Busy)},
		{"begin takes a lapsed claim over", before, "taken over", takesOver, decision(claim.Busy)},
		{"begin takes a lapsed claim over", after, "not readable", deaf("find"), fails(claim.ErrUnavailable)},
		{"take over", after, "taken over", takesOver, fails(claim.ErrLeaseHeld)},
		{"take over", before, "taken over", takesOver, fails(claim.ErrLeaseHeld)},
		{"take over", before, "taken over at our node", func(c *cell) { c.arrives("a", claim.WonUnknown) }, fails(claim.ErrLeaseHeld)},
		{"take over", before, "settled", func(c *cell) { c.settles(c.held, approved) }, fails(claim.ErrFenced)},
		{"take over", after, "not readable", deaf("find"), fails(claim.ErrUnavailable)},
		{"cancel", before, "settled", func(c *cell) { c.settles(c.held, approved) }, fails(claim.ErrFenced)},
		{"cancel", after, "not readable", deaf("find"), fails(claim.ErrUnavailable)},
		{"renew", before, "taken over", takesOver, fails(claim.ErrUnavailable)},
		{"renew", after, "settled", func(c *cell) { c.settles(c.held, approved) }, fails(claim.ErrUnavailable)},
		{"settle for good", before, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle for good", before, "settled", func(c *cell) { c.settles(c.held, refused) }, fails(claim.ErrFenced)},
		{"settle for good", after, "asked for", func(c *cell) { c.arrives("b", claim.Replay) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, claim.Completed, c.got.(claim.Record).State)
		}},
		{"settle for good", after, "not readable", deaf("find"), fails(claim.ErrUnavailable)},
		{"settle with not now", after, "begun again", func(c *cell) {
			c.age()
			c.arrives("b", claim.Won)
		}, fails(claim.ErrFenced)},
		{"settle without an outcome", after, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle without an outcome", before, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle an attempt that sent nothing", after, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle an attempt that sent nothing", before, "taken over", takesOver, fails(claim.ErrFenced)},
		{"settle an attempt that sent nothing", after, "asked for", func(c *cell) { c.arrives("b", claim.Busy) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.EqualValues(c, 2, c.got.(claim.Record).Fence)
		}},
		{"settle an attempt that sent nothing", after, "not readable", deaf("find"), fails(claim.ErrUnavailable)},
		{"pin", before, "pinned", func(c *cell) { c.pins(there, there) }, home(there)},
		{"pin", before, "drained", drains, noNewHomes},
		{"pin", after, "asked for", func(c *cell) { c.pins(there, here) }, home(here)},
		{"pin", after, "not readable", deaf("pin_read"), fails(claim.ErrUnavailable)},
		{"take a pin over", before, "drained", drains, noNewHomes},
		{"take a pin over", before, "taken over", func(c *cell) { c.pins(elsewhere, elsewhere) }, home(elsewhere)},
		{"take a pin over", after, "asked for", func(c *cell) { c.pins(elsewhere, here) }, home(here)},
		{"delete a pin", before, "taken over", func(c *cell) { c.pins(elsewhere, elsewhere) }, func(c *cell, err error) { require.NoError(c, err) }},
		{"close a released claim", before, "begun again", func(c *cell) { c.arrives("b", claim.Won) }, fails(claim.ErrFenced)},
		{"close a released claim", after, "asked for", func(c *cell) { c.arrives("b", claim.Replay) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, claim.FailedTerminal, c.got.(claim.Record).State)
		}},
		{"post to the ledger", before, "posted otherwise", func(c *cell) {
			_, err := c.others.Post(c.ctx, c.ghost(200))
			require.NoError(c, err)
		}, fails(ledger.ErrConflict)},
		{"post to the ledger", before, "posted", func(c *cell) {
			_, err := c.others.Post(c.ctx, c.ghost(100))
			require.NoError(c, err)
		}, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, false, c.got)
		}},
		{"post to the ledger", after, "not readable", deaf("ledger_named"), fails(claim.ErrUnavailable)},
		{"keep notices", after, "acted on", func(c *cell) { c.closes(c.notices()[0].ID) }, func(c *cell, err error) { require.NoError(c, err) }},
		{"close a notice", before, "taken", func(c *cell) { c.takesNotice(c.notices()[0].ID) }, fails(outbox.ErrFenced)},
		{"close a notice", before, "closed otherwise", func(c *cell) {
			require.NoError(c, c.others.Close(c.ctx, here, c.notices()[0].ID, 1, notice.Ignored, "of no concern"))
		}, fails(outbox.ErrFenced)},
		{"close a notice", after, "not readable", deaf("notice"), fails(claim.ErrUnavailable)},
		{"note a failed delivery", before, "noted", func(c *cell) { c.notes(false) }, func(c *cell, err error) {
			require.NoError(c, err)
			require.False(c, c.got.(relay.Endpoint).FailingSince.IsZero())
		}},
		{"note a failed delivery", before, "moved elsewhere", func(c *cell) { c.moves() }, fails(relay.ErrNoEndpoint)},
		{"note a failed delivery", before, "removed and set again", func(c *cell) {
			_, err := c.others.RemoveEndpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			c.moves()
		}, fails(relay.ErrNoEndpoint)},
		{"seal an endpoint anew", before, "given another secret", func(c *cell) {
			e := c.endpoint()
			e.Secrets = []string{"whsec_b"}
			require.NoError(c, c.others.PutEndpoint(c.ctx, c.endpoint(), e))
		}, func(c *cell, err error) { require.NoError(c, err) }},
		{"set a brake", before, "set", func(c *cell) {
			_, err := c.others.PutBrake(c.ctx, c.brake("others"))
			require.NoError(c, err)
		}, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, false, c.got)
		}},
		{"set a brake", after, "read", func(c *cell) {
			_, _, err := c.others.Brakes(c.ctx)
			require.NoError(c, err)
		}, func(c *cell, err error) {
			require.NoError(c, err)
			require.Equal(c, true, c.got)
		}},
		{"call finish", before, "taken", func(c *cell) { takenAgain(c) }, fails(outbox.ErrFenced)},
		{"call finish", after, "not readable", deaf("calls_message"), fails(claim.ErrUnavailable)},
		{"call retry", before, "taken", func(c *cell) { takenAgain(c) }, fails(claim.ErrUnavailable)},
		{"call park", before, "taken", func(c *cell) { takenAgain(c) }, fails(claim.ErrUnavailable)},
	} {
		o := all[tt.operation]
		run := func(t *testing.T, first ...wireproxy.Fault) {
			c := w.cell(t)
			o.before(c)
			for _, fault := range first {
				c.proxy.Arm(o.statements[0], fault, 1)
			}
			shot := c.proxy.Arm(o.statements[0], tt.hold, 1)
			answered := make(chan error, 1)
			go func() {
				got, err := o.call(c.ctx, c)
				c.got = got
				answered <- err
			}()
			c.await(shot)
			tt.meanwhile(c)
			turn := c.stored()
			shot.Release()
			select {
			case err := <-answered:
				tt.then(c, err)
			case <-time.After(patience):
				c.Fatal("the call does not return")
			}
			require.Equal(c, turn, c.stored(), "the call changed what another had made")
		}
		ok := t.Run(fmt.Sprint(tt.operation, ", ", tt.hold, "/", tt.what), func(t *testing.T) { run(t) })
		if ok && tt.hold == before && !o.once {
			// A try before that one had its rows, and then failed.
			ok = t.Run(fmt.Sprint(tt.operation, ", ", wireproxy.RowsThenError, ", ", tt.hold, "/", tt.what), func(t *testing.T) { run(t, wireproxy.RowsThenError) })
		}
		if !ok {
			return // what its shots have left would hit the next
		}
	}
}
