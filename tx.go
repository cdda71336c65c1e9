package homeward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/sqlstore"
)

// DoTx runs fn in tx, or returns what it did before. The claim, what fn writes, and the reply that fn
// returns commit with tx, together or not at all: so the work is done once for each key, and not at
// most once. tx must be of the database of [Postgres] or [Cockroach], in any mode of pgx, and its role
// needs USAGE of the schema "homeward" and SELECT, INSERT, UPDATE on its tables.
//
// fn gets a savepoint within tx, which it cannot commit or roll back. Its error is returned as it is, and takes back what it wrote, and the
// claim; the rest of tx goes on. A refusal that retries shall read again is a reply, with tx committed.
//
// A twin in another transaction waits for the end of this one, as long as its ctx and its session
// allow, and then reads the reply. The errors are those of Do. One that wraps the database's, and any
// of the caller's COMMIT, end the transaction: run it again from its beginning, which reads the reply
// if the commit was done after all. On CockroachDB tx must be serializable, as it is by default, and one
// that lasts for seconds may have to run again. If the error is not claim.ErrUnavailable, too, the database
// refuses a claim, as in a transaction that is read-only, and the error says what to do. crdbpgx.ExecuteTx and its like do that for SQLSTATE 40001, which
// is how CockroachDB, and PostgreSQL above READ COMMITTED, end one of two twins.
func (h *Homeward) DoTx(ctx context.Context, tx pgx.Tx, op Op, fn func(tx pgx.Tx) ([]byte, error)) (reply Reply, err error) {
	if h.rows.sql == nil {
		return reply, errors.New("homeward: an embedded store takes no part in transactions of a database; open Postgres or Cockroach for DoTx")
	}
	req, err := op.request("TX", "", op.Request)
	if err != nil {
		return reply, err
	}
	if h.under(ctx, req.Key) {
		return reply, errUnder
	}
	leave, err := h.enter()
	if err != nil {
		return reply, err
	}
	defer leave()
	req.Operation = opTransaction
	registrar, err := h.registrar(ctx, req.Key.Tenant)
	if err != nil {
		return reply, err
	}
	home, pinnedAt := h.rows.region, time.Time{}
	if req.Stamp != 0 {
		if home, err = h.home(ctx, req.Stamp); err != nil {
			return reply, err
		}
	}
	for range 3 { // a twin's pin, a pin of its own, and one that runs out between the look-up and the step
		route := claim.Route{Home: home, Stamped: req.Stamp != 0, PinnedAt: pinnedAt, PinHere: pinnedAt.IsZero() && registrar == h.rows.region}
		reply, err = h.doTx(ctx, tx, req, route, fn)
		switch {
		case errors.Is(err, errTwin):
			continue
		case !errors.Is(err, claim.ErrNeedPin):
			return reply, err
		}
		// The pin is written apart from tx, as that of every key. A transaction that rolls back leaves
		// a pin without a claim, and the next one finds it.
		pin, perr := h.pin(ctx, req.Key)
		if perr != nil {
			return reply, perr
		}
		home, pinnedAt = pin.Home, pin.CreatedAt
	}
	if errors.Is(err, errTwin) {
		return reply, err
	}
	return reply, fmt.Errorf("%w: the home of the key keeps changing", claim.ErrUnavailable)
}

// errTwin: a twin committed while its key's rows were written. PostgreSQL then sees the twin's pin by
// one of two unique indexes, and the statement fails by the other. The savepoint has taken it back.
var errTwin = fmt.Errorf("%w: a twin of this operation keeps committing", claim.ErrUnavailable)

const codeUnique = "23505"

// doTx is DoTx along one route. ErrNeedPin, errTwin: it changed nothing, and fn did not run.
func (h *Homeward) doTx(ctx context.Context, tx pgx.Tx, req *claim.Request, route claim.Route, fn func(tx pgx.Tx) ([]byte, error)) (_ Reply, err error) {
	inner, err := tx.Begin(ctx)
	if err != nil {
		return Reply{}, fmt.Errorf("homeward: savepoint: %w", err)
	}
	kept := false
	defer func() { // also if fn panics
		if !kept {
			if failed := inner.Rollback(context.WithoutCancel(ctx)); failed != nil && err == nil {
				err = fmt.Errorf("homeward: rollback to savepoint: %w", failed)
			}
		}
	}()
	within := sqlstore.In(ctx, inner)
	arrival, err := h.arrival(req, route)
	if err != nil {
		return Reply{}, err
	}
	begun, err := h.rows.store.Begin(within, arrival)
	if state := (*pgconn.PgError)(nil); errors.As(err, &state) && state.Code == codeUnique {
		return Reply{}, errTwin
	}
	if err != nil {
		return Reply{}, err
	}
	rec := &begun.Record
	switch begun.Decision {
	case claim.Won:
	case claim.NeedPin:
		return Reply{}, claim.ErrNeedPin
	case claim.Replay:
		return replyOf(&claim.Reply{State: rec.State, Response: *rec.Response, Replayed: true, FirstUse: rec.FirstUse, ExpiresAt: rec.ExpiresAt(&h.policy, begun.Now)})
	case claim.Mismatch:
		return Reply{}, claim.ErrMismatch
	case claim.TombStone:
		return Reply{}, &claim.ExpiredError{FirstUse: rec.FirstUse}
	default: // a claim of this very transaction
		return Reply{}, &claim.InUseError{RetryAfter: h.policy.WaitMax}
	}
	body, err := fn(savepoint{inner})
	if err != nil {
		return Reply{}, err
	}
	response, err := stored(statusDone, body)
	if err != nil {
		return Reply{}, fmt.Errorf("homeward: %w; nothing was written", err)
	}
	settled, err := h.rows.store.Settle(within, *rec, claim.Verdict{
		ID: uuid.New(), Outcome: &claim.Done{Response: response}, MadeAt: time.Now(), Node: h.node, Region: h.rows.region,
	})
	if err != nil {
		return Reply{}, err
	}
	if err := inner.Commit(ctx); err != nil {
		return Reply{}, fmt.Errorf("homeward: release savepoint: %w", err)
	}
	kept = true
	return Reply{State: StateDone, Body: body, FirstUse: settled.FirstUse, ExpiresAt: settled.ExpiresAt(&h.policy, settled.SettledAt)}, nil
}

// savepoint is one as its function gets it.
type savepoint struct{ pgx.Tx }

var errNotYours = errors.New("homeward: the function of DoTx does not end its transaction; return nil to keep what it wrote, and return an error to take back")

func (savepoint) Commit(context.Context) error   { return errNotYours }
func (savepoint) Rollback(context.Context) error { return errNotYours }

// arrival is req as a claim in a transaction gets it. No lease of it counts: nobody else sees the claim
// before it is final.
func (h *Homeward) arrival(req *claim.Request, route claim.Route) (a claim.Arrival, err error) {
	a = claim.Arrival{
		Content: claim.Content{Key: req.Key, Operation: req.Operation, Input: req.Input, Payload: req.Payload},
		Route:   route,
		Holder:  claim.Holder{Node: h.node, Region: h.rows.region},
	}
	code, ok := h.code(route.Home)
	if !ok {
		return a, fmt.Errorf("%w: no region %q in the topology", claim.ErrHomeUnreachable, route.Home)
	}
	if a.Print, err = req.Input.Fingerprint(claim.CurrentFingerprint); err != nil {
		return a, err
	}
	a.Mint.ID, err = claim.NewObjectID(prefix, code, nil)
	return a, err
}
