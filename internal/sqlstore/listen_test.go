package sqlstore

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Listener hears every statement that a store sends.
type Listener struct {
	mu    sync.Mutex
	heard map[string]Heard
	times map[string]int
}

// Heard is a statement as it was last sent.
type Heard struct {
	SQL  string
	Args []any
}

// Listen makes l hear what a DB of this configuration sends.
func (c Config) Listen(l *Listener) Config {
	l.heard, l.times = map[string]Heard{}, map[string]int{}
	c.adjust = func(pc *pgxpool.Config) { pc.ConnConfig.Tracer = l }
	return c
}

// Before makes each connection run sql before it is used, once on is set.
func (c Config) Before(sql string, on *atomic.Bool) Config {
	c.adjust = func(pc *pgxpool.Config) {
		pc.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
			if !on.Load() {
				return true, nil
			}
			_, err := conn.Exec(ctx, sql)
			return err == nil, err
		}
	}
	return c
}

// TraceQueryStart implements [pgx.QueryTracer].
func (l *Listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if name, ok := strings.CutPrefix(data.SQL, "-- name: "); ok {
		name, _, _ = strings.Cut(name, "\n")
		l.mu.Lock()
		l.heard[name] = Heard{data.SQL, data.Args}
		l.times[name]++
		l.mu.Unlock()
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*Listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Times is how often a statement was sent.
func (l *Listener) Times(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[name]
}

// All returns what was heard, by name.
func (l *Listener) All() map[string]Heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]Heard{}
	maps.Copy(all, l.heard)
	return all
}
