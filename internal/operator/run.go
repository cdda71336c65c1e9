package operator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/homeward-io/homeward/region"
)

// Run has the first node that can be reached run a command on its store, and prints what
// that prints. A second one is asked only where the first has certainly run nothing.
func (o *Operator) Run(ctx context.Context, args []string, out, errs io.Writer) (exit int, err error) {
	for _, c := range o.clients {
		exit, err = c.Run(ctx, args, out, errs)
		if !errors.Is(err, region.ErrNoAnswer) || ctx.Err() != nil {
			return exit, err
		}
	}
	return 0, fmt.Errorf("%w; name a node with --node or --cluster, and your certificate with --cert, --key and --ca", err)
}
