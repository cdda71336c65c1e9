package simulate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/audit"
	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/account"
	"github.com/homeward-io/homeward/payment/notice"
)

// Of these steps of a store the coverage counts no outcomes. do runs one that returns only an error,
// ask, ask2 and ask3 run one that returns so many values with it.

func (s *store) do(ctx context.Context, name string, do func(context.Context, deployment.Store) error) error {
	_, err := ask(ctx, s, name, func(ctx context.Context, rows deployment.Store) (struct{}, error) { return struct{}{}, do(ctx, rows) })
	return err
}

func ask[A any](ctx context.Context, s *store, name string, do func(context.Context, deployment.Store) (A, error)) (A, error) {
	return step(ctx, s, name, func(ctx context.Context, rows deployment.Store) (A, string, error) {
		a, err := do(ctx, rows)
		return a, "", err
	})
}

func ask2[A, B any](ctx context.Context, s *store, name string, do func(context.Context, deployment.Store) (A, B, error)) (A, B, error) {
	a, b, _, err := ask3(ctx, s, name, func(ctx context.Context, rows deployment.Store) (A, B, struct{}, error) {
		a, b, err := do(ctx, rows)
		return a, b, struct{}{}, err
	})
	return a, b, err
}

func ask3[A, B, C any](ctx context.Context, s *store, name string, do func(context.Context, deployment.Store) (A, B, C, error)) (A, B, C, error) {
	type three struct {
		a A
		b B
		c C
	}
	t, err := ask(ctx, s, name, func(ctx context.Context, rows deployment.Store) (t three, err error) {
		t.a, t.b, t.c, err = do(ctx, rows)
		return t, err
	})
	return t.a, t.b, t.c, err
}

// TenantInMemory knows none, so that each look-up is a step.
func (*store) TenantInMemory(claim.APIKeyHash) (t claim.Tenant, found, known bool) {
	return t, false, false
}

// AuditAge is the embedded store's.
func (*store) AuditAge() time.Duration { return 0 }

// Note has no answer, and its caller does not wait.
func (s *store) Note(ctx context.Context, key claim.Key, home string, e claim.AuditEntry) {
	if db := s.m.w.database(); db != nil {
		s.rows(db).Note(ctx, key, home, e)
	}
}

// Tenant and PutTenant are for a gateway.

func (s *store) Tenant(ctx context.Context, id string) (claim.Tenant, error) {
	return ask(ctx, s, "Tenant", func(ctx context.Context, rows deployment.Store) (claim.Tenant, error) {
		return rows.(node.Accounts).Tenant(ctx, id)
	})
}

func (s *store) PutTenant(ctx context.Context, t claim.Tenant, keys ...string) error {
	return s.do(ctx, "PutTenant", func(ctx context.Context, rows deployment.Store) error {
		return rows.(node.Accounts).PutTenant(ctx, t, keys...)
	})
}

func (s *store) About(ctx context.Context, home string, objects ...string) ([]ledger.Transaction, error) {
	return ask(ctx, s, "About", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.About(ctx, home, objects...)
	})
}

func (s *store) Accounts(ctx context.Context) ([]account.Row, error) {
	return ask(ctx, s, "Accounts", func(ctx context.Context, rows deployment.Store) ([]account.Row, error) { return rows.Accounts(ctx) })
}

func (s *store) AdvanceAudit(ctx context.Context, home string, version uint64, chain audit.Chain) (bool, error) {
	return ask(ctx, s, "AdvanceAudit", func(ctx context.Context, rows deployment.Store) (bool, error) {
		return rows.AdvanceAudit(ctx, home, version, chain)
	})
}

func (s *store) AppendAudit(ctx context.Context, home string, key claim.Key, e claim.AuditEntry) error {
	return s.do(ctx, "AppendAudit", func(ctx context.Context, rows deployment.Store) error { return rows.AppendAudit(ctx, home, key, e) })
}

func (s *store) AuditChain(ctx context.Context, home string) (audit.Chain, time.Time, bool, error) {
	return ask3(ctx, s, "AuditChain", func(ctx context.Context, rows deployment.Store) (audit.Chain, time.Time, bool, error) {
		return rows.AuditChain(ctx, home)
	})
}

