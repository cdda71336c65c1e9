package sqlstore_test

import (
	"context"
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
)

// noticeWrites are those of the books, too, which notices lead to.
func noticeWrites() []operation {
	return []operation{{
		name: "post to the ledger", statements: []string{"ledger_book"},
		before: noAnswer,
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.Post(ctx, c.ghost(100)) },
		right:  noAnswer, // posted, or posted by a try of which nothing was heard
		effect: func(c *cell, want, _ *stored) { want.Booked = []string{"ghost_" + c.key.Value + " 100"} },
		next: func(c *cell, done bool) {
			posted, err := c.others.Post(c.ctx, c.ghost(200))
			if !done {
				require.NoError(c, err)
				require.True(c, posted)
				return
			}
			require.ErrorIs(c, err, ledger.ErrConflict)
			posted, err = c.others.Post(c.ctx, c.ghost(100))
			require.NoError(c, err)
			require.False(c, posted)
		},
	}, {
		name: "book a failure with its event", statements: []string{"ledger_book"},
		before: func(c *cell) {
			posted, err := c.others.Post(c.ctx, c.ghost(100))
			require.NoError(c, err)
			require.True(c, posted)
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Book(ctx, ledger.FailureOf(c.ghost(100)), c.toldOfFailure())
		},
		right: noAnswer, // booked, or booked by a try of which nothing was heard
		effect: func(c *cell, want, _ *stored) {
			want.Booked, want.Events = append([]string{"failed_ghost_" + c.key.Value + " 100"}, want.Booked...), []string{c.toldOfFailure()[0].ID}
		},
		next: func(c *cell, done bool) {
			posted, err := c.others.Book(c.ctx, ledger.FailureOf(c.ghost(100)), c.toldOfFailure())
			require.NoError(c, err)
			require.Equal(c, !done, posted)
		},
	}, {
		name: "keep notices", statements: []string{"notices_keep"},
		before: noAnswer,
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.Keep(ctx, here, c.notices()) },
		right:  noAnswer,
		effect: func(c *cell, want, _ *stored) {
			for _, n := range c.notices() {
				want.Notices = append(want.Notices, noticeRow{ID: n.ID, Status: string(notice.Unprocessed), Fence: new(int64)})
			}
		},
		next: func(c *cell, done bool) {
			fresh, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
			if done {
				require.Zero(c, fresh)
				return
			}
			require.Equal(c, 1, fresh)
			_, err = c.others.Keep(c.ctx, here, c.notices()[1:])
			require.NoError(c, err)
			// It is acted on before the late twin comes.
			c.closes(c.notices()[0].ID)
		},
	}, {
		name: "close a notice", statements: []string{"notices_close"},
		before: func(c *cell) {
			_, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
			require.EqualValues(c, 1, c.takesNotice(c.notices()[0].ID))
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.Close(ctx, here, c.notices()[0].ID, 1, notice.ProcessedOK, "known")
		},
		right: noAnswer,
		effect: func(_ *cell, want, _ *stored) {
			n := &want.Notices[0]
			n.Status, n.Detail, n.Fence = string(notice.ProcessedOK), "known", nil
		},
		next: func(c *cell, done bool) {
			if done {
				require.ErrorIs(c, c.others.Close(c.ctx, here, c.notices()[0].ID, 1, notice.Ignored, "late"), outbox.ErrFenced)
				return
			}
			require.EqualValues(c, 2, c.takesNotice(c.notices()[0].ID))
		},
	}, {
		name: "close notices together", statements: []string{"notices_close"},
		before: func(c *cell) {
			_, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
			require.EqualValues(c, 1, c.takesNotice(c.notices()[0].ID))
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.CloseAll(ctx, here, []outbox.Hold{{ID: c.notices()[0].ID, Fence: 1}, {ID: "none", Fence: 1}}, notice.ProcessedOK, "known")
		},
		right: noAnswer, // closed, or closed by a try of which nothing was heard
		effect: func(_ *cell, want, _ *stored) {
			n := &want.Notices[0]
			n.Status, n.Detail, n.Fence = string(notice.ProcessedOK), "known", nil
		},
		next: func(c *cell, done bool) {
			if done {
				closed, err := c.others.CloseAll(c.ctx, here, []outbox.Hold{{ID: c.notices()[0].ID, Fence: 1}}, notice.Ignored, "late")
				require.NoError(c, err)
				require.Zero(c, closed)
				return
			}
			require.EqualValues(c, 2, c.takesNotice(c.notices()[0].ID))
		},
	}, {
		name: "seal a notice anew", statements: []string{"notices_rewrite"},
		before: func(c *cell) {
			_, err := c.others.Keep(c.ctx, here, c.notices()[:1])
			require.NoError(c, err)
		},
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.Rewrite(ctx, here, "", math.MaxInt32, func(id string, _ []byte) ([]byte, error) {
				if id != c.notices()[0].ID {
					return nil, nil
				}
				return []byte("again"), nil
			})
		},
		right:  func(c *cell) { require.Empty(c, c.got) },
		effect: func(*cell, *stored, *stored) {},
		next: func(c *cell, done bool) {
			n, _, err := c.others.Notice(c.ctx, here, c.notices()[0].ID)
			require.NoError(c, err)
			require.Equal(c, done, string(n.Body) == "again")
			// The row went before it.
			m, _, err := c.others.Queue(outbox.Notices).Message(c.ctx, here, n.ID)
			require.NoError(c, err)
			require.Contains(c, []string{"again", "{}"}, string(m.Payload))
			if done {
				require.Equal(c, "again", string(m.Payload))
			}
		},
	}}
}

