package notice

import (
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/outbox"
)

// rowOf is the context to which the body of a notice is bound. Its row in the queue has
// the same bytes.
func rowOf(region, id string) seal.Row { return seal.Row{Table: "notice", Region: region, ID: id} }

// sealedPatience is how long a notice that this node cannot open is left to nodes that
// may have the key, before it is parked: longer than keys take to reach all nodes.
const sealedPatience = time.Hour

// unopened returns the disposition of a notice whose body this node cannot open.
func (p *Processor) unopened(m outbox.Message, err error) outbox.Disposition {
	switch reason := err.Error(); {
	case !errors.Is(err, seal.ErrLost):
		return p.later(m, "sealing key", err)
	case p.c.Now().Sub(m.CreatedAt) < sealedPatience:
		return outbox.Failed(reason)
	default:
		return outbox.Parked(reason)
	}
}

// Bodies is a store of notices whose bodies can be rewritten.
type Bodies interface {
	// Rewrite passes the bodies of up to limit notices of region, in the order of their
	// ids and after the given one, to again. It replaces a body that has not changed
	// since with the result, in the notice and in its row; nil leaves it. It skips
	// notices without a body. last is the id after which the next call continues, "" at
	// the end.
	Rewrite(ctx context.Context, region, after string, limit int, again func(id string, body []byte) ([]byte, error)) (last string, err error)
}

// rewriteBatch bounds memory: 64 of the largest bodies are 16 MiB.
const rewriteBatch = 64

// Reseal passes every body of region to census. It may be stopped at any point and
// restarted: each notice can be opened before and after.
func Reseal(ctx context.Context, all Bodies, region string, census *seal.Census) error {
	for after := ""; ; {
		last, err := all.Rewrite(ctx, region, after, rewriteBatch, func(id string, body []byte) ([]byte, error) {
			return census.Value(ctx, rowOf(region, id), body)
		})
		if err != nil || last == "" {
			return err
		}
		after = last
	}
}
