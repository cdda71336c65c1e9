package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/region/admin"
)

// liveHelp is storeHelp of commands with liveFlags.
const liveHelp = storeHelp + ` With --node or --cluster a running node runs the command on its own store, also that of a demo or a private database. A node without TLS accepts this from its own machine, one with TLS with an operator's certificate.`

// liveFlags are storeFlags of a command that a running node can be asked to run.
type liveFlags struct {
	storeFlags
	askedFlags
}

// askedFlags say which running node is to run a command; the zero value is none.
type askedFlags struct {
	Node    string `placeholder:"HOST:PORT" help:"Run the command at the node with this RPC address, on the node's store."`
	Cluster string `type:"path" placeholder:"DIR" help:"The same, at a node of the running homeward cluster that has this data directory."`
	proofFlags
}

// live is a command that can be run at a node.
type live interface {
	asked() *askedFlags
	where() *storeFlags
}

func (f *liveFlags) asked() *askedFlags { return &f.askedFlags }
func (f *liveFlags) where() *storeFlags { return &f.storeFlags }

// liveCommand is the command that was parsed, if it can be run at a node.
func liveCommand(parsed *kong.Context) (live, bool) {
	selected := parsed.Selected()
	if selected == nil || !selected.Target.CanAddr() {
		return nil, false
	}
	return reflect.TypeAssert[live](selected.Target.Addr())
}

// runAsked has a node run args if the command line asks for that.
func runAsked(ctx context.Context, io streams, parsed *kong.Context, args []string) (code int, asked bool) {
	l, ok := liveCommand(parsed)
	if !ok {
		return 0, false
	}
	f := l.asked()
	switch {
	case f.Node == "" && f.Cluster == "":
		return 0, false
	case l.where().Data != "" || l.where().Config != "":
		return fail(io, errors.New("--data and --config are for what has stopped, --node and --cluster for what runs; leave one or the other out")), true
	}
	err := askFlags{Node: f.Node, Cluster: f.Cluster, proofFlags: f.proofFlags}.withOperator(io, func(o *operator.Operator) (err error) {
		code, err = o.Run(ctx, args, io.out, io.err)
		return err
	})
	if err != nil {
		return fail(io, err), true
	}
	return code, true
}

// nodeKey is of a context in which commands work at a running node, with its
// [node.Belongings].
type nodeKey struct{}

// atNode are the commands that a node runs for operators.
func atNode(b node.Belongings) admin.Run {
	return func(ctx context.Context, args []string, out, errs io.Writer) int {
		to := streams{out, errs}
		parsed, code := parse(context.WithValue(ctx, nodeKey{}, b), args, to)
		if parsed == nil {
			return code
		}
		if err := fitsNode(parsed); err != nil {
			return fail(to, err)
		}
		if err := parsed.Run(); err != nil {
			return fail(to, err)
		}
		return 0
	}
}

// fitsNode refuses what is no business of a node's: commands that need more than its store,
// and files, which would be of its machine.
func fitsNode(parsed *kong.Context) error {
	if _, ok := liveCommand(parsed); !ok {
		return fmt.Errorf("a node does not run %s", parsed.Selected().FullPath())
	}
	ours := map[string]bool{"cluster": true, "cert": true, "key": true, "ca": true} // they led here
	for _, at := range parsed.Path {
		if f := at.Flag; f != nil && (f.Tag.Type == "path" && !ours[f.Name] || f.Name == "runs") {
			return fmt.Errorf("--%s names what is on the node's machine, not on yours: leave it out, or run the command on the database", f.Name)
		}
	}
	return nil
}