// documentWrites are those of endpoints and brakes: each change of a document is one statement.
func documentWrites() []operation {
	statements := []string{"document_put"}
	return []operation{{
		name: "seal an endpoint anew", statements: statements,
		before: ownEndpoint,
		call: func(ctx context.Context, c *cell) (any, error) {
			return c.ours.RewriteSecrets(ctx, "", math.MaxInt16, func(tenant string, _ []string) ([]string, error) {
				if tenant != c.key.Tenant {
					return nil, nil
				}
				return []string{"whsec_again"}, nil
			})
		},
		right: func(c *cell) { require.Empty(c, c.got) },
		effect: func(c *cell, want, _ *stored) {
			want.Documents = c.endpointIs(2, func(d *documentRow) { d.Secrets = []string{"whsec_again"} })
		},
		next: func(c *cell, done bool) {
			c.notes(false)
			e, _, err := c.others.Endpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, done, e.Secrets[0] == "whsec_again")
		},
	}, {
		name: "put an endpoint", statements: statements,
		before: func(c *cell) { c.key.Tenant += "-" + c.key.Value },
		call: func(ctx context.Context, c *cell) (any, error) {
			return nil, c.ours.PutEndpoint(ctx, relay.Endpoint{}, c.endpoint())
		},
		right:  noAnswer,
		effect: func(c *cell, want, _ *stored) { want.Documents = c.endpointIs(1, nil) },
		next: func(c *cell, done bool) {
			e, found, err := c.others.Endpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, done, found)
			if found {
				require.Equal(c, c.endpoint(), e)
			}
			c.moves()
		},
	}, {
		name: "remove an endpoint", statements: statements,
		before: ownEndpoint,
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.RemoveEndpoint(ctx, c.key.Tenant) },
		right:  func(c *cell) { require.Equal(c, true, c.got) },
		effect: func(_ *cell, want, _ *stored) { want.Documents = []documentRow{{Kind: "endpoint", Version: 2}} },
		next: func(c *cell, done bool) {
			removed, err := c.others.RemoveEndpoint(c.ctx, c.key.Tenant)
			require.NoError(c, err)
			require.Equal(c, !done, removed)
		},
	}, {
		name: "note a failed delivery", statements: statements,
		before: ownEndpoint,
		call:   noteDelivery(false, time.Hour),
		right:  func(c *cell) { require.False(c, c.got.(relay.Endpoint).FailingSince.IsZero()) },
		effect: func(c *cell, want, is *stored) {
			require.False(c, is.Documents[0].Failing.IsZero())
			want.Documents = c.endpointIs(2, func(d *documentRow) { d.Failing = is.Documents[0].Failing })
		},
		next: func(c *cell, _ bool) { c.notes(false) },
	}, {
		name: "note a delivery that disables", statements: statements,
		before: func(c *cell) {
			ownEndpoint(c)
			c.notes(false)
		},
		call:  noteDelivery(false, 0),
		right: func(c *cell) { require.False(c, c.got.(relay.Endpoint).DisabledAt.IsZero()) },
		effect: func(c *cell, want, is *stored) {
			require.False(c, is.Documents[0].Disabled.IsZero())
			failing := want.Documents[0].Failing
			want.Documents = c.endpointIs(3, func(d *documentRow) { d.Failing, d.Disabled = failing, is.Documents[0].Disabled })
		},
		next: func(c *cell, done bool) { require.Equal(c, done, !c.notes(true).DisabledAt.IsZero()) },
	}, {
		name: "note a delivery again", statements: statements,
		before: func(c *cell) {
			ownEndpoint(c)
			c.notes(false)
		},
		call:   noteDelivery(true, time.Hour),
		right:  func(c *cell) { require.Zero(c, c.got.(relay.Endpoint).FailingSince) },
		effect: func(c *cell, want, _ *stored) { want.Documents = c.endpointIs(3, nil) },
		next:   func(c *cell, _ bool) { c.notes(true) },
	}, {
		name: "set a brake", statements: statements,
		before: func(c *cell) { c.key.Tenant += "-" + c.key.Value },
		call:   func(ctx context.Context, c *cell) (any, error) { return c.ours.PutBrake(ctx, c.brake("many")) },
		right:  func(c *cell) { require.Equal(c, true, c.got, "the caller pages only if the change is its own") },
		effect: func(c *cell, want, _ *stored) {
			want.Documents = []documentRow{{Kind: "brake", Version: 1, Held: c.brake("many").Held}}
		},
		next: func(c *cell, done bool) {
			changed, err := c.others.PutBrake(c.ctx, c.brake("others"))
			require.NoError(c, err)
			require.Equal(c, !done, changed)
		},
	}}
}

