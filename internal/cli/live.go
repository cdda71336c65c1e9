package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/region/admin"
)

// liveHelp is storeHelp of commands with liveFlags.
const liveHelp = storeHelp + ` With --node or --cluster a running node runs the command on its own store, also that of a demo or a private database. A node without TLS accepts this from its own machine, one with TLS with an operator's certificate of the role that the command needs (docs/SECURITY.md).`

// liveFlags are storeFlags of a command that a running node can execute.
type liveFlags struct {
	storeFlags
	remoteFlags
}

// remoteFlags select the running node that executes a command; the zero value selects
// none.
type remoteFlags struct {
	Node    string `placeholder:"HOST:PORT" help:"Run the command at the node with this RPC address, on the node's store."`
	Cluster string `type:"path" placeholder:"DIR" help:"The same, at a node of the running homeward cluster that has this data directory."`
	proofFlags
}

// live is a command that can be run at a node.
type live interface {
	remote() *remoteFlags
	where() *storeFlags
}

func (f *liveFlags) remote() *remoteFlags { return &f.remoteFlags }
func (f *liveFlags) where() *storeFlags   { return &f.storeFlags }

// liveCommand returns the parsed command if it can be run at a node.
func liveCommand(parsed *kong.Context) (live, bool) {
	selected := parsed.Selected()
	if selected == nil || !selected.Target.CanAddr() {
		return nil, false
	}
	return reflect.TypeAssert[live](selected.Target.Addr())
}

// runRemote has a node run args if the command line selects one.
func runRemote(ctx context.Context, io streams, parsed *kong.Context, args []string) (code int, ran bool) {
	l, ok := liveCommand(parsed)
	if !ok {
		return 0, false
	}
	f := l.remote()
	l.where().live = true
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

// unlike are commands that no node runs although others of their kind are run by nodes, with
// the reason.
var unlike = map[string]string{
	"reconcile": "it reads the statement, and with --heal the providers' secrets, where it is started; set HOMEWARD_DATABASE_URL, or stop the demo and name its directory with --data",
	"tenant":    "it changes the database at HOMEWARD_DATABASE_URL",
	"account":   "it works on the database at HOMEWARD_DATABASE_URL",
	"secrets":   "it works with sealing keys that stay where they are; set HOMEWARD_DATABASE_URL, or name the directory of a stopped demo with --data",
	"audit":     "it reads the audit's bucket from here; name that with --bucket or HOMEWARD_AUDIT__BUCKET, or the directory of a stopped demo with --data",
	"restore":   "it works on the database at HOMEWARD_DATABASE_URL before nodes start",
	"migrate":   "it makes the tables at HOMEWARD_DATABASE_URL that nodes need to start",
}

// noValue is kong's error for a flag without its value.
var noValue = regexp.MustCompile(`^(-\S+): expected \S+ value but got "(EOL|-[^"]*)"`)

// mistaken is the error of a command line that was not understood: why a command has no --node or
// --cluster, where err is that it has none, and the values of a flag without the one that stands
// for its absence. A flag without its value is named in plain words.
func mistaken(err error) error {
	if m := noValue.FindStringSubmatch(err.Error()); m != nil {
		if m[2] == "EOL" {
			return fmt.Errorf("%s needs a value", m[1])
		}
		return fmt.Errorf("%s needs a value, and %s is the next flag", m[1], m[2])
	}
	const none = `must be one of "",`
	if strings.Contains(err.Error(), none) {
		return errors.New(strings.Replace(err.Error(), none, "must be one of ", 1))
	}
	wrong := (*kong.ParseError)(nil)
	unknown, flag := strings.CutPrefix(err.Error(), "unknown flag --")
	name := strings.FieldsFunc(unknown, func(r rune) bool { return r == ',' || r == ' ' || r == '=' })
	if !flag || !errors.As(err, &wrong) || wrong.Context.Selected() == nil || !slices.Contains([]string{"node", "cluster"}, name[0]) {
		return err
	}
	path := strings.Fields(wrong.Context.Selected().FullPath())
	why, ok := unlike[path[1]]
	if !ok {
		return err
	}
	return fmt.Errorf("%s has no --%s: %s", strings.Join(path, " "), name[0], why)
}

// nodeKey is the key of a context in which commands work at a running node, with its
// [node.Belongings].
type nodeKey struct{}

// atNode are the commands that a node runs for operators.
func atNode(b node.Belongings) admin.Run {
	return func(ctx context.Context, args []string, out, errs io.Writer) int {
		to := streams{out, errs}
		ctx, doing := withAct(context.WithValue(ctx, nodeKey{}, b))
		parsed, code := parse(ctx, args, to)
		if parsed == nil {
			return code
		}
		if err := errors.Join(fitsNode(parsed), refused(ctx, parsed)); err != nil {
			return fail(to, err)
		}
		doing.is(admin.CallerName(ctx), parsed)
		if err := parsed.Run(); err != nil {
			return fail(to, err)
		}
		return 0
	}
}

// fitsNode refuses commands that a node cannot run: those that need more than its
// store, and those with files, which would be on its machine.
func fitsNode(parsed *kong.Context) error {
	if _, ok := liveCommand(parsed); !ok {
		return fmt.Errorf("a node does not run %s", parsed.Selected().FullPath())
	}
	known := map[string]bool{"cluster": true, "cert": true, "key": true, "ca": true} // they led here
	for _, at := range parsed.Path {
		if f := at.Flag; f != nil && (f.Tag.Type == "path" && !known[f.Name] || f.Name == "runs" || f.Name == "bucket") {
			return fmt.Errorf("--%s names what is on the node's machine, not on yours: leave it out, or run the command on the database", f.Name)
		}
	}
	return nil
}
