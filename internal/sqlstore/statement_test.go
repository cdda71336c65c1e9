package sqlstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

type bindKey struct{ TenantID, IdemKey string }

type bindRow struct {
	bindKey
	Due  time.Time
	Step uuid.UUID
}

func TestFieldsAreNamedArguments(t *testing.T) {
	due, step := time.Unix(1, 0), uuid.New()
	type args struct {
		Home string
		bindKey
		Entry struct{ ID int64 }
		Rows  []bindRow
		Tags  []string
		Step  uuid.UUID
	}
	in := func(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
	values := func(args any) map[string]any {
		all := map[string]any{}
		for _, a := range argumentsOf(reflect.TypeOf(args)) {
			all[a.name] = a.of(reflect.ValueOf(args))
		}
		return all
	}
	require.Equal(t, map[string]any{
		"home": "here", "tenant_id": "acme", "idem_key": "k", "entry_id": int64(7), "tags": []string{"a"}, "step": in(step),
		"rows_tenant_id": []string{"t1", "t2"}, "rows_idem_key": []string{"k1", "k2"}, "rows_due": []time.Time{due, due.Add(1)},
		"rows_step": []pgtype.UUID{in(step), in(uuid.Nil)},
	}, values(args{
		Home: "here", bindKey: bindKey{"acme", "k"}, Entry: struct{ ID int64 }{7}, Tags: []string{"a"}, Step: step,
		Rows: []bindRow{{bindKey{"t1", "k1"}, due, step}, {bindKey{"t2", "k2"}, due.Add(1), uuid.Nil}},
	}))
	require.Equal(t, []string{}, values(args{})["rows_tenant_id"], "no rows are not NULL")
	for field, name := range map[string]string{
		"Home": "home", "TenantID": "tenant_id", "ID": "id", "URL": "url", "N": "n", "OldUnknowns": "old_unknowns", "CloseUntil": "close_until",
	} {
		require.Equal(t, name, snake(field))
	}
}

// TestTheRegionIsInTheText: of CockroachDB, quoted, and of no other database.
func TestTheRegionIsInTheText(t *testing.T) {
	sql, bound, err := postgreSQL.bind("unpaid", objectArgs{Home: "it's", ObjectID: "ch_1"})
	require.NoError(t, err)
	require.Contains(t, sql, "home_region = $1::crdb_internal_region AND object_id = $2::text")
	require.Equal(t, []any{"it's", "ch_1"}, bound)
	sql, bound, err = cockroachDB.bind("unpaid", objectArgs{Home: "it's", ObjectID: "ch_1"})
	require.NoError(t, err)
	require.Contains(t, sql, "'it''s'::crdb_internal_region")
	require.Equal(t, []any{pgx.QueryExecModeSimpleProtocol, "ch_1"}, bound, "planned for its run")
	sql, _, err = cockroachDB.bind("unpaid", objectArgs{Home: "there", ObjectID: "ch_1"})
	require.NoError(t, err)
	require.Contains(t, sql, "'there'::crdb_internal_region", "each region has its own")
	_, bound, err = cockroachDB.bind("object", ownObjectArgs{"it's", "acme", "ch_1"})
	require.NoError(t, err)
	require.Equal(t, []any{"ch_1", "acme"}, bound, "with a plan that is kept")
	_, _, err = postgreSQL.bind("nothing", none{})
	require.ErrorContains(t, err, "nothing")
	for _, args := range []any{idArgs{}, homeArgs{}} { // an argument too many, one too few
		_, _, err = postgreSQL.bind("unpaid", args)
		require.ErrorContains(t, err, "query/unpaid.sql")
	}
}
