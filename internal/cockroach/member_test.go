package cockroach

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// TestAMemberThatLeftIsNotAnswered: its group's statement went without it, so that the
// statement's success says nothing of its step.
func TestAMemberThatLeftIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for left, want := range map[bool]error{true: context.Canceled, false: nil} {
		m := &member[int]{ctx: ctx, left: left, done: make(chan error, 1)}
		m.end(nil)
		require.Equal(t, want, <-m.done)
	}
}

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

// arriving is a step of a tenant that sends so many bytes.
func arriving(tenant string, i, size int) *member[creation] {
	return &member[creation]{done: make(chan error, 1), step: &creation{
		Arrival: &claim.Arrival{Key: claim.Key{Tenant: tenant, Value: fmt.Sprint(i)}}, message: &outbox.Message{Payload: make([]byte, size)},
	}}
}

// TestGroupsAreBoundedInBytes: a statement has no more bytes than it may, but for a step that
// goes alone, and every tenant is in it however large the steps of another are.
func TestGroupsAreBoundedInBytes(t *testing.T) {
	g := beginGroup(&DB{})
	l := &gathering[creation]{underWay: map[claim.Key]bool{}}
	for i := range 6 {
		l.waiting = append(l.waiting, arriving("large", i, groupBytes/2-1))
	}
	l.waiting = append(l.waiting, arriving("huge", 0, groupBytes+1))
	for i := range 4 {
		l.waiting = append(l.waiting, arriving("small", i, 0))
	}
	var batches [][]string
	for len(l.waiting) > 0 {
		var batch []string
		for _, m := range g.next(l) {
			batch = append(batch, m.step.Key.Tenant+" "+m.step.Key.Value)
		}
		batches = append(batches, batch)
	}
	require.Equal(t, [][]string{
		{"large 0", "small 0", "large 1", "small 1", "small 2", "small 3"},
		{"huge 0"},
		{"large 2", "large 3"},
		{"large 4", "large 5"},
	}, batches)

	// As long as all fit tenants take turns, too: the next statement takes what is left.
	l = &gathering[creation]{underWay: map[claim.Key]bool{}}
	for i := range groupMost {
		l.waiting = append(l.waiting, arriving("many", i, 0))
	}
	l.waiting = append(l.waiting, arriving("few", 0, 0))
	require.Equal(t, "few", g.next(l)[1].step.Key.Tenant)
}

// TestReadsHaveEachKeyOnce: an answer is sent once, however many wait for it.
func TestReadsHaveEachKeyOnce(t *testing.T) {
	var creations []*creation
	var lookups []*lookup
	for _, value := range []string{"a", "a", "b", "c", "c", "c"} {
		key := claim.Key{Tenant: "acme", Value: value}
		creations = append(creations, &creation{Arrival: &claim.Arrival{Key: key}})
		lookups = append(lookups, &lookup{key: key})
	}
	var found, shown []string
	for _, k := range findGroup(&DB{}).args(creations).Keys {
		found = append(found, fmt.Sprint(k.N, k.IdemKey))
	}
	for _, k := range replicaGroup(&DB{}).args(lookups).Keys {
		shown = append(shown, fmt.Sprint(k.N, k.IdemKey))
	}
	require.Equal(t, []string{"0a", "2b", "3c"}, found)
	require.Equal(t, found, shown)
}
