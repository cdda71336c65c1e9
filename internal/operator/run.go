package operator

import (
	"context"
	"io"

	"github.com/homeward-io/homeward/region/admin"
)

// Run has a node run a command on its store, and prints its output. It chooses the
// first node that answers a query, and never tries a second one, as the first may have
// run the command.
func (o *Operator) Run(ctx context.Context, args []string, out, errs io.Writer) (exit int, err error) {
	c, err := ask(ctx, o, func(ctx context.Context, c *admin.Client) (*admin.Client, error) {
		_, err := c.Overview(ctx, admin.Question{WithoutBacklog: true})
		return c, err
	})
	if err != nil {
		return 0, err
	}
	return c.Run(ctx, args, out, errs)
}
