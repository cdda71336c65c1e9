package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// scraped are the series of a scrape, each with its labels as Prometheus spells them.
type scraped map[string]float64

func (w *world) scrape() scraped {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+w.cluster.MetricsAddr()+"/metrics", nil)
	require.NoError(w.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	require.Equal(w.t, http.StatusOK, resp.StatusCode)
	all := scraped{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		value, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		require.NoError(w.t, err)
		all[lines.Text()[:at]] = value
	}
	return all
}

// moved is one metric with some of its labels, as name=value.
type moved struct {
	of     *meter.Metric
	labels []string
}

func series(of *meter.Metric, labels ...string) moved { return moved{of, labels} }

func (m moved) String() string { return m.of.Name() + " " + strings.Join(m.labels, ",") }

// sum is that of the series that have the labels; of a histogram its count. there reports
// whether there is one.
func (s scraped) sum(m moved) (total float64, there bool) {
	name := m.of.Prometheus()
	if m.of.Kind() == meter.KindHistogram {
		name += "_count"
	}
series:
	for series, value := range s {
		if rest, ok := strings.CutPrefix(series, name); !ok || rest != "" && rest[0] != '{' {
			continue
		}
		for _, l := range m.labels {
			k, v, _ := strings.Cut(l, "=")
			if !strings.Contains(series, `homeward_`+k+`="`+v+`"`) {
				continue series
			}
		}
		total, there = total+value, true
	}
	return total, there
}

// moves does something, and waits until each of these has grown since.
func (w *world) moves(what string, do func(), all ...moved) {
	w.t.Helper()
	before := w.scrape()
	do()
	for _, m := range all {
		was, _ := before.sum(m)
		until(w.t, what+" moves "+m.String(), func() bool {
			is, _ := w.scrape().sum(m)
			return is > was
		})
	}
}

// is waits until a gauge is at a value.
func (w *world) is(m moved, value float64) {
	w.t.Helper()
	until(w.t, fmt.Sprint(m, " is ", value), func() bool {
		is, there := w.scrape().sum(m)
		return there && is == value
	})
}

// startMeasured starts a cluster with scraped metrics.
func startMeasured(t *testing.T) *world {
	t.Helper()
	return startNoticed(t, func(c *node.ClusterConfig) {
		c.MetricsListen, c.FiguresEvery, c.Events.Log = "127.0.0.1:0", 50*time.Millisecond, true
		c.Policy.WaitMax = 5 * time.Second
	})
}

