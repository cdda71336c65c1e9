package cockroach

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAMemberThatLeftIsNotAnswered: its group's statement went without it, so that the
// statement's success says nothing of its step.
func TestAMemberThatLeftIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for left, want := range map[bool]error{true: context.Canceled, false: nil} {
		m := &member[int]{ctx: ctx, left: left, done: make(chan error, 1)}
		m.end(nil)
		require.Equal(t, want, <-m.done)
	}
}
