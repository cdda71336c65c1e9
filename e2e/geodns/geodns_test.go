package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/child"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	us, eu, asia = "us-east1", "europe-west1", "asia-northeast1"
	// powerDNSEnv is for a missing PowerDNS: "required" makes it a failure.
	powerDNSEnv = "HOMEWARD_TEST_POWERDNS"
	// patience bounds every wait; it is only spent when a test fails.
	patience = time.Minute
	// enough payments of a merchant show where it goes.
	enough = 5
)

// nearest are the regions in the order of their distance from each customer, as a globe has it: the
// test's own computation against PowerDNS'.
var nearest = map[string][]string{
	"São Paulo": {us, eu, asia},
	"Denver":    {us, eu, asia},
	"Frankfurt": {eu, us, asia},
	"Nairobi":   {eu, asia, us},
	"Sydney":    {asia, us, eu},
}

// needsPowerDNS skips a test where there is none.
func needsPowerDNS(t *testing.T) {
	t.Helper()
	if _, err := findPowerDNS(t.Context()); err != nil {
		if os.Getenv(powerDNSEnv) == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// TestMerchantsFollowDNS has merchants in five places pay through DNS alone while a region
// is drained and put back, and another one lost and brought back. Each gets the nearest
// region that is ready, and each payment moves money once.
func TestMerchantsFollowDNS(t *testing.T) {
	if testing.Short() {
		t.Skip("a drain and a loss of a cluster of processes under load")
	}
	needsPowerDNS(t)
	data := startCluster(t)
	state, err := lab.ReadState(data)
	require.NoError(t, err)
	w := newWorld(t, state)
	w.comesBack("at the start", func() error { return nil })

	var drains bytes.Buffer
	w.moves("europe-west1 drained", eu, func() error {
		return state.Means().Drain(t.Context(), eu, func(line string) { fmt.Fprintln(&drains, line) })
	})
	require.Contains(t, drains.String(), "safe to take down")
	w.homesElsewhere(eu)
	w.comesBack("europe-west1 undrained", func() error { return state.Means().Undrain(t.Context(), eu, func(string) {}) })

	w.moves("us-east1 lost", us, w.each(us, state.Means().Kill))
	w.comesBack("us-east1 back", w.each(us, state.Means().Start))

	w.judge()
	w.showsIt(data)
}

// startCluster starts a homeward cluster on PostgreSQL with outages of seconds, and returns its
// directory.
func startCluster(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "homeward")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/homeward").CombinedOutput()
	require.NoError(t, err, "%s", out)
	dir := dbtest.Dir(t)
	data := filepath.Join(dir, "data")
	log, err := child.OpenLog(filepath.Join(dir, "cluster.log"), false)
	require.NoError(t, err)
	cmd := exec.Command(binary, "cluster", "--start", "postgresql", "--data", data, "--listen", "127.0.0.1:"+strconv.Itoa(freePorts(t, 10)), "--nodes-per-region", "1", "--psp-latency", "20ms")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOMEWARD_") }),
		"HOMEWARD_DEPUTY_AFTER=2s", "HOMEWARD_OUTBOX__LEASE=5s", "HOMEWARD_CLAIM__LEASE=5s", "HOMEWARD_CLAIM__RENEW_EVERY=1500ms")
	cmd.Stdout = log
	p, err := child.Start(cmd, log, syscall.SIGKILL)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Signal(os.Interrupt); err != nil || !p.Wait(ctx) {
			t.Errorf("the cluster did not end: %v; %v", err, p.Kill())
		}
		if t.Failed() {
			t.Log(log.Tail(40))
		}
	})
	until(t, "the cluster runs", func() bool {
		if !p.Alive() && strings.Contains(log.Tail(40), localdb.ErrNotFound.Error()) && os.Getenv("HOMEWARD_TEST_DATABASE") != "required" {
			t.Skip(log.Tail(40))
		}
		require.True(t, p.Alive(), "the cluster ended%s", log.Tail(40))
		// The state is written once more when drills can act on it.
		s, err := lab.ReadState(data)
		return err == nil && s.Control != ""
	})
	return data
}

// until waits for what gives no signal.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(lookEvery) {
		require.True(t, time.Now().Before(end), "not within %v: %s", patience, what)
	}
}

// freePorts finds consecutive ones below those that the system hands out, so that they are
// still free after a restart, at every region's address.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for i := range 100 {
		first := 27000 + (os.Getpid()*13+i*n)%(3000-n)
		taken := slices.ContainsFunc([]string{"127.0.0.1", "127.0.1.1", "127.0.2.1", "127.0.3.1"}, func(host string) bool {
			for port := range n {
				l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, first+port))
				if err != nil {
					return true
				}
				_ = l.Close()
			}
			return false
		})
		if !taken {
			return first
		}
	}
	require.FailNow(t, "no free ports")
	return 0
}

