package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
)

// TestWhatARefusalMeans: CockroachDB refuses a message that is too large before it reads it.
// Under the same code a pooler reports a connection that it lost.
func TestWhatARefusalMeans(t *testing.T) {
	for want, err := range map[outcome]*pgconn.PgError{
		refused: {Code: codeProtocol, Message: "message size 17 MiB bigger than maximum allowed message size 16 MiB"},
		unknown: {Code: codeProtocol, Message: "server conn crashed?"},
	} {
		require.Equal(t, want, judge(err), err.Message)
		require.Equal(t, want == refused, isDataError(err), err.Message)
	}
	for _, code := range []string{"22021", "22001", "23514", "23502", "54000"} {
		require.ErrorIs(t, claimError("settle", &pgconn.PgError{Code: code}), claim.ErrUnstorable, code)
	}
	for _, code := range []string{"42P01", "42501", "57014"} {
		require.ErrorIs(t, claimError("settle", &pgconn.PgError{Code: code}), claim.ErrUnavailable, code)
	}
}

// TestReadsHaveEachKeyOnce: an answer is sent once, however many wait for it.
func TestReadsHaveEachKeyOnce(t *testing.T) {
	var creations []*creation
	var lookups []*lookup
	for _, value := range []string{"a", "a", "b", "c", "c", "c"} {
		key := claim.Key{Tenant: "acme", Value: value}
		creations = append(creations, &creation{Arrival: &claim.Arrival{
			Content: claim.Content{Key: key},
		}})
		lookups = append(lookups, &lookup{key: key})
	}
	var found, shown []string
	for _, k := range batchedFind(&DB{}).args(creations).Keys {
		found = append(found, fmt.Sprint(k.N, k.IdemKey))
	}
	for _, k := range batchedReplica(&DB{}).args(lookups).Keys {
		shown = append(shown, fmt.Sprint(k.N, k.IdemKey))
	}
	require.Equal(t, []string{"0a", "2b", "3c"}, found)
	require.Equal(t, found, shown)
}

// TestAPoolersSessionsAreNamed: statements that another client of a session has prepared, or
// that are gone with the session, are the sign of a pooler of transactions, whichever statement
// meets it first.
func TestAPoolersSessionsAreNamed(t *testing.T) {
	config, err := pgx.ParseConfig("postgres://app@127.0.0.1:6432/pay")
	require.NoError(t, err)
	for _, code := range []string{"42P05", "26000"} {
		require.ErrorContains(t, connectError(config, &pgconn.PgError{Code: code, Message: "prepared statement"}), "set pool_mode=session", code)
	}
	require.NotContains(t, connectError(config, &pgconn.PgError{Code: "42601", Message: "syntax error"}).Error(), "pool_mode")
}

// TestWhatARefusalMeansToATransaction: whoever began it runs it again only if that may help.
func TestWhatARefusalMeansToATransaction(t *testing.T) {
	for code, again := range map[string]bool{
		"40001": true, "40P01": true, "55P03": true, "57014": true, "08006": true,
		"42P01": false, "42501": false, "3F000": false, "25006": false, "23505": false, "22021": false, "22P02": false, "25P02": false,
	} {
		err := claimError("settle", &transactionError{statement: "settle", err: &pgconn.PgError{Code: code}})
		require.Equal(t, again, errors.Is(err, claim.ErrUnavailable), code)
		require.ErrorIs(t, err, ErrTransaction, code)
		require.NotErrorIs(t, err, claim.ErrUnstorable, "it is no refusal of one row")
		require.NotErrorIs(t, err, claim.ErrHomeUnreachable, code)
		require.True(t, hasCode(err, code))
	}
}
