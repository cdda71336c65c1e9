package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/client"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
)

// startDemo returns the addresses of a demo's regions.
func startDemo(t *testing.T) (urls []string) {
	settings, err := node.LoadSettings("", nil)
	require.NoError(t, err)
	d, err := lab.StartDemo(t.Context(), lab.DemoConfig{
		Settings: settings, Listen: "127.0.0.1:0", Console: lab.NoConsole, MetricsListen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Stop(context.Background())) })
	for _, n := range d.Nodes {
		urls = append(urls, "http://"+n.APIAddr())
	}
	return urls
}

// slow is a way to a region that holds each answer to a charge until the test ends.
func slow(t *testing.T, region string) string {
	to, err := url.Parse(region)
	require.NoError(t, err)
	way := httputil.NewSingleHostReverseProxy(to)
	way.ErrorLog = log.New(io.Discard, "", 0)
	ended := make(chan struct{})
	way.ModifyResponse = func(r *http.Response) error {
		if r.Request.URL.Path == "/v1/charges" {
			<-ended
		}
		return nil
	}
	server := httptest.NewServer(way)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	return server.URL
}

// The order's page times out while its charge has no answer. The order is given up, the payer gets the
// money back, and no later run pays, whatever it is run with.
func TestAnOrderWhosePageTimesOutIsGivenUp(t *testing.T) {
	urls := startDemo(t)
	path := filepath.Join(t.TempDir(), "order.json")
	merchant := func(urls []string, args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), append([]string{"--order", path, "--amount", "1999", "--urls", strings.Join(urls, ",")}, args...), &out)
		return out.String(), err
	}
	printed, err := merchant([]string{slow(t, urls[0])}, "--wait", "500ms")
	require.NoError(t, err)
	require.Regexp(t, `^given up: (refunded|refund_pending|unknown|unused|not_made)\n$`, printed)
	for deadline := time.Now().Add(time.Minute); ; {
		printed, err = merchant(urls, "--card", "pm_card_mastercard", "--wait", "1ns")
		require.NoError(t, err)
		if printed == "given up: refunded\n" || printed == "given up: unused\n" {
			break
		}
		require.True(t, time.Now().Before(deadline), printed)
		<-time.After(100 * time.Millisecond)
	}
	o, err := load(path)
	require.NoError(t, err)
	require.Empty(t, o.Charge)
	c, err := client.New(client.Config{BaseURLs: urls, APIKey: "sk_demo_acme"})
	require.NoError(t, err)
	_, err = c.Charge(t.Context(), client.ChargeParams{Amount: 1999, Currency: "usd", PaymentMethod: "pm_card_visa", IdempotencyKey: o.Key})
	refused, ok := errors.AsType[*client.Error](err)
	if err == nil { // it had that answer before the page was closed
		kept, err := c.CancelKey(t.Context(), o.Key)
		require.NoError(t, err)
		charge, err := c.GetCharge(t.Context(), kept.Charge)
		require.NoError(t, err)
		require.EqualValues(t, 1999, charge.AmountRefunded)
		return
	}
	require.True(t, ok, err)
	require.Equal(t, client.CodeKeyCanceled, refused.Code)
}

// The order is paid once, through lost replies, a run that was killed before its answer, a
// declined card, and two runs after the payment.
func TestAnOrderIsPaidOnce(t *testing.T) {
	urls := startDemo(t)
	path := filepath.Join(t.TempDir(), "order.json")
	ctx := t.Context()
	merchant := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(ctx, append([]string{"--order", path, "--amount", "1999", "--urls", strings.Join(urls, ",")}, args...), &out)
		return out.String(), err
	}

	_, err := merchant("--card", "pm_card_stolen")
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
	replaced, err := load(path)
	require.NoError(t, err)

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

	// A request with the declined card that was held up on its way arrives.
	c, err := client.New(client.Config{BaseURLs: urls, APIKey: "sk_demo_acme"})
	require.NoError(t, err)
	var late *client.Error
	require.Eventually(t, func() bool {
		_, err = c.Charge(ctx, client.ChargeParams{Amount: 1999, Currency: "usd", PaymentMethod: replaced.Card, IdempotencyKey: replaced.Key})
		late, _ = errors.AsType[*client.Error](err)
		return late == nil || late.Code != client.CodeCardDeclined // which it reads for a second
	}, time.Minute, 50*time.Millisecond)
	require.NotNil(t, late, "the order is paid twice")
	require.Equal(t, client.CodeKeyCanceled, late.Code)

	// The file after a run that was killed when it had sent its request.
	o, err := load(path)
	require.NoError(t, err)
	o.Charge = ""
	require.NoError(t, o.save(path))
	again, err = merchant("--card", "pm_card_visa")
	require.NoError(t, err)
	require.Equal(t, printed, again)

	// One that was killed when it had canceled the declined key.
	path = filepath.Join(t.TempDir(), "other.json")
	_, err = merchant("--card", "pm_card_insufficient_funds_once")
	require.ErrorContains(t, err, "insufficient_funds")
	o, err = load(path)
	require.NoError(t, err)
	_, err = c.CancelKey(ctx, o.Key)
	require.NoError(t, err)
	_, err = merchant()
	require.ErrorContains(t, err, "ask the payer for another card")
	printed, err = merchant("--card", "pm_card_visa")
	require.NoError(t, err)
	require.Regexp(t, `^paid: ch_`, printed)
}