// ghost is a movement of money that the cell's claim knows nothing of.
func (c *cell) ghost(amount int64) ledger.Transaction {
	return ledger.Transaction{
		ID: "ghost_" + c.key.Value, Region: here, Tenant: c.key.Tenant, Kind: ledger.Ghost,
		Debit: ledger.Provider("sim"), Credit: ledger.Suspense(c.key.Tenant),
		Amount: amount, Currency: "usd", Object: c.object("a"), Provider: "sim", ProviderRef: "psp_" + c.key.Value,
	}
}

func (c *cell) toldOfFailure() []outbox.Message {
	return []outbox.Message{{
		ID: "evt_failed_" + c.key.Value, Region: here, Kind: outbox.KindLog, Tenant: c.key.Tenant, Key: c.key.Value, Operation: "charge", Payload: []byte("{}"),
	}}
}

func (c *cell) noticeID(event string) string {
	return notice.ID("sim", "evt_"+c.key.Value+"_"+event)
}

// notices are two that the provider sends.
func (c *cell) notices() (all []notice.Notice) {
	for _, event := range []string{"1", "2"} {
		all = append(all, notice.Notice{ID: c.noticeID(event), Provider: "sim", Body: []byte("{}")})
	}
	return all
}

// takesNotice leases a notice to the other node's worker and returns its fence.
func (c *cell) takesNotice(id string) uint64 {
	c.Helper()
	for giveUp := time.Now().Add(patience); time.Now().Before(giveUp); {
		c.sql("UPDATE notices_due SET due = due - INTERVAL '1 day' WHERE id = $1", id)
		c.sql("SELECT count(*) FROM notices_due WHERE home_region = $1::crdb_internal_region AND due <= now()", here)
		got, err := c.others.Queue(outbox.Notices).Take(c.ctx, here, 10, time.Hour)
		require.NoError(c, err)
		for _, m := range got {
			if m.ID == id {
				return m.Fence
			}
		}
	}
	c.Fatal("the notice cannot be taken")
	return 0
}

// closes acts on a notice at the other node.
func (c *cell) closes(id string) {
	c.Helper()
	require.NoError(c, c.others.Close(c.ctx, here, id, c.takesNotice(id), notice.ProcessedOK, "known"))
}

func (c *cell) endpoint() relay.Endpoint {
	return relay.Endpoint{Tenant: c.key.Tenant, URL: "https://shop.example/hooks", Secrets: []string{"whsec_a"}}
}

// endpointIs is how the cell's endpoint is stored after as many changes, the last of which made it
// otherwise.
func (c *cell) endpointIs(version int64, otherwise func(d *documentRow)) []documentRow {
	e := c.endpoint()
	d := documentRow{Kind: "endpoint", Version: version, URL: e.URL, Secrets: e.Secrets}
	if otherwise != nil {
		otherwise(&d)
	}
	return []documentRow{d}
}

// moves sets the endpoint to another URL, at the other node.
func (c *cell) moves() {
	c.Helper()
	was, _, err := c.others.Endpoint(c.ctx, c.key.Tenant)
	require.NoError(c, err)
	e := c.endpoint()
	e.URL = "https://other.example/hooks"
	require.NoError(c, c.others.PutEndpoint(c.ctx, was, e))
}

// brake holds the refunds of a provider that only the cell has.
func (c *cell) brake(reason string) notice.Brake {
	return notice.Brake{Provider: c.key.Tenant, Held: &notice.Hold{Reason: reason}}
}

// ownEndpoint gives the cell a tenant whose endpoint nobody else notes.
func ownEndpoint(c *cell) {
	c.key.Tenant += "-" + c.key.Value
	require.NoError(c, c.others.PutEndpoint(c.ctx, relay.Endpoint{}, c.endpoint()))
}

func noteDelivery(ok bool, disableAfter time.Duration) func(ctx context.Context, c *cell) (any, error) {
	return func(ctx context.Context, c *cell) (any, error) {
		return c.ours.NoteDelivery(ctx, c.key.Tenant, c.endpoint().URL, ok, disableAfter)
	}
}

// notes is a delivery of the other node's.
func (c *cell) notes(ok bool) relay.Endpoint {
	c.Helper()
	e, err := c.others.NoteDelivery(c.ctx, c.key.Tenant, c.endpoint().URL, ok, time.Hour)
	require.NoError(c, err)
	return e
}
