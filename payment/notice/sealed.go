package notice

import (
	"context"
	"errors"
	"time"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/seal"
)

// rowOf is where the body of a notice opens. Its row in the queue has the same bytes.
func rowOf(region, id string) seal.Row { return seal.Row{Table: "notice", Region: region, ID: id} }

// sealedPatience is how long a notice that this node cannot open is left to others that
// may have the key, before it is parked: longer than keys take to reach all nodes.
const sealedPatience = time.Hour

// unopened says what becomes of a notice whose body does not open here.
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

// Bodies is a store of notices as one goes through what they say.
type Bodies interface {
	// Rewrite hands the bodies of up to limit notices of region, in the order of their
	// ids and after one of them, to again. What that returns replaces the body where it
	// still is as it was, in the notice and in its row; nil leaves it. Notices without a
	// body are left out. last is the id that the next call goes on after, "" at the end.
	Rewrite(ctx context.Context, region, after string, limit int, again func(id string, body []byte) ([]byte, error)) (last string, err error)
}

// rewriteBatch bounds what is in memory: 64 of the largest bodies are 16 MiB.
const rewriteBatch = 64

// Reseal lets census see every body of region. It may be stopped at any point and begun
// again: each notice opens by itself before and after.
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