func (s *store) AuditPage(ctx context.Context, home string, from, until time.Time, after audit.Position, limit int) (audit.Page, error) {
	return ask(ctx, s, "AuditPage", func(ctx context.Context, rows deployment.Store) (audit.Page, error) {
		return rows.AuditPage(ctx, home, from, until, after, limit)
	})
}

func (s *store) Balances(ctx context.Context, home string, after ledger.AccountKey, limit int) ([]ledger.Balance, error) {
	return ask(ctx, s, "Balances", func(ctx context.Context, rows deployment.Store) ([]ledger.Balance, error) {
		return rows.Balances(ctx, home, after, limit)
	})
}

func (s *store) Brakes(ctx context.Context) ([]notice.Brake, time.Time, error) {
	return ask2(ctx, s, "Brakes", func(ctx context.Context, rows deployment.Store) ([]notice.Brake, time.Time, error) {
		return rows.Brakes(ctx)
	})
}

func (s *store) ByObject(ctx context.Context, home, id string) (claim.Record, bool, error) {
	return ask2(ctx, s, "ByObject", func(ctx context.Context, rows deployment.Store) (claim.Record, bool, error) {
		return rows.ByObject(ctx, home, id)
	})
}

func (s *store) Calls(ctx context.Context, home, after string, limit int) ([]outbox.Message, error) {
	return ask(ctx, s, "Calls", func(ctx context.Context, rows deployment.Store) ([]outbox.Message, error) {
		return rows.Calls(ctx, home, after, limit)
	})
}

func (s *store) Carried(ctx context.Context, home string, after ledger.AccountKey, limit int) ([]ledger.Balance, error) {
	return ask(ctx, s, "Carried", func(ctx context.Context, rows deployment.Store) ([]ledger.Balance, error) {
		return rows.Carried(ctx, home, after, limit)
	})
}

func (s *store) Charges(ctx context.Context, home string, of ledger.Charges) ([]ledger.Transaction, error) {
	return ask(ctx, s, "Charges", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.Charges(ctx, home, of)
	})
}

func (s *store) CloseAll(ctx context.Context, home string, held []outbox.Hold, status notice.Status, detail string) (int, error) {
	return ask(ctx, s, "CloseAll", func(ctx context.Context, rows deployment.Store) (int, error) {
		return rows.CloseAll(ctx, home, held, status, detail)
	})
}

func (s *store) DeploymentID(ctx context.Context) (uuid.UUID, error) {
	return ask(ctx, s, "DeploymentID", func(ctx context.Context, rows deployment.Store) (uuid.UUID, error) { return rows.DeploymentID(ctx) })
}

func (s *store) DropWitnesses(ctx context.Context, version uint64, limit int) (int, error) {
	return ask(ctx, s, "DropWitnesses", func(ctx context.Context, rows deployment.Store) (int, error) {
		return rows.DropWitnesses(ctx, version, limit)
	})
}

func (s *store) Elapse(ctx context.Context, home, id string, by time.Duration) error {
	return s.do(ctx, "Elapse", func(ctx context.Context, rows deployment.Store) error { return rows.Elapse(ctx, home, id, by) })
}

func (s *store) ForgetAudit(ctx context.Context, home string, gone []audit.Position) (int, error) {
	return ask(ctx, s, "ForgetAudit", func(ctx context.Context, rows deployment.Store) (int, error) {
		return rows.ForgetAudit(ctx, home, gone)
	})
}

func (s *store) ForgetBooks(ctx context.Context, home string, version uint64, chain audit.Chain, ids []string) (bool, error) {
	return ask(ctx, s, "ForgetBooks", func(ctx context.Context, rows deployment.Store) (bool, error) {
		return rows.ForgetBooks(ctx, home, version, chain, ids)
	})
}

func (s *store) GhostRefund(ctx context.Context, home, id string) (ledger.Transaction, bool, error) {
	return ask2(ctx, s, "GhostRefund", func(ctx context.Context, rows deployment.Store) (ledger.Transaction, bool, error) {
		return rows.GhostRefund(ctx, home, id)
	})
}

func (s *store) Ghosts(ctx context.Context, home, provider, after string, limit int) ([]ledger.Transaction, error) {
	return ask(ctx, s, "Ghosts", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.Ghosts(ctx, home, provider, after, limit)
	})
}

