package sqlstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/wireproxy"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// Every write that the store can send, under everything that the wire can do to
// it. The package comment says what each call then answers; here the row says
// what was done, and another node what it finds.

// injury is what happens to the statement.
type injury struct {
	fault wireproxy.Fault
	// lasting: to all the store's tries, not only the first.
	lasting bool
	// overtaken: what was held is passed on only after another node's turn.
	overtaken bool
}

func (i injury) String() string {
	s := i.fault.String()
	if i.lasting {
		s += ", lasting"
	}
	if i.overtaken {
		s += ", overtaken"
	}
	return s
}

var injuries = []injury{
	{fault: wireproxy.DropBefore}, {fault: wireproxy.DropBefore, lasting: true},
	{fault: wireproxy.DropAfter}, {fault: wireproxy.DropAfter, lasting: true},
	{fault: wireproxy.Refuse40001}, {fault: wireproxy.Refuse40001, lasting: true},
	{fault: wireproxy.Ambiguous40003Done}, {fault: wireproxy.Ambiguous40003Done, lasting: true},
	{fault: wireproxy.Ambiguous40003NotDone}, {fault: wireproxy.Ambiguous40003NotDone, lasting: true},
	{fault: wireproxy.RowsThenError}, {fault: wireproxy.RowsThenError, lasting: true},
	{fault: wireproxy.LateDone}, {fault: wireproxy.LateDone, lasting: true},
	{fault: wireproxy.LateDone, overtaken: true}, {fault: wireproxy.LateDone, lasting: true, overtaken: true},
	{fault: wireproxy.StallBefore}, {fault: wireproxy.StallAfter},
}

// verdict is what the package comment promises of an operation under an injury.
type verdict struct {
	tries int
	// answered: the call succeeds; otherwise it says that nothing is known.
	answered bool
	// done when the call returns, and late when what was held has been passed on.
	done, late bool
}

// promise returns false where the injury is the same as a single one.
func promise(o *operation, statement string, i injury) (v verdict, applies bool) {
	repeats := !o.once || i.fault == wireproxy.Refuse40001 || i.fault == wireproxy.RowsThenError
	v.tries = 1
	if i.lasting {
		if v.tries = sqlstore.MaxTries; !repeats {
			return v, false
		}
	}
	v.answered = repeats && !i.lasting
	v.done = v.answered
	switch i.fault {
	case wireproxy.StallBefore:
		v.answered, v.done = false, false
	case wireproxy.StallAfter:
		v.answered, v.done = false, true
	case wireproxy.DropAfter, wireproxy.Ambiguous40003Done, wireproxy.LateDone:
		v.done = v.done || i.fault != wireproxy.LateDone
	}
	v.late = v.done || i.fault == wireproxy.LateDone
	if !o.commit {
		return v, true
	}
	if !strings.HasPrefix(statement, "sql:") {
		v.done, v.late = v.answered, v.answered // the end of the connection is that of the transaction
		return v, true
	}
	v.done = v.late // see answer
	return v, true
}

func TestFaults(t *testing.T) {
	d := newDatabase(t)
	for n, o := range operations(d) {
		t.Run(o.name, func(t *testing.T) {
			w := newWire(t, d.own(t), "acme", testPool())
			for _, statement := range o.statements {
				for k, i := range injuries {
					if testing.Short() && (n+k)%4 != 0 && i != (injury{fault: wireproxy.DropAfter}) && i != (injury{fault: wireproxy.LateDone, overtaken: true}) {
						continue // each operation loses its reply and is overtaken; of the other injuries it has a fourth, and each injury a fourth of the operations
					}
					v, applies := promise(&o, statement, i)
					if (o.commit || o.latest) && i.overtaken {
						continue // whoever writes last is right
					}
					if o.commit && i.lasting && (i.fault == wireproxy.Refuse40001 || i.fault == wireproxy.RowsThenError) && w.server.Kind() == localdb.CockroachDB {
						continue // its helper repeats on its own, more often than the store
					}
					if applies && !t.Run(statement+"/"+i.String(), func(t *testing.T) { w.cell(t).injure(&o, statement, i, v) }) {
						return // what its shot has left would hit the next
					}
				}
			}
		})
	}
}

// TestALostReplyIsOfAStatementThatWasSent in each mode of pgx, whichever of them a database's statements
// have: CockroachDB gets simple queries.
func TestALostReplyIsOfAStatementThatWasSent(t *testing.T) {
	w := newWire(t, newDatabase(t), "acme", testPool())
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			shot := w.proxy.Arm("probe", wireproxy.DropAfter, 1)
			require.True(t, w.hurt.MayBeDone(t.Context(), "-- name: probe\nSELECT 1", mode))
			require.Equal(t, 1, shot.Fired())
		})
	}
}

func (c *cell) injure(o *operation, statement string, i injury, promised verdict) {
	o.before(c)
	was := c.stored()
	shot := c.proxy.Arm(statement, i.fault, promised.tries)
	err := c.answer(o, shot, i)

	require.Equal(c, promised.tries, shot.Fired(), "tries that were injured")
	if promised.answered {
		require.NoError(c, err)
		o.right(c)
	} else {
		require.ErrorIs(c, err, claim.ErrUnavailable)
		require.NotContains(c, err.Error(), "\n")
	}
	is := c.stored()
	c.became(o, was, is, promised.done)
	if i.fault == wireproxy.LateDone && !i.overtaken {
		shot.Release()
		late := c.stored()
		if promised.done {
			require.Equal(c, is, late, "what came late was done again")
		} else {
			c.became(o, was, late, promised.late)
		}
		promised.done = promised.late
	}
	o.next(c, promised.done)
	if i.overtaken {
		turn := c.stored()
		shot.Release()
		require.Equal(c, turn, c.stored(), "what came late undid another's turn")
	}
}

// became checks that the operation was done one time, or not at all.
func (c *cell) became(o *operation, was, is *stored, done bool) {
	c.Helper()
	want := *was
	if done {
		require.GreaterOrEqual(c, len(is.Claims), len(was.Claims))
		want.Claims = append([]claimRow(nil), was.Claims...)
		want.Calls = append([]callRow(nil), was.Calls...)
		want.Pins = append([]pinRow(nil), was.Pins...)
		want.Audit = append([]string(nil), was.Audit...)
		want.Tenants = append([]tenantRow(nil), was.Tenants...)
		want.Notices = append([]noticeRow(nil), was.Notices...)
		o.effect(c, &want, is)
	}
	require.Equal(c, &want, is)
}

// answer makes the call and waits for its end. A caller that is kept waiting
// gives up as soon as it waits.
func (c *cell) answer(o *operation, shot *wireproxy.Shot, i injury) error {
	ctx, giveUp := context.WithCancel(c.ctx)
	defer giveUp()
	if o.commit && i.fault == wireproxy.LateDone {
		// A transaction that is held has locks, for which a repetition would wait: it
		// goes on as soon as its client is cut off.
		shot.Release()
	}
	answered := make(chan error, 1)
	go func() {
		got, err := o.call(ctx, c)
		if err == nil {
			c.got = got
		}
		answered <- err
	}()
	if i.fault == wireproxy.StallBefore || i.fault == wireproxy.StallAfter {
		c.await(shot)
		require.Empty(c, answered, "the call did not wait")
		giveUp()
	}
	select {
	case err := <-answered:
		return err
	case <-time.After(patience):
		c.Fatal("the call does not return")
		return nil
	}
}

func (c *cell) await(shot *wireproxy.Shot) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	require.NoError(c, shot.Wait(ctx))
}
