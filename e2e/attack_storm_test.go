package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/ledger"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

func TestAttackStorm(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("ATTACK_SEED"); s != "" {
		n, _ := strconv.Atoi(s)
		seed = uint64(n)
	}
	t.Log("seed", seed)
	for name, c := range map[string]struct {
		caps psp.Capabilities
		sim  simulator.Config
		f    simulator.Faults
	}{
		"all":    {psp.Capabilities{Dedupe: psp.DedupeKeyAndParameters, Lookup: true, SettleWindow: 50 * time.Millisecond}, simulator.Config{}, simulator.Faults{ErrorBefore: .1, ErrorAfter: .15, DropReply: .15, LateEffect: .15, LateBy: 900 * time.Millisecond}},
		"dedupe": {psp.Capabilities{Dedupe: psp.DedupeKey, SettleWindow: 50 * time.Millisecond}, simulator.Config{NoLookup: true}, simulator.Faults{ErrorBefore: .1, ErrorAfter: .15, DropReply: .15, LateEffect: .15, LateBy: 900 * time.Millisecond}},
		"lookup": {psp.Capabilities{Lookup: true, SettleWindow: 400 * time.Millisecond}, simulator.Config{IgnoreKeys: true}, simulator.Faults{ErrorBefore: .1, ErrorAfter: .2, DropReply: .2}},
		"none":   {psp.Capabilities{SettleWindow: 50 * time.Millisecond}, simulator.Config{IgnoreKeys: true, NoLookup: true}, simulator.Faults{ErrorAfter: .2, DropReply: .2, LateEffect: .1, LateBy: 900 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudgeOf(t, c.sim)
			p, err := httpjson.New(httpjson.Config{Name: "simulator", BaseURL: j.url, Webhooks: httpjson.Webhooks{Secret: noticeSecret}, Capabilities: c.caps})
			require.NoError(t, err)
			t.Cleanup(func() { _ = p.Close() })
			w := startWorldOn(t, newBackend(t), j, func(cc *node.ClusterConfig) {
				cc.Provider, cc.Notifiers = p, map[string]psp.Notifier{"simulator": p}
				cc.Events = toldByWebhook()
				cc.Events.Webhooks.On = false
				cc.Events.Log = true
				cc.Policy.MaxUnknowns = 4
			})
			hooks := simulator.Webhooks{Duplicate: .5, Jitter: 1500 * time.Millisecond, RetryAfter: 50 * time.Millisecond, Seed: seed}
			for _, r := range []string{eu, asia} {
				hooks.Targets = append(hooks.Targets, simulator.WebhookTarget{URL: w.base(r) + "/v1/webhooks/simulator", Secret: noticeSecret})
			}
			require.NoError(t, j.SetWebhooks(hooks))
			c.f.Seed, c.f.Jitter = seed, 600*time.Millisecond
			require.NoError(t, j.SetFaults(c.f))
			rng := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			var owed int64
			var wg sync.WaitGroup
			const n = 80
			for i := range n {
				method := []string{"pm_card_visa", "pm_card_visa", "pm_card_insufficient_funds_once", "pm_card_insufficient_funds"}[rng.IntN(4)]
				amount := 100 + i
				exp := ""
				if rng.IntN(3) == 0 {
					exp = fmt.Sprintf(`,"expires_at":%q`, time.Now().Add(time.Duration(rng.IntN(2000))*time.Millisecond).Format(time.RFC3339Nano))
				}
				q := request{acme, "/v1/charges", fmt.Sprintf("k%d", i), fmt.Sprintf(`{"amount":%d,"currency":"usd","payment_method":%q%s}`, amount, method, exp), ""}
				if rng.IntN(2) == 0 {
					q.key = stamped(t, regions[rng.IntN(len(regions))])
				}
				refund := rng.IntN(3)
				wg.Go(func() {
					answers := make(chan *reply, 2)
					for _, r := range []string{regions[i%3], regions[(i+1)%3]} {
						go func() { answers <- w.settle(w.ctx, r, q, nil) }()
					}
					a, b := <-answers, <-answers
					if a.remembered() != b.remembered() {
						t.Errorf("answers differ: %v and %v", a, b)
					}
					if a.status != http.StatusCreated {
						return
					}
					mu.Lock()
					owed += int64(amount)
					mu.Unlock()
					back := amount
					body := fmt.Sprintf(`{"charge":%q}`, a.id(t))
					switch refund {
					case 0:
						return
					case 1:
						back = 40
						body = fmt.Sprintf(`{"charge":%q,"amount":40}`, a.id(t))
					}
					rq := request{acme, "/v1/refunds", q.key + "r", body, ""}
					if strings.Contains(q.key, "-") {
						rq.key = stamped(t, eu)
					}
					rr := w.settle(w.ctx, regions[(i+2)%3], rq, nil)
					if rr.status == http.StatusCreated {
						mu.Lock()
						owed -= int64(back)
						mu.Unlock()
					} else {
						t.Logf("refund: %v", rr)
					}
				})
			}
			wg.Wait()
			require.NoError(t, j.SetFaults(simulator.Faults{}))
			j.ReleaseLate()
			s, err := w.cluster.DB.Region(us)
			require.NoError(t, err)
			calm := func(quiet bool) bool {
				for _, q := range []outbox.Queue{outbox.Notices, outbox.ProviderCalls, outbox.Events, outbox.Expiries} {
					for _, r := range regions {
						d, err := s.Queue(q).Depth(w.ctx, r)
						require.NoError(t, err)
						if d.Pending > 0 {
							return false
						}
					}
				}
				return true
			}
			end := time.Now().Add(60 * time.Second)
			for calmly := 0; calmly < 20 && time.Now().Before(end); {
				if st := j.WebhookStats(); calm(true) && st.Pending == 0 {
					calmly++
				} else {
					calmly = 0
				}
				time.Sleep(50 * time.Millisecond)
			}
			for _, q := range outbox.AllQueues() {
				for _, r := range regions {
					rows, err := s.Queue(q).Parked(w.ctx, r, "", 100)
					require.NoError(t, err)
					for _, m := range rows {
						t.Logf("parked %s %s: %s", q, m.ID, m.LastError)
					}
					d, _ := s.Queue(q).Depth(w.ctx, r)
					if d.Pending > 0 {
						t.Logf("pending %s %s: %+v", q, r, d)
					}
				}
			}
			var ghosts, back, charges int
			var held, merchant, suspense, moved int64
			for _, r := range regions {
				all, err := s.Transactions(w.ctx, r, ledger.Position{}, time.Time{}, 10000)
				require.NoError(t, err)
				for _, x := range all {
					switch x.Kind {
					case ledger.Ghost:
						ghosts++
					case ledger.GhostRefund:
						back++
					case ledger.Charge:
						charges++
					}
					for a, v := range map[ledger.Account]int64{x.Debit: x.Amount, x.Credit: -x.Amount} {
						switch {
						case strings.HasPrefix(string(a), "provider:"):
							held += v
						case strings.HasPrefix(string(a), "merchant:"):
							merchant -= v
						default:
							suspense += v
						}
					}
				}
				rows, err := s.Settled(w.ctx, r, claim.Key{}, 10000)
				require.NoError(t, err)
				for _, rec := range rows {
					if rec.State == claim.Completed && rec.Operation == "charge" {
						if x, ok, _ := s.Transaction(w.ctx, r, rec.Minted.ID); !ok || x.ProviderRef != rec.ProviderRef {
							t.Errorf("%s completed and not booked", rec.Minted.ID)
						}
					}
				}
			}
			for _, e := range j.Effects() {
				if e.Kind == psp.KindCharge {
					moved += e.Amount
				} else {
					moved -= e.Amount
				}
			}
			sum, _ := json.Marshal(j.Stats())
			t.Logf("charges %d ghosts %d back %d; moved %d held %d merchant %d owed %d suspense %d; %s", charges, ghosts, back, moved, held, merchant, owed, suspense, sum)
			require.Equal(t, owed, merchant, "what merchants were told, and what is booked for them")
			require.Equal(t, moved, held)
			require.Zero(t, suspense)
		})
	}
}