func (s *store) InFlight(ctx context.Context, home string) (int, error) {
	return ask(ctx, s, "InFlight", func(ctx context.Context, rows deployment.Store) (int, error) { return rows.InFlight(ctx, home) })
}

func (s *store) Incoming(ctx context.Context, provider, ref string) ([]ledger.Transaction, error) {
	return ask(ctx, s, "Incoming", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.Incoming(ctx, provider, ref)
	})
}

func (s *store) LeavingBooks(ctx context.Context, home string, after ledger.Position, until time.Time, limit int) (audit.BooksPage, error) {
	return ask(ctx, s, "LeavingBooks", func(ctx context.Context, rows deployment.Store) (audit.BooksPage, error) {
		return rows.LeavingBooks(ctx, home, after, until, limit)
	})
}

func (s *store) Named(ctx context.Context, home string, ids []string) ([]ledger.Transaction, error) {
	return ask(ctx, s, "Named", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.Named(ctx, home, ids)
	})
}

func (s *store) NextDue(ctx context.Context, home string) (map[outbox.Queue]time.Duration, error) {
	return ask(ctx, s, "NextDue", func(ctx context.Context, rows deployment.Store) (map[outbox.Queue]time.Duration, error) {
		return rows.NextDue(ctx, home)
	})
}

func (s *store) Notice(ctx context.Context, home, id string) (notice.Notice, bool, error) {
	return ask2(ctx, s, "Notice", func(ctx context.Context, rows deployment.Store) (notice.Notice, bool, error) {
		return rows.Notice(ctx, home, id)
	})
}

func (s *store) Waits(ctx context.Context, home, tenant, events string) (string, error) {
	return ask(ctx, s, "Waits", func(ctx context.Context, rows deployment.Store) (string, error) {
		return rows.Waits(ctx, home, tenant, events)
	})
}

func (s *store) Object(ctx context.Context, tenant, home, id string) (claim.Record, time.Time, bool, error) {
	return ask3(ctx, s, "Object", func(ctx context.Context, rows deployment.Store) (claim.Record, time.Time, bool, error) {
		return rows.Object(ctx, tenant, home, id)
	})
}

func (s *store) Post(ctx context.Context, t ledger.Transaction) (bool, error) {
	return ask(ctx, s, "Post", func(ctx context.Context, rows deployment.Store) (bool, error) { return rows.Post(ctx, t) })
}

func (s *store) PutAccount(ctx context.Context, row account.Row) (bool, error) {
	return ask(ctx, s, "PutAccount", func(ctx context.Context, rows deployment.Store) (bool, error) { return rows.PutAccount(ctx, row) })
}

func (s *store) PutBrake(ctx context.Context, b notice.Brake) (bool, error) {
	return ask(ctx, s, "PutBrake", func(ctx context.Context, rows deployment.Store) (bool, error) { return rows.PutBrake(ctx, b) })
}

func (s *store) PutRestore(ctx context.Context, r claim.Restore) (bool, error) {
	return ask(ctx, s, "PutRestore", func(ctx context.Context, rows deployment.Store) (bool, error) { return rows.PutRestore(ctx, r) })
}

func (s *store) PutWitnesses(ctx context.Context, all []claim.Witness) error {
	return s.do(ctx, "PutWitnesses", func(ctx context.Context, rows deployment.Store) error { return rows.PutWitnesses(ctx, all) })
}

func (s *store) Reattach(ctx context.Context, a claim.Arrival, seen claim.Witness) (claim.Begun, error) {
	return ask(ctx, s, "Reattach", func(ctx context.Context, rows deployment.Store) (claim.Begun, error) {
		return rows.Reattach(ctx, a, seen)
	})
}

func (s *store) Registrar(ctx context.Context, tenant string) (string, error) {
	return ask(ctx, s, "Registrar", func(ctx context.Context, rows deployment.Store) (string, error) { return rows.Registrar(ctx, tenant) })
}

func (s *store) Restore(ctx context.Context) (claim.Restore, time.Time, error) {
	return ask2(ctx, s, "Restore", func(ctx context.Context, rows deployment.Store) (claim.Restore, time.Time, error) {
		return rows.Restore(ctx)
	})
}

