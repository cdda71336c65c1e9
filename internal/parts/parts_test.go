package parts_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/parts"
)

// TestAFailedStart: what was started is stopped backwards, what failed is not, and no
// error is lost.
func TestAFailedStart(t *testing.T) {
	var did []string
	do := func(what string, err error) func(context.Context) error {
		return func(context.Context) error {
			did = append(did, what)
			return err
		}
	}
	fire, flood, frost := errors.New("fire"), errors.New("flood"), errors.New("frost")
	var r parts.Running
	require.NoError(t, r.Stop(t.Context()))
	err := r.Start(t.Context(),
		parts.Part{Start: do("a", nil), Stop: do("not a", flood)},
		parts.Part{Start: do("b", nil)},
		parts.Part{Stop: do("not c", frost)},
		parts.Part{Start: do("d", fire), Stop: do("not d", nil)},
		parts.Part{Start: do("e", nil)},
	)
	require.Equal(t, fire, err)
	err = r.Stop(t.Context())
	require.ErrorIs(t, err, flood)
	require.ErrorIs(t, err, frost)
	require.Equal(t, []string{"a", "b", "d", "not c", "not a"}, did)
	require.NoError(t, r.Stop(t.Context()), "once is enough")
	require.Len(t, did, 5)
}
