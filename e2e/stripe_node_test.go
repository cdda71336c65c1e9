package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// nodeCall is a call of Stripe's library: stripe.<On>.<Method>(…Args).
type nodeCall struct {
	On     string `json:"on"`
	Method string `json:"method"`
	Args   []any  `json:"args"`
}

// nodeMade is what became of it.
type nodeMade struct {
	Object struct {
		ID, Object, Status string
		Amount             int64
		Metadata           map[string]string
		LatestCharge       json.RawMessage `json:"latest_charge"`
		PaymentIntent      string          `json:"payment_intent"`
		Charge             string
		AmountRefunded     int64 `json:"amount_refunded"`
		Refunds            *nodeList
		nodeList           // where it is a list
	}
	Status              int
	RequestID, Replayed string
	Error               *struct {
		Kind, Code, DeclineCode, Param, Message, Again string
	}
}

// nodeList is a list of objects.
type nodeList struct {
	Data []struct {
		ID     string
		Amount int64
	}
	HasMore bool `json:"has_more"`
}

// stripeNode finds the library, or skips the test.
func stripeNode(t *testing.T) (program string) {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not on PATH: install Node.js 20 or later, then npm ci --prefix e2e/stripenode")
	}
	if _, err := os.Stat(filepath.Join("stripenode", "node_modules", "stripe")); err != nil {
		t.Skip("stripe-node is not installed: npm ci --prefix e2e/stripenode")
	}
	return program
}

// viaNode makes the calls, one behind the other or together.
func viaNode(t *testing.T, l *lossy, together bool, calls ...nodeCall) []nodeMade {
	t.Helper()
	in, err := json.Marshal(map[string]any{"url": l.url, "key": l.key, "together": together, "calls": calls})
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), stripeNode(t), filepath.Join("stripenode", "client.mjs"))
	var out, said strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(in)), &out, &said
	require.NoError(t, cmd.Run(), "%s", &said)
	var made []nodeMade
	require.NoError(t, json.Unmarshal([]byte(out.String()), &made), "%s", &out)
	require.Len(t, made, len(calls))
	return made
}

type args = map[string]any

func nodeIntent(amount int, method string, options ...any) nodeCall {
	return nodeCall{"paymentIntents", "create", append([]any{
		args{"amount": amount, "currency": "usd", "payment_method": method, "confirm": true, "metadata": args{"order_id": "6735"}, "expand": []string{"latest_charge"}},
	}, options...)}
}