// TestMetricsMove: each action moves its metrics, under the catalogue's names.
func TestMetricsMove(t *testing.T) {
	t.Parallel()
	w := startMeasured(t)
	first := charge("first", 100)
	w.moves("a charge", func() { w.at(us, first, http.StatusCreated) },
		series(meter.Requests, "operation=charge", "outcome=succeeded", "home="+us, "path=local", "region="+us),
		series(meter.TenantRequests, "outcome=succeeded"), series(meter.LayerDuration, "path=local"), series(meter.HTTPDuration),
		series(meter.Claims, "decision=won"), series(meter.Settled, "state=completed", "operation=charge"), series(meter.Pins, "outcome=here"),
		series(meter.ProviderDuration, "provider=simulator", "call=charge", "outcome=approved"),
		series(meter.HandleDuration, "kind=event_log", "outcome=done"))
	if onSQL() {
		w.moves("a charge", func() { w.at(us, charge("rows", 100), http.StatusCreated) }, series(meter.DBDuration), series(meter.BatchSize))
		for _, m := range []moved{series(meter.DBConnections), series(meter.DBConnectionsMax), series(meter.PoolCalls), series(meter.PoolWaits)} {
			_, there := w.scrape().sum(m)
			require.True(t, there, m)
		}
	} else {
		w.moves("a charge", func() { w.at(us, charge("rows", 100), http.StatusCreated) }, series(meter.Syncs), series(meter.SyncTime))
	}
	w.moves("a retry at home", func() { w.at(us, first, http.StatusCreated) },
		series(meter.Requests, "outcome=replayed", "path=local"), series(meter.Claims, "decision=replay"))
	w.moves("a retry elsewhere", func() {
		until(t, "a replica has it", func() bool {
			w.at(eu, first, http.StatusCreated)
			is, _ := w.scrape().sum(series(meter.Requests, "outcome=replayed", "path=replica", "region="+eu))
			return is > 0
		})
	}, series(meter.LayerDuration, "path=replica"))
	w.moves("another request", func() { w.at(us, charge("first", 101), http.StatusUnprocessableEntity) },
		series(meter.Mismatches), series(meter.Requests, "outcome=mismatch"), series(meter.Claims, "decision=mismatch"))
	w.moves("a forward", func() { w.at(us, charge(stamped(t, eu), 100), http.StatusCreated) },
		series(meter.ForwardDuration, "home="+eu, "call=execute", "outcome=answered"), series(meter.LayerDuration, "path=home", "region="+eu),
		series(meter.LayerDuration, "path=forward"), series(meter.Requests, "path=forward", "home="+eu))
	w.moves("twins", func() {
		n := 0
		until(t, "they meet", func() bool { // the second may come too late
			n++
			w.twins(fmt.Sprint("twin", n))
			is, _ := w.scrape().sum(series(meter.Conflicts))
			return is > 0
		})
	}, series(meter.Conflicts, "outcome=answered"), series(meter.WaitDuration))
	soft := request{acme, "/v1/charges", "soft", `{"amount":100,"currency":"usd","payment_method":"pm_card_insufficient_funds"}`, ""}
	w.moves("a soft decline", func() { w.at(us, soft, http.StatusPaymentRequired) },
		series(meter.Settled, "state=failed_retry"), series(meter.Requests, "outcome=released"), series(meter.ProviderDuration, "outcome=declined"))
	w.moves("the next try", func() {
		until(t, "it is tried again", func() bool {
			w.at(us, soft, http.StatusPaymentRequired)
			is, _ := w.scrape().sum(series(meter.Generations))
			return is > 0
		})
	}, series(meter.Claims, "decision=won"))
	w.regionFigures()
	w.unknownOutcome()
	w.ghostMoney()
	w.parkedRow()
}

// twins are two requests of a key, of which the second finds the first under way, and waits for
// it unless the machine is so busy that it has waited long enough before anybody sees it.
func (w *world) twins(key string) {
	held := w.judge.hold(w.t)
	one := w.later(us, charge(key, 100))
	<-held.entered
	w.is(series(meter.InHand, "by=api", "region="+us), 1)
	two := w.later(us, charge(key, 100))
	waits := false
	until(w.t, "the twin waits or has waited", func() bool {
		is, _ := w.scrape().sum(series(meter.InHand, "by=api", "region="+us))
		waits = is == 2
		return waits || len(two) > 0
	})
	held.release()
	require.Equal(w.t, http.StatusCreated, receive(w.t, "the first", one).Status)
	if twin := receive(w.t, "its twin", two); waits {
		require.Contains(w.t, []int{http.StatusCreated, http.StatusConflict}, twin.Status)
	}
	w.judge.SetHooks(simulator.Hooks{})
}

// regionFigures are there whatever happens.
func (w *world) regionFigures() {
	for _, r := range regions {
		w.is(series(meter.RegionNodes, "region="+us, "peer="+r), 1)
		w.is(series(meter.RegionLost, "region="+us, "peer="+r), 0)
		w.is(series(meter.RegionStatus, "region="+us, "peer="+r, "state=active"), 1)
	}
	w.is(series(meter.VersionNodes, "region="+us, "version="+build.Version()), float64(len(regions)))
	w.is(series(meter.Circuit, "region="+us, "provider=simulator", "state=closed"), 1)
	now := w.scrape()
	for _, m := range []moved{series(meter.TopologyEpoch), series(meter.TopologyAge), series(meter.ClockOffset), series(meter.Collected)} {
		_, there := now.sum(m)
		require.True(w.t, there, m)
	}
	offset, _ := now.sum(series(meter.ClockOffset, "region="+us))
	require.InDelta(w.t, 0, offset, 2)
}

