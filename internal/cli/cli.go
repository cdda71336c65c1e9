// Package cli implements the command homeward, one file for each command. A command
// reads flags, calls the packages that do the work, and prints. cli may import every
// package, and only package main imports it.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/homeward-io/homeward/internal/node"
)

type commands struct {
	Demo          demoCommand          `cmd:"" help:"Run three regions and a payment provider on this machine."`
	Simulator     simulatorCommand     `cmd:"" help:"Run only the payment provider simulator."`
	Gateway       gatewayCommands      `cmd:"" help:"Guard an API that you have: its requests with an Idempotency-Key are sent at most once."`
	Serve         serveCommand         `cmd:"" help:"Run one regional node on a SQL database."`
	Config        configCommand        `cmd:"" help:"Check the settings of a regional node."`
	Cluster       clusterCommand       `cmd:"" help:"Run three regions as processes of their own, on a SQL database, with a payment provider."`
	Drill         drillCommand         `cmd:"" help:"Break a running cluster under load, restore it, and check the promises."`
	Migrate       migrateCommand       `cmd:"" help:"Create and upgrade the tables of a database."`
	Regions       regionsCommand       `cmd:"" help:"Show regions and nodes: health, distance, drains, and what is in flight."`
	Top           topCommand           `cmd:"" help:"Watch requests by region: arrivals, forwards and answers."`
	Region        regionCommand        `cmd:"" help:"Drain a region, take it down, and bring it back."`
	Tenant        tenantCommand        `cmd:"" help:"Add tenants, and change their rates, keys and registrars."`
	Endpoint      endpointCommand      `cmd:"" help:"Manage tenants' webhook endpoints."`
	Outbox        outboxCommand        `cmd:"" help:"List, requeue and park rows of the queues."`
	Compensations compensationsCommand `cmd:"" help:"Show, stop and release automatic refunds."`
	Secrets       secretsCommand       `cmd:"" help:"Create sealing keys, and reseal stored values."`
	Inspect       inspectCommand       `cmd:"" help:"Show what happened to a key or object."`
	Audit         auditCommand         `cmd:"" help:"Verify the exported audit, and search it."`
	Ledger        ledgerCommand        `cmd:"" help:"Verify the ledger, and show balances and entries."`
	Account       accountCommand       `cmd:"" help:"Show and accept the account behind each provider's name."`
	Restore       restoreCommand       `cmd:"" help:"Withhold keys after a database restore until lost claims are found."`
	Reconcile     reconcileCommand     `cmd:"" help:"Compare a provider's statement with the books and the claims."`
	DevCerts      devCertsCommand      `cmd:"" help:"Create throw-away certificates for nodes and operators."`
	Version       versionCommand       `cmd:"" help:"Print version, commit and build."`
	Licenses      licensesCommand      `cmd:"" help:"Print the licences of all dependencies."`
	ShowVersion   versionFlag          `name:"version" help:"Print version, commit and build."`
}

// streams are the outputs of a command.
type streams struct{ out, err io.Writer }

// Run parses a command line, runs the command until it is done or ctx ends, and
// returns its exit code. Every failure is one line (or one per mistake) on errs.
func Run(ctx context.Context, args []string, out, errs io.Writer) int {
	return run(ctx, args, streams{&shown{out: out}, &shown{out: errs}})
}

// run is Run; a failure's exit code is 1, or that of an [exitError].
func run(ctx context.Context, args []string, io streams) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	ctx, doing := withAct(ctx)
	command, code := parse(ctx, args, io)
	if command == nil {
		return code
	}
	doing.is(shellName(), command)
	if code, remote := runRemote(ctx, io, command, args); remote {
		return code
	}
	if err := command.Run(); err != nil {
		return fail(io, err)
	}
	return 0
}

// parse parses a command line. For --help or a mistake it returns nil and the exit
// code.
func parse(ctx context.Context, args []string, io streams) (*kong.Context, int) {
	var c commands
	exited, status := false, 0
	parser, err := kong.New(&c,
		kong.Name("homeward"),
		kong.Description("The idempotency layer of a payments API: retry any request, in any region; the card is charged at most once."),
		kong.Writers(io.out, io.err),
		kong.Help(helpWithColumns),
		kong.Exit(func(code int) { exited, status = true, code }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(io),
	)
	if err != nil {
		return nil, fail(io, err)
	}
	if where := hasPassword(args); where != "" {
		code := fail(io, fmt.Errorf("%s has a user or password in its URL, and every user of this machine can read command lines; leave them out: a statement's URL that needs them is set in %s", where, node.StatementURL))
		if args[0] == "reconcile" {
			code = exitUnread
		}
		return nil, code
	}
	command, err := parser.Parse(args)
	if exited { // --help has been printed
		return nil, status
	}
	if err != nil {
		code := fail(io, fmt.Errorf("%w; see %s --help", mistaken(err), called(err)))
		if called(err) == "homeward reconcile" {
			code = exitUnread // a command that has not begun has compared nothing
		}
		return nil, code
	}
	return command, 0
}

// userInURL matches what precedes the host of a URL.
var userInURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s@]*@`)

// hasPassword names the argument with a URL that holds a user or a password, never its value;
// "" is none.
func hasPassword(args []string) string {
	for i, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case !userInURL.MatchString(arg):
		case strings.HasPrefix(arg, "--"):
			return name
		case i > 0 && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "="):
			return args[i-1]
		default:
			return "an argument"
		}
	}
	return ""
}

// called returns the part of a command line that was understood before err.
func called(err error) string {
	if wrong := (*kong.ParseError)(nil); errors.As(err, &wrong) && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return "homeward"
}

// failTime bounds the wait for a reader of a failure: a process that ends does so whether
// or not anybody reads.
const failTime = 2 * time.Second

func fail(io streams, err error) int {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintf(io.err, "homeward: %s\n", strings.TrimSpace(err.Error()))
	}()
	select {
	case <-said:
	case <-time.After(failTime):
	}
	if coded := (*exitError)(nil); errors.As(err, &coded) {
		return coded.code
	}
	return 1
}

// outliveReaders keeps a command that serves, or has to put something back at its end, alive
// when the reader of its output has died: a write then fails, and the process goes on. The
// caller must call the result.
func outliveReaders() (stop func()) {
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return func() { signal.Stop(pipe) }
}

// Exit codes of commands that compare.
const (
	exitDiffers = 1 // the compared sides differ
	exitUnread  = 2 // it could not be compared
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// indented prints JSON for people and programs.
func indented(io streams, v any) error {
	e := json.NewEncoder(io.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
