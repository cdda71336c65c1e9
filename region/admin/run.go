package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"connectrpc.com/connect"

	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/region"
)

// Run is a command line, without the program's name, that is run to its end or to ctx's.
// It returns the exit code. It is safe for concurrent use.
type Run func(ctx context.Context, args []string, out, errs io.Writer) int

// maxRuns bounds the commands that a node runs at a time, beside what merchants ask of it. Readers
// leave one of them to who acts: a command lasts as long as its caller takes to read the output.
const maxRuns = 4

// MaxArgs is how many words a command line may have.
const MaxArgs = 100

// run runs a command for an operator, who ends it by going away.
func (s *Server) run(ctx context.Context, req *runRequest, to *connect.ServerStream[runOutput]) error {
	if err := s.admit(ctx, region.RoleReader, false); err != nil {
		return err
	}
	args := req.Args
	switch {
	case s.c.Run == nil:
		return connect.NewError(connect.CodeUnimplemented, errors.New("this node runs no commands"))
	case len(args) == 0 || len(args) > MaxArgs:
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("a command must have 1 to %d words, this one has %d", MaxArgs, len(args)))
	}
	most := int64(maxRuns)
	if who, ok := region.CallerOf(ctx); ok && who.Role == region.RoleReader {
		most--
	}
	defer s.runs.Add(-1)
	if running := s.runs.Add(1) - 1; running >= most {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the node runs %d commands already; wait for one of them", running))
	}
	// Later arguments may be secrets.
	s.c.Logger.InfoContext(ctx, "an operator runs a command", "command", args[0], "by", CallerName(ctx))
	var one sync.Mutex // a stream sends one message at a time
	send := func(m *runOutput) error {
		one.Lock()
		defer one.Unlock()
		return to.Send(m)
	}
	exit := 0
	if caught := fault.Caught(func() {
		exit = s.c.Run(ctx, args,
			printer(func(text []byte) error { return send(&runOutput{Out: text}) }),
			printer(func(text []byte) error { return send(&runOutput{Err: text}) }))
	}); caught != nil {
		s.c.Logger.ErrorContext(ctx, "an operator's command panicked", "command", args[0], "error", caught)
		return connect.NewError(connect.CodeInternal, errors.New("the command failed through a fault in Homeward; see the node's log"))
	}
	s.c.Logger.InfoContext(ctx, "an operator's command has ended", "command", args[0], "by", CallerName(ctx), "exit", exit)
	return send(&runOutput{Exit: &exit})
}

// CallerName names the caller of a request for logs and for the audit: by its certificate.
func CallerName(ctx context.Context) string {
	if who, ok := region.CallerOf(ctx); ok {
		return who.String()
	}
	return "somebody on this machine"
}

// printer sends what is written to it.
type printer func(text []byte) error

func (p printer) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
		n := min(len(rest), maxPrinted)
		if err := p(rest[:n]); err != nil {
			return len(text) - len(rest), err
		}
		rest = rest[n:]
	}
	return len(text), nil
}

// maxPrinted bounds one message, far below what either side reads.
const maxPrinted = 32 << 10

// Run runs a command on the node's store and copies its output. An error is a failed
// request: after [region.ErrNoAnswer] the command did not run, after any other it may have
// run in part.
func (c *Client) Run(ctx context.Context, args []string, out, errs io.Writer) (exit int, err error) {
	stream, err := procedure[runRequest, runOutput](c.http, baseOf(c.addr, c.tls), pathRun).CallServerStream(region.Towards(ctx, ""), connect.NewRequest(&runRequest{args}))
	if err != nil {
		return 0, c.notRun(err)
	}
	defer func() { _ = stream.Close() }() // its output has been read
	for stream.Receive() {
		m := stream.Msg()
		if _, err := out.Write(m.Out); err != nil {
			return 0, err
		}
		if _, err := errs.Write(m.Err); err != nil {
			return 0, err
		}
		if m.Exit != nil {
			return *m.Exit, nil
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return 0, c.notRun(stream.Err())
}

// notRun is failed for a command that may have run, and must not run twice.
func (c *Client) notRun(err error) error {
	dial, other := (*net.OpError)(nil), (*region.OtherDeploymentError)(nil)
	switch {
	case errors.As(err, &other):
		return c.failed(err)
	case connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeUnimplemented:
		return fmt.Errorf("the node at %s runs no commands: its version is older, or its program does not offer them", c.addr)
	case connect.IsWireError(err), errors.As(err, &dial) && dial.Op == "dial":
		return c.failed(err)
	}
	return fmt.Errorf("the node at %s stopped answering; check how much the command did before you run it again", c.addr)
}
