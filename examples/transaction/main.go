// Command transaction moves stock in a database, once for each key. The claim commits with the rows:
//
//	DATABASE_URL=postgres://… go run ./examples/transaction --key ship-1 --item book --by -1
//
// A key that was used reads the reply of then, and moves nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/homeward-io/homeward"
)

func main() {
	key := flag.String("key", "", "idempotency key")
	item := flag.String("item", "book", "what is moved")
	by := flag.Int("by", 1, "how many")
	flag.Parse()
	if err := run(context.Background(), os.Getenv("DATABASE_URL"), *key, *item, *by); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, key, item string, by int) (err error) {
	store := homeward.Postgres(url)
	if err := homeward.Migrate(ctx, store); err != nil {
		return err
	}
	h, err := homeward.Open(ctx, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(ctx)) }()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS stock (item text PRIMARY KEY, n int NOT NULL CHECK (n >= 0))"); err != nil {
		return err
	}
	reply, err := move(ctx, h, pool, key, item, by)
	if err == nil {
		_, _ = fmt.Fprintf(os.Stdout, "%s (replayed: %t)\n", reply.Body, reply.Replayed)
	}
	return err
}

// move changes the stock of an item, once for each key. If the reply to COMMIT is lost, the caller
// moves again with the same key. On CockroachDB write crdbpgx.ExecuteTx for pgx.BeginFunc.
func move(ctx context.Context, h *homeward.Homeward, pool *pgxpool.Pool, key, item string, by int) (reply homeward.Reply, err error) {
	op := homeward.Op{Tenant: "shop", Name: "move", Key: key, Request: fmt.Append(nil, item, " ", by)}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		reply, err = h.DoTx(ctx, tx, op, func(tx pgx.Tx) ([]byte, error) {
			if _, err := tx.Exec(ctx, "INSERT INTO stock (item, n) VALUES ($1, 0) ON CONFLICT DO NOTHING", item); err != nil {
				return nil, err
			}
			var n int
			err := tx.QueryRow(ctx, "UPDATE stock SET n = n + $2 WHERE item = $1 RETURNING n", item, by).Scan(&n)
			return fmt.Appendf(nil, "%d of %s", n, item), err // an error takes the claim back, too
		})
		return err
	})
	return reply, err
}