// unknownOutcome: a provider that does not answer, and then does.
func (w *world) unknownOutcome() {
	require.NoError(w.t, w.judge.SetFaults(simulator.Faults{ErrorBefore: 1}))
	lost := charge("lost", 100)
	w.moves("no answer", func() { w.at(us, lost, http.StatusServiceUnavailable) },
		series(meter.Requests, "outcome=unknown"), series(meter.Settled, "state=in_flight"), series(meter.ProviderDuration, "outcome=unknown"),
		series(meter.UnknownOpen, "home="+us), series(meter.UnknownAge, "home="+us), series(meter.OutboxPending, "home="+us, "queue=provider_calls"))
	w.moves("recovery", func() { require.NoError(w.t, w.judge.SetFaults(simulator.Faults{})) },
		series(meter.TakeOvers, "by=recovery"), series(meter.HandleDuration, "kind=provider_call"))
	w.is(series(meter.UnknownOpen, "home="+us), 0)
	w.is(series(meter.UnknownAge, "home="+us), 0)
}

// ghostMoney: a declined charge is paid at the provider after all, and reported.
func (w *world) ghostMoney() {
	refused := w.at(us, request{acme, "/v1/charges", "ghost", `{"amount":700,"currency":"usd","payment_method":"pm_card_stolen"}`, ""}, http.StatusPaymentRequired)
	object := w.object("ghost")
	require.NotNil(w.t, refused)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, w.judge.url+"/v1/charges", strings.NewReader(
		fmt.Sprintf(`{"amount":700,"currency":"usd","source":"pm_card_visa","reference":%q}`, object)))
	require.NoError(w.t, err)
	req.Header.Set("Idempotency-Key", "by-hand")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	require.Equal(w.t, http.StatusOK, resp.StatusCode, "%s", body)
	said := fmt.Sprintf(`{"id":"evt_ghost","type":"charge.succeeded","created":1,"data":%s}`, strings.TrimSpace(string(body)))
	post := func() {
		r := w.notice(w.ctx, us, "simulator", signedNotice(w.t, "evt_ghost", said, time.Now()), strings.NewReader(said))
		require.Equal(w.t, http.StatusOK, r.Status, "%s", r.Body)
	}
	w.moves("a ghost", post, series(meter.Notices, "verdict=kept"), series(meter.Ghosts, "provider=simulator"),
		series(meter.Compensations, "state=compensated"), series(meter.CompensationDuration), series(meter.NoticesClosed, "state=processed_compensated"))
	w.moves("its notice again", post, series(meter.Notices, "verdict=duplicate"))
	w.moves("a forgery", func() { w.notice(w.ctx, us, "simulator", http.Header{}, strings.NewReader(said)) }, series(meter.Notices, "verdict=forged"))
}

// object is the id of what a key's claim is about.
func (w *world) object(key string) string {
	s, err := w.inspect(w.ctx, us, acme, key)
	require.NoError(w.t, err)
	return s.Object
}

// parkedRow: a notice without a record is parked, and a brake is set.
func (w *world) parkedRow() {
	const said = `{"id":"evt_x","type":"charge.succeeded","created":1,"data":{"id":"psp_x","status":"succeeded","reference":"nobody's","amount":1,"currency":"usd","created":1}}`
	w.moves("a notice of nothing", func() {
		w.notice(w.ctx, us, "simulator", signedNotice(w.t, "evt_x", said, time.Now()), strings.NewReader(said))
	}, series(meter.OutboxParked, "queue="+string(outbox.Notices), "kind=notice"))
	changed, err := notice.Stop(context.Background(), w.cluster.DB, "simulator", "a test")
	require.NoError(w.t, err)
	require.True(w.t, changed)
	w.is(series(meter.BrakeHeld, "region="+us, "provider=simulator"), 1)
	_, err = notice.Release(context.Background(), w.cluster.DB, "simulator", nil)
	require.NoError(w.t, err)
	w.is(series(meter.BrakeHeld, "region="+us, "provider=simulator"), 0)
}
