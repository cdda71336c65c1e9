package parts_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/parts"
)

// TestAFailedStart: what was started is stopped backwards, what was not is not, and no
// error is lost.
func TestAFailedStart(t *testing.T) {
	var did []string
	stop := func(what string, err error) parts.Stop {
		return func(context.Context) error {
			did = append(did, "not "+what)
			return err
		}
	}
	part := func(what string, stop parts.Stop, err error) parts.Part {
		return func(context.Context) (parts.Stop, error) {
			did = append(did, what)
			return stop, err
		}
	}
	fire, flood, frost := errors.New("fire"), errors.New("flood"), errors.New("frost")
	var r parts.Running
	require.NoError(t, r.Stop(t.Context()))
	err := r.Start(t.Context(),
		part("a", stop("a", flood), nil),
		part("b", nil, nil),
		part("c", stop("c", nil), nil),
		part("d", stop("half of d", frost), fire),
		part("e", nil, nil),
	)
	require.Equal(t, fire, err)
	err = r.Stop(t.Context())
	require.ErrorIs(t, err, flood)
	require.ErrorIs(t, err, frost)
	require.Equal(t, []string{"a", "b", "c", "d", "not half of d", "not c", "not a"}, did)
	require.NoError(t, r.Stop(t.Context()), "once is enough")
	require.Len(t, did, 7)
}

func TestEachPartHasATimeOfItsOwn(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r := parts.Running{Each: time.Hour}
	require.NoError(t, r.Start(ended, func(context.Context) (parts.Stop, error) {
		return func(ctx context.Context) error {
			until, bounded := ctx.Deadline()
			require.True(t, bounded)
			require.Greater(t, time.Until(until), time.Minute)
			return ctx.Err()
		}, nil
	}))
	require.NoError(t, r.Stop(ended))
}