// world is a cluster behind geo-DNS, and merchants who pay.
type world struct {
	t         *testing.T
	state     *lab.State
	front     *front
	merchants []*merchant
	stop      chan struct{}
	working   sync.WaitGroup
	errs      chan error
	amount    atomic.Int64
}

func newWorld(t *testing.T, state *lab.State) *world {
	t.Helper()
	o := options{listen: "127.0.0.1:" + strconv.Itoa(freePorts(t, 1)), port: freePorts(t, 2) + 1, ttl: time.Second}
	f, err := startFront(t.Context(), o, state)
	t.Cleanup(func() { require.NoError(t, f.stop(context.Background())) })
	require.NoError(t, err)
	w := &world{t: t, state: state, front: f, stop: make(chan struct{}), errs: make(chan error, len(customers))}
	w.amount.Store(1000)
	for _, c := range customers {
		m := &merchant{customer: c, front: f, port: o.port, entered: map[string]int{}}
		w.merchants = append(w.merchants, m)
		w.working.Go(func() {
			if err := m.work(t.Context(), w.stop, func() int64 { return w.amount.Add(1) }); err != nil {
				w.errs <- err
			}
		})
	}
	return w
}

func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	until(w.t, what, func() bool {
		select {
		case err := <-w.errs:
			require.NoError(w.t, err)
		default:
		}
		return is()
	})
}

// everybodyAt does something, and waits until each customer is sent to a region, alone, and has
// paid there. It returns how long the answer took to change since the order, and the slowest
// payment until then.
func (w *world) everybodyAt(when string, do func() error, region func(place string) string) {
	w.t.Helper()
	began, before, felt := time.Now(), map[string]int{}, map[string]string{}
	done := make(chan error, 1)
	go func() { done <- do() }()
	w.until("the answers, "+when, func() bool {
		return !slices.ContainsFunc(customers, func(c customer) bool {
			got, err := w.front.sentTo(w.t.Context(), c)
			return err != nil || got != region(c.name)
		})
	})
	changed := time.Since(began)
	for _, m := range w.merchants {
		before[m.name] = m.enteredAt(region(m.name))
	}
	for _, m := range w.merchants {
		w.until(fmt.Sprintf("%s pays at %s, %s", m.name, region(m.name), when), func() bool {
			return m.enteredAt(region(m.name)) >= before[m.name]+enough
		})
		felt[m.name] = m.felt().Round(time.Millisecond).String()
	}
	require.NoError(w.t, <-done, when)
	w.t.Logf("%s: the answer changed after %v; slowest payment of each: %v", when, changed.Round(time.Millisecond), felt)
}

// moves takes a region away and waits until its customers are where they go without it,
// and no others have moved.
func (w *world) moves(when, away string, do func() error) {
	w.t.Helper()
	w.everybodyAt(when, do, func(place string) string {
		return slices.DeleteFunc(slices.Clone(nearest[place]), func(r string) bool { return r == away })[0]
	})
}

func (w *world) comesBack(when string, do func() error) {
	w.t.Helper()
	w.everybodyAt(when, do, func(place string) string { return nearest[place][0] })
}

// each does something to all nodes of a region.
func (w *world) each(region string, do func(context.Context, string) error) func() error {
	return func() error {
		var errs []error
		for _, n := range w.state.Nodes {
			if n.Region == region {
				errs = append(errs, do(w.t.Context(), n.Name))
			}
		}
		return errors.Join(errs...)
	}
}

// homesElsewhere checks the latest payments of each merchant: none is at home in a region
// that is drained.
func (w *world) homesElsewhere(drained string) {
	w.t.Helper()
	for _, m := range w.merchants {
		m.mu.Lock()
		p := m.payment[len(m.payment)-1]
		m.mu.Unlock()
		require.NotEqual(w.t, drained, p.home, m.name)
		require.NotEmpty(w.t, p.home)
	}
}