func (s *store) Reversals(ctx context.Context, ids ...string) ([]ledger.Transaction, error) {
	return ask(ctx, s, "Reversals", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.Reversals(ctx, ids...)
	})
}

func (s *store) ReversalsAt(ctx context.Context, home, id string) ([]ledger.Transaction, error) {
	return ask(ctx, s, "ReversalsAt", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.ReversalsAt(ctx, home, id)
	})
}

func (s *store) Reversing(ctx context.Context, home, of, after string, limit int) ([]claim.Reversing, error) {
	return ask(ctx, s, "Reversing", func(ctx context.Context, rows deployment.Store) ([]claim.Reversing, error) {
		return rows.Reversing(ctx, home, of, after, limit)
	})
}

func (s *store) Rewrite(ctx context.Context, home, after string, limit int, again func(string, []byte) ([]byte, error)) (string, error) {
	return ask(ctx, s, "Rewrite", func(ctx context.Context, rows deployment.Store) (string, error) {
		return rows.Rewrite(ctx, home, after, limit, again)
	})
}

func (s *store) SetRegionStatus(ctx context.Context, name string, status claim.RegionStatus) (uint64, error) {
	return ask(ctx, s, "SetRegionStatus", func(ctx context.Context, rows deployment.Store) (uint64, error) {
		return rows.SetRegionStatus(ctx, name, status)
	})
}

func (s *store) Settled(ctx context.Context, home string, after claim.Key, limit int) ([]claim.Record, error) {
	return ask(ctx, s, "Settled", func(ctx context.Context, rows deployment.Store) ([]claim.Record, error) {
		return rows.Settled(ctx, home, after, limit)
	})
}

func (s *store) TenantByAPIKey(ctx context.Context, hash claim.APIKeyHash) (claim.Tenant, bool, error) {
	return ask2(ctx, s, "TenantByAPIKey", func(ctx context.Context, rows deployment.Store) (claim.Tenant, bool, error) {
		return rows.TenantByAPIKey(ctx, hash)
	})
}

func (s *store) Timeline(ctx context.Context, key claim.Key, home string, limit int) ([]claim.AuditEntry, error) {
	return ask(ctx, s, "Timeline", func(ctx context.Context, rows deployment.Store) ([]claim.AuditEntry, error) {
		return rows.Timeline(ctx, key, home, limit)
	})
}

func (s *store) Transaction(ctx context.Context, home, id string) (ledger.Transaction, bool, error) {
	return ask2(ctx, s, "Transaction", func(ctx context.Context, rows deployment.Store) (ledger.Transaction, bool, error) {
		return rows.Transaction(ctx, home, id)
	})
}

func (s *store) Transactions(ctx context.Context, home string, after ledger.Position, until time.Time, limit int) ([]ledger.Transaction, error) {
	return ask(ctx, s, "Transactions", func(ctx context.Context, rows deployment.Store) ([]ledger.Transaction, error) {
		return rows.Transactions(ctx, home, after, until, limit)
	})
}

func (s *store) Unknown(ctx context.Context, home string, live bool, limit int) ([]claim.Record, error) {
	return ask(ctx, s, "Unknown", func(ctx context.Context, rows deployment.Store) ([]claim.Record, error) {
		return rows.Unknown(ctx, home, live, limit)
	})
}

func (s *store) Unpaid(ctx context.Context, home, id string) (claim.Unpaid, bool, error) {
	return ask2(ctx, s, "Unpaid", func(ctx context.Context, rows deployment.Store) (claim.Unpaid, bool, error) {
		return rows.Unpaid(ctx, home, id)
	})
}

func (s *store) Witness(ctx context.Context, key claim.Key) (claim.Witness, bool, error) {
	return ask2(ctx, s, "Witness", func(ctx context.Context, rows deployment.Store) (claim.Witness, bool, error) {
		return rows.Witness(ctx, key)
	})
}

func (s *store) Witnesses(ctx context.Context, after claim.Key, limit int) ([]claim.Witness, error) {
	return ask(ctx, s, "Witnesses", func(ctx context.Context, rows deployment.Store) ([]claim.Witness, error) {
		return rows.Witnesses(ctx, after, limit)
	})
}
