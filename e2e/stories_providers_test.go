package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// speaker is a provider's adapter.
type speaker interface {
	psp.Provider
	psp.Notifier
	Close() error
}

func (w *story) provider(j *judge, name string, s setting) (p speaker) {
	w.t.Helper()
	var err error
	switch {
	case s.stripe:
		p, err = stripe.New(stripe.Config{Name: name, Key: "sk_test_tale", WebhookSecret: noticeSecret, BaseURL: j.url + "/stripe"})
	case s.adyen:
		p, err = atAdyen(name, j.url)
	default:
		p, err = httpjson.New(httpjson.Config{
			Name: name, BaseURL: j.url, Capabilities: s.caps, Client: s.client, Notices: httpjson.Notices{Secret: noticeSecret},
		})
	}
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// addOthers gives a story's cluster the providers beside the first.
func (w *story) addOthers(c *node.ClusterConfig, s setting) {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.others)) {
		p, err := httpjson.New(httpjson.Config{
			Name: name, BaseURL: s.others[name].url, Capabilities: s.caps, Notices: httpjson.Notices{Secret: noticeSecret},
		})
		require.NoError(w.t, err)
		w.t.Cleanup(func() { _ = p.Close() })
		c.Providers = append(c.Providers, p)
		c.Notifiers[name] = p
	}
	if s.failover != "" {
		c.Failover = map[string]payment.Failover{c.Providers[0].Name(): {To: s.failover}}
	}
}

// held is what two names of providers have in the books, together.
func (w *story) held(b ...*books) (sum word) {
	sum = word{}
	for _, one := range b {
		for currency, y := range one.ledger {
			if sum[currency] == nil {
				sum[currency] = tally{}
			}
			for k, m := range y {
				sum[currency][k] = moves{sum[currency][k].n + m.n, sum[currency][k].amount + m.amount}
			}
		}
	}
	return sum
}

// An operator gives the provider another name. A charge is open under the old one, so the nodes do
// not start, and print why. With both names they start: charges under the old name end and are
// refunded there, while new ones have the new name. Then the operator can remove the old name.
func renamedProvider(w *story) {
	const older = "older"
	rows, dir, j := newBackendOn(w.t, w.on), w.t.TempDir(), newJudge(w.t)
	caps := capable
	caps.Timeout, caps.SettleWindow = 5*time.Second, 50*time.Millisecond
	w.beginOn(rows, dir, j, older, setting{caps: caps})
	first := w.everywhere(charge("order-1", 20000), http.StatusCreated)
	w.faults(simulator.Faults{ErrorBefore: 1})
	open := charge("order-2", 30000)
	w.unknown(us, open)
	require.NoError(w.t, w.cluster.Stop(w.ctx))
	w.faults(simulator.Faults{})

	p, err := httpjson.New(httpjson.Config{Name: judged, BaseURL: j.url, Capabilities: caps})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	c := clusterConfig(dir, p, rows)
	_, err = node.StartCluster(w.ctx, c)
	require.ErrorContains(w.t, err, "(older: 1 claims, 0 refunds and 0 ghosts)")
	w.note("%s", err)

	both := setting{caps: caps, others: map[string]*judge{older: j}}
	w.beginOn(rows, dir, j, judged, both)
	w.replays(charge("order-1", 20000), first)
	second := w.everywhere(open, http.StatusCreated)
	require.Contains(w.t, string(second.Body), `"provider":{"name":"older"`)
	third := w.everywhere(charge("order-3", 40000), http.StatusCreated)
	require.Contains(w.t, string(third.Body), `"provider":{"name":"simulator"`)
	back := w.everywhere(refund("refund-1", objectID(w.t, first), 5000), http.StatusCreated)
	require.Contains(w.t, string(back.Body), `"provider":{"name":"older"`)
	named := charge("order-4", 100)
	named.body = strings.Replace(named.body, `{`, `{"provider":"older",`, 1)
	require.Contains(w.t, string(w.everywhere(named, http.StatusCreated).Body), `"provider":{"name":"older"`)
	w.quiet()
	require.NoError(w.t, w.cluster.Stop(w.ctx))

	w.beginOn(rows, dir, j, judged, setting{caps: caps})
	w.replays(open, second)
	w.replays(named, w.everywhere(named, http.StatusCreated))
	w.quiet()
	j.once(w.t, 5)
	was, is := w.read(j, older), w.read(j, judged)
	w.show(w.shown(is))
	require.Equal(w.t, is.simulator, w.held(was, is), "what the provider moved, and what both names have booked")
	require.Equal(w.t, is.simulator, is.statement)
	require.True(w.t, is.verified.OK(), "%v", is.verified.Failures)
	require.Equal(w.t, "charge COMPLETED 4, refund COMPLETED 1", is.statesShown())
}

// One of two providers is down. Its begun payments stay with it until it is back, as it may have
// moved money. Once its circuit is open the node sends it nothing, and the other provider makes new
// payments. No payer pays twice, and the books of each agree with it.
func oneOfTwoDown(w *story) {
	const other = "other"
	caps := capable
	caps.Timeout, caps.SettleWindow = 5*time.Second, 50*time.Millisecond
	second := newJudge(w.t)
	w.begin(setting{caps: caps, others: map[string]*judge{other: second}, failover: other})
	healthy := w.everywhere(charge("order-0", 500), http.StatusCreated)
	w.faults(simulator.Faults{ErrorBefore: 1})
	var all []request
	var answers []func(int) *answer.Answer
	for i := range 30 {
		q := charge(stamped(w.t, us), 1000+i)
		all, answers = append(all, q), append(answers, w.retrying(q))
	}
	until(w.t, "us has opened its circuit", func() bool {
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, "provider circuit changed") && strings.Contains(line, "region="+us) && strings.Contains(line, "to=open") {
				return true
			}
		}
		return false
	})
	w.judge.once(w.t, 1)
	before := second.Stats().Effects
	fresh := charge(stamped(w.t, us), 99)
	made := w.everywhere(fresh, http.StatusCreated)
	require.Contains(w.t, string(made.Body), `"provider":{"name":"other"`)
	require.Greater(w.t, second.Stats().Effects, before)
	named := charge(stamped(w.t, us), 98)
	named.body = strings.Replace(named.body, `{`, `{"provider":"simulator",`, 1)
	w.unknown(us, named)
	all, answers = append(all, named), append(answers, w.retrying(named))

	w.faults(simulator.Faults{})
	objects := map[string]bool{objectID(w.t, healthy): true, objectID(w.t, made): true}
	for i, q := range all {
		first := answers[i](http.StatusCreated)
		w.replays(q, first)
		objects[objectID(w.t, first)] = true
	}
	back := w.everywhere(refund("refund-1", objectID(w.t, made), 0), http.StatusCreated)
	require.Contains(w.t, string(back.Body), `"provider":{"name":"other"`, "a refund goes to its charge's provider")
	w.quiet()
	require.Len(w.t, objects, len(all)+2)
	charges := 0
	for name, j := range map[string]*judge{judged: w.judge, other: second} {
		b := w.read(j, name)
		b.agree(w, name)
		require.Empty(w.t, b.mismatches)
		require.Zero(w.t, j.Stats().DuplicateEffects+j.Stats().KeyReuses)
		for _, y := range b.simulator {
			charges += y["charge"].n
		}
		w.show(w.shown(b))
	}
	require.Equal(w.t, len(objects), charges, "each charge was made once over both")
}
