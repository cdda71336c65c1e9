package main

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

func TestStockIsMovedOnce(t *testing.T) {
	if dbtest.Shared(t).Kind() != localdb.PostgreSQL {
		t.Skip("what is tried here is PostgreSQL")
	}
	url, ctx := dbtest.Database(t), t.Context()
	for range 2 {
		require.NoError(t, run(ctx, url, "k1", "book", 3))
	}
	h, err := homeward.Open(ctx, homeward.Postgres(url))
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close(ctx)) }()
	pool, err := pgxpool.New(ctx, url)
	require.NoError(t, err)
	defer pool.Close()
	reply, err := move(ctx, h, pool, "k2", "book", -1)
	require.NoError(t, err)
	require.Equal(t, "2 of book", string(reply.Body))
	_, err = move(ctx, h, pool, "k3", "book", -5)
	require.ErrorContains(t, err, "check constraint")
	reply, err = move(ctx, h, pool, "k3", "book", -5+4) // the key was never used
	require.NoError(t, err)
	require.Equal(t, "1 of book", string(reply.Body))
	reply, err = move(ctx, h, pool, "k1", "book", 3)
	require.NoError(t, err)
	require.True(t, reply.Replayed)
	require.Equal(t, "3 of book", string(reply.Body))
}