// judge ends the load, asks for every payment once more from another place, and compares
// with what the provider has moved.
func (w *world) judge() {
	w.t.Helper()
	close(w.stop)
	w.working.Wait()
	select {
	case err := <-w.errs:
		require.NoError(w.t, err)
	default:
	}
	moved := effects(w.t, w.state.Simulator)
	payments, repeats := 0, 0
	for i, m := range w.merchants {
		elsewhere := w.merchants[(i+1)%len(w.merchants)]
		repeats += m.repeats
		for _, p := range m.payment {
			var at resolved
			_, err := elsewhere.pay(w.t.Context(), &p, &at)
			require.NoError(w.t, err, "key %s", p.key)
			var made struct{ ID string }
			require.NoError(w.t, json.Unmarshal([]byte(p.body), &made))
			require.Equal(w.t, []string{made.ID}, moved[p.amount], "key %s of %s", p.key, m.name)
			payments++
		}
	}
	require.Equal(w.t, moved, effects(w.t, w.state.Simulator), "asking again has moved money")
	require.Len(w.t, moved, payments, "money moved for no payment")
	require.Positive(w.t, repeats, "no customer had to retry: nothing was lost")
	w.t.Logf("%d payments, %d of them sent again, money moved %d times", payments, repeats, len(moved))
}

// effects are the references under which money moved, by amount.
func effects(t *testing.T, simulator string) map[int64][]string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, simulator+"/_sim/effects", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	all := map[int64][]string{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		var e struct {
			Reference string
			Amount    int64
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		all[e.Amount] = append(all[e.Amount], e.Reference)
	}
	http.DefaultClient.CloseIdleConnections()
	return all
}

// showsIt runs the command on the cluster: it prints what to type, and ends on a signal.
func (w *world) showsIt(data string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	out := &safeBuffer{}
	ended := make(chan error, 1)
	listen := "127.0.0.1:" + strconv.Itoa(freePorts(w.t, 3)+2)
	go func() {
		ended <- run(ctx, []string{"-cluster", data, "-listen", listen, "-port", strconv.Itoa(freePorts(w.t, 5) + 4), "-ttl", "2s"}, out)
	}()
	until(w.t, "it prints what to type", func() bool { return strings.Contains(out.String(), "Ctrl-C") })
	host, port, _ := strings.Cut(listen, ":")
	for _, c := range customers {
		require.Contains(w.t, out.String(), fmt.Sprintf("dig @%s -p %s api.homeward.test +short +subnet=%s", host, port, c.subnet))
	}
	cancel()
	require.NoError(w.t, <-ended)
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestEntrance: connections go to the nodes that are ready, to any when none is, and end
// when none lives.
func TestEntrance(t *testing.T) {
	ready := map[string]*atomic.Bool{"a": {}, "b": {}}
	var nodes []string
	var servers []*httptest.Server
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" && !ready[name].Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(rw, name)
		}))
		t.Cleanup(s.Close)
		servers, nodes = append(servers, s), append(nodes, s.Listener.Addr().String())
	}
	b, err := enter("127.0.0.1:0", nodes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.close()) })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resolved := func() string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.Addr()+"/", nil)
		require.NoError(t, err)
		res, err := client.Do(req)
		if err != nil {
			return "no answer"
		}
		defer func() { require.NoError(t, res.Body.Close()) }()
		text, err := bufio.NewReader(res.Body).ReadString(0)
		require.Equal(t, "EOF", err.Error())
		return text
	}
	answers := func() string {
		seen := map[string]bool{}
		for range 4 {
			seen[resolved()] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
	}
	require.Equal(t, "a b", answers(), "none is ready: any will do")
	ready["b"].Store(true)
	until(t, "only the ready one gets requests", func() bool { return answers() == "b" })
	ready["a"].Store(true)
	until(t, "both get requests", func() bool { return answers() == "a b" })
	servers[1].Close()
	until(t, "the live one gets requests", func() bool { return answers() == "a" })
	servers[0].Close()
	require.Equal(t, "no answer", answers())
}

// TestRefusals: each mistake gets one line that says what to do.
func TestRefusals(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("TMPDIR", empty)
	for says, args := range map[string][]string{
		"start one with make cluster": nil,
		"whole seconds":               {"-ttl", "100ms"},
		"that is running":             {"-cluster", empty},
	} {
		require.ErrorContains(t, run(t.Context(), args, &bytes.Buffer{}), says)
	}
	for _, n := range []string{"1", "2"} {
		dir := filepath.Join(empty, "homeward-cluster-"+n)
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(lab.StateFile(dir), []byte(`{"nodes":[{"region":"mars","api":"http://127.0.0.1:1"}]}`), 0o600))
		if n == "1" {
			require.ErrorContains(t, run(t.Context(), nil, &bytes.Buffer{}), "the location of mars is unknown")
		}
	}
	require.ErrorContains(t, run(t.Context(), nil, &bytes.Buffer{}), "2 clusters seem to run")
}
