package cli

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// started is a command that runs until it is interrupted.
type started struct {
	*testing.T
	printed   []string // until it was ready
	interrupt func()
	ended     chan int
	errs      ungossiped
}

// starts runs a command, and returns when it has printed that Ctrl-C ends it.
func starts(t *testing.T, args ...string) *started {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	out, w := io.Pipe()
	s := &started{T: t, interrupt: interrupt, ended: make(chan int, 1)}
	go func() {
		s.ended <- run(ctx, args, streams{w, &s.errs})
		_ = w.Close()
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s.printed = append(s.printed, lines.Text())
		if strings.Contains(lines.Text(), "Ctrl-C drains") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s
		}
	}
	require.Fail(t, "it ended before it was ready", "%d: %s", <-s.ended, s.errs.String())
	return nil
}

// after is the word behind text in the first line that has it.
func (s *started) after(text string) string {
	s.Helper()
	for _, line := range s.printed {
		if _, rest, ok := strings.Cut(line, text); ok {
			return strings.Fields(rest)[0]
		}
	}
	require.Fail(s.T, "no line has the text", "%q: %s", text, strings.Join(s.printed, "\n"))
	return ""
}

// stop is Ctrl-C. It returns what the command logged.
func (s *started) stop() string {
	s.Helper()
	s.interrupt()
	require.Zero(s.T, <-s.ended, s.errs.String())
	return s.errs.String()
}

// ungossiped keeps what a command logs, but for gossip. Once a peer has stopped its port may be another
// test's, which answers the last probe in its own way, and memberlist logs that when the command is over.
type ungossiped struct{ strings.Builder }

func (u *ungossiped) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "component=memberlist") {
		return len(p), nil
	}
	return u.Builder.Write(p)
}
