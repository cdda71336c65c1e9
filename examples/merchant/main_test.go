package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
)

// The order is paid once, through lost replies, a run that was killed before its answer, a
// declined card, and two runs after the payment.
func TestAnOrderIsPaidOnce(t *testing.T) {
	settings, err := node.LoadSettings("", nil)
	require.NoError(t, err)
	d, err := lab.StartDemo(t.Context(), lab.DemoConfig{
		Settings: settings, Listen: "127.0.0.1:0", Console: lab.NoConsole, MetricsListen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Stop(t.Context())) }()
	var urls []string
	for _, n := range d.Nodes {
		urls = append(urls, "http://"+n.APIAddr())
	}
	path := filepath.Join(t.TempDir(), "order.json")
	ctx := t.Context()
	merchant := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(ctx, append([]string{"--order", path, "--amount", "1999", "--urls", strings.Join(urls, ",")}, args...), &out)
		return out.String(), err
	}

	_, err = merchant("--card", "pm_card_stolen")
	require.ErrorContains(t, err, "ask the payer for another card")
	declined, err := load(path)
	require.NoError(t, err)
	require.Equal(t, "stolen_card", declined.Declined)
	_, err = merchant()
	require.ErrorContains(t, err, "stolen_card", "without --card it is the order's own")

	// A declined card that is sent again without an answer is no longer declined: another card gets
	// no key before its outcome.
	gone, cancel := context.WithCancel(ctx)
	cancel()
	ctx = gone
	_, err = merchant()
	require.ErrorIs(t, err, context.Canceled)
	unanswered, err := load(path)
	require.NoError(t, err)
	require.Empty(t, unanswered.Declined)
	require.Equal(t, declined.Key, unanswered.Key)
	ctx = t.Context()
	_, err = merchant("--card", "pm_card_insufficient_funds_once")
	require.ErrorContains(t, err, "insufficient_funds")

	// That card would now be approved. The payer has replaced it, so it is not charged.
	printed, err := merchant("--card", "pm_card_visa")
	require.NoError(t, err)
	require.Regexp(t, `^paid: ch_`, printed)
	paid, err := load(path)
	require.NoError(t, err)
	require.Equal(t, "pm_card_visa", paid.Card)
	require.NotEqual(t, declined.Key, paid.Key)
	again, err := merchant("--card", "pm_card_visa")
	require.NoError(t, err)
	require.Equal(t, strings.Replace(printed, "paid:", "paid already:", 1), again)

	// The file after a run that was killed when it had sent its request.
	o, err := load(path)
	require.NoError(t, err)
	o.Charge = ""
	require.NoError(t, o.save(path))
	again, err = merchant("--card", "pm_card_visa")
	require.NoError(t, err)
	require.Equal(t, printed, again)
}