// stripe-node pays, refunds and reads. Where the entry asks for nothing again, the
// library's own retries find out what was lost, unknown or in use: one movement each.
func TestStripeNode(t *testing.T) {
	stripeNode(t)
	t.Parallel()
	w := startWorld(t, nil, func(c *node.ClusterConfig) { c.Limits.AskAgain = 0 })
	l := startLossy(t, w, us)
	done := func(made []nodeMade) nodeMade {
		t.Helper()
		require.Nil(t, made[0].Error, "%+v", made[0].Error)
		require.Equal(t, http.StatusOK, made[0].Status)
		require.NotEmpty(t, made[0].RequestID)
		return made[0]
	}
	retried := func() {
		t.Helper()
		keys := l.sent()
		require.Greater(t, len(keys), 1)
		require.Len(t, slices.Compact(keys), 1, "one call has one key")
		require.NotEmpty(t, keys[0])
	}

	intent := done(viaNode(t, l, false, nodeIntent(2500, "pm_card_visa")))
	require.Equal(t, "payment_intent succeeded", intent.Object.Object+" "+intent.Object.Status)
	require.Equal(t, map[string]string{"order_id": "6735"}, intent.Object.Metadata)
	require.Contains(t, string(intent.Object.LatestCharge), `"object":"charge"`)
	charge := done(viaNode(t, l, false, nodeCall{"charges", "create", []any{args{"amount": 100, "currency": "usd", "source": "pm_card_visa"}}}))
	read := done(viaNode(t, l, false, nodeCall{"paymentIntents", "retrieve", []any{charge.Object.PaymentIntent}}))
	require.Equal(t, `"`+charge.Object.ID+`"`, string(read.Object.LatestCharge))
	w.judge.once(t, 2)

	l.fates(losesRequest, losesReply)
	refund := done(viaNode(t, l, false, nodeCall{"refunds", "create", []any{args{"payment_intent": intent.Object.ID, "amount": 500, "reason": "duplicate"}}}))
	require.Equal(t, "true", refund.Replayed)
	require.Equal(t, intent.Object.ID, refund.Object.PaymentIntent)
	retried()
	w.judge.once(t, 3)
	reads := viaNode(t, l, false,
		nodeCall{"charges", "retrieve", []any{refund.Object.Charge, args{"expand": []string{"refunds"}}}},
		nodeCall{"refunds", "list", []any{args{"payment_intent": intent.Object.ID, "limit": 1}}})
	require.EqualValues(t, 500, done(reads[:1]).Object.AmountRefunded)
	require.Equal(t, refund.Object.ID, reads[0].Object.Refunds.Data[0].ID)
	require.Equal(t, "list", done(reads[1:]).Object.Object)
	require.Equal(t, refund.Object.ID, reads[1].Object.Data[0].ID)
	require.False(t, reads[1].Object.HasMore)
	reads = viaNode(t, l, false,
		nodeCall{"paymentIntents", "list", []any{args{"created": args{"gte": 1}, "limit": 1}}},
		nodeCall{"charges", "list", []any{args{"payment_intent": intent.Object.ID}}})
	require.Len(t, done(reads[:1]).Object.Data, 1)
	require.True(t, reads[0].Object.HasMore)
	require.Len(t, done(reads[1:]).Object.Data, 1)
	require.Equal(t, refund.Object.Charge, reads[1].Object.Data[0].ID)

	w.failsOnce(simulator.Faults{DropReply: 1})
	l.fates()
	unknown := nodeIntent(2501, "pm_card_visa", args{"idempotencyKey": "order-16"})
	first := done(viaNode(t, l, false, unknown))
	retried()
	// The retry may have asked the provider itself, before the worker: the next one reads its answer.
	second := done(viaNode(t, l, false, unknown))
	require.Equal(t, "true", second.Replayed)
	require.Equal(t, first.Object, second.Object)
	w.judge.once(t, 4)

	require.NoError(t, w.judge.SetFaults(simulator.Faults{Latency: 2 * w.policy.WaitMax}))
	l.fates()
	shared := nodeIntent(2502, "pm_card_visa", args{"idempotencyKey": "order-17"})
	made := viaNode(t, l, true, shared, shared)
	require.Equal(t, done(made).Object, made[1].Object)
	retried()
	w.judge.once(t, 5)
	require.NoError(t, w.judge.SetFaults(simulator.Faults{}))

	refused := []struct {
		call                           nodeCall
		status                         int
		kind, code, declineCode, param string
	}{
		{nodeIntent(1, "pm_card_insufficient_funds"), 402, "StripeCardError", "card_declined", "insufficient_funds", ""},
		{nodeIntent(1, "pm_card_stolen"), 402, "StripeCardError", "card_declined", "stolen_card", ""},
		{nodeIntent(1, "pm_card_visa", args{"idempotencyKey": "order-17"}), 400, "StripeIdempotencyError", "", "", ""},
		{nodeIntent(0, "pm_card_visa"), 400, "StripeInvalidRequestError", "", "", "amount"},
		{nodeIntent(1, "pm_card_visa", args{"apiKey": "sk_nobody"}), 401, "StripeAuthenticationError", "", "", ""},
		{nodeIntent(1, "pm_card_visa", args{"stripeAccount": "acct_1"}), 400, "StripeInvalidRequestError", "unsupported", "", "Stripe-Account"},
		{nodeCall{"customers", "create", []any{args{"name": "x"}}}, 404, "StripeInvalidRequestError", "", "", ""},
	}
	var calls []nodeCall
	for _, c := range refused {
		calls = append(calls, c.call)
	}
	l.fates()
	for i, m := range viaNode(t, l, false, calls...) {
		c := refused[i]
		require.NotNil(t, m.Error)
		require.NotEmpty(t, m.RequestID)
		got := []any{m.Status, m.Error.Kind, m.Error.Code, m.Error.DeclineCode, m.Error.Param, m.Error.Again}
		require.Equal(t, []any{c.status, c.kind, c.code, c.declineCode, c.param, "false"}, got, m.Error.Message)
	}
	require.Len(t, l.sent(), len(refused), "a refusal is sent once")
	w.judge.once(t, 5)
}
