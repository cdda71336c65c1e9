package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/deployment"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/stripe"
)

// childEnv holds the childConfig of a test binary that is to be a cluster.
const childEnv = "HOMEWARD_E2E_CHILD"

// childConfig names where a child runs and where it dies.
type childConfig struct {
	Dir string
	PSP string
	// Second is where a second provider is, which tries what the first has declined; "" for
	// none.
	Second string
	backend
	// Port is the first region's, the others' follow; 0 takes any.
	Port int
	// WAN is the regions' distances, as --wan takes them.
	WAN string
	// Die is the point at which the process kills itself, "" for none, once
	// Arrivals requests stand there; those before the last wait for it.
	Die      point
	Arrivals int32
	// NoWorker: outbox rows are never taken, so that recovery is left to retries.
	NoWorker bool
	// Notices are taken in, see noticing.
	Notices bool
	// Stripe, Adyen: the provider speaks that one's API.
	Stripe, Adyen bool
	// Gateway is the upstream of a gateway, "" for none, Dedupe its header for repeats, and
	// UpstreamTimeout how long it may take.
	Gateway, Dedupe string
	UpstreamTimeout time.Duration
	// Asks: the upstream can be asked for orders by their key.
	Asks bool
	// Sink is the endpoint of both tenants, "" for none.
	Sink string
}

// point is a step of a request's way through the store.
type point string

const (
	// beforeWrite: nothing under the key is durable, not even a pin.
	beforeWrite point = "before the first write"
	pinned      point = "after the pin"
	begun       point = "after Begin"
	answered    point = "before Settle"
	settled     point = "after Settle"
	taken       point = "after the worker's take"
	takenOver   point = "after the worker's TakeOver"
	retaken     point = "after a retry's Begin took over"

	waitLearned point = "before the Settle of what waits"
	waitKept    point = "after the Settle of what waits"
	calledOff   point = "before the Settle of what was called off"
	callEnded   point = "after the Settle of what was called off"

	orderTakes point = "before the Settle by which the charge is the capture's or cancellation's"
	orderTaken point = "after the Settle by which the charge is the capture's or cancellation's"
	orderSays  point = "before the Settle of a capture or cancellation that waits"
	orderWaits point = "after the Settle of a capture or cancellation that waits"

	orderBegun    point = "after the capture's or cancellation's Begin"
	orderCalled   point = "after the provider's capture or cancellation"
	orderReported point = "before the Settle of the charge that it is about"
	orderBooked   point = "after the Settle of the charge that it is about"
	orderLearned  point = "before the capture's or cancellation's Settle"
	orderKept     point = "after the capture's or cancellation's Settle"

	moving  point = "before the move to another provider"
	arrived point = "after the move to another provider"

	noticeArrived point = "before the notice is kept"
	noticeKept    point = "after the notice is kept"
	noticeTaken   point = "after the notice is taken"
	ghostFound    point = "before the ghost is booked"
	ghostBooked   point = "after the ghost is booked"
	refundWanted  point = "before the compensation's Begin"
	refundIntent  point = "after the compensation's Begin"
	refundResumed point = "after the compensation is taken over"
	refundCall    point = "before the refund's call"
	refundCalled  point = "after the refund's call"
	refundLearned point = "before the compensation's Settle"
	refundBooked  point = "after the compensation's Settle"
	noticeDone    point = "before the notice is closed"
	noticeClosed  point = "after the notice is closed"

	cancelWanted  point = "before the mark of a canceled key"
	cancelMarked  point = "after the mark of a canceled key"
	cancelLearned point = "before the Settle of a canceled charge that moved"
	cancelKept    point = "after the Settle of a canceled charge that moved"
	cancelRefunds point = "after the Begin of the refund of a charge that was answered"

	expiryTaken    point = "after the expiry is taken"
	expiryDecided  point = "before the closing Settle"
	expirySettled  point = "after the closing Settle"
	expiryFinish   point = "before the expiry's Finish"
	expiryFinished point = "after the expiry's Finish"

	eventTaken     point = "after the event is taken"
	eventDelivered point = "before the event's Finish"
	eventFinished  point = "after the event's Finish"
)

// killer ends its process, once it is ready: a worker may find something to do before the parent
// has read where the regions listen.
type killer struct {
	point     point
	remaining atomic.Int32
	ready     chan struct{}
}

func (k *killer) at(p point) {
	if p != k.point {
		return
	}
	<-k.ready
	if k.remaining.Add(-1) <= 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	select {} // until the signal arrives
}

// pointedStore calls at when a step is reached.
type pointedStore struct {
	deployment.Store
	at       func(point)
	noWorker bool
	apart    bool // pins are steps of their own, as where something is in the way
}

func (s *pointedStore) Pin(ctx context.Context, key claim.Key, entry string) (claim.Pin, error) {
	s.at(beforeWrite)
	pin, err := s.Store.Pin(ctx, key, entry)
	if err == nil {
		s.at(pinned)
	}
	return pin, err
}

func (s *pointedStore) Begin(ctx context.Context, a claim.Arrival) (claim.Begun, error) {
	a.PinHere = a.PinHere && !s.apart
	if a.Stamped || a.PinHere {
		s.at(beforeWrite)
	}
	if compensates(a.Operation) {
		s.at(refundWanted)
	}
	got, err := s.Store.Begin(ctx, a)
	if err == nil && got.Decision == claim.Won && compensates(a.Operation) {
		s.at(refundIntent)
	}
	if err == nil && got.Decision == claim.Won && a.Input.Path == "cancellations" {
		s.at(cancelRefunds)
	}
	if err == nil && got.Decision == claim.Won && orders(a.Operation) {
		s.at(orderBegun)
	}
	if err == nil && got.Decision == claim.Won {
		s.at(begun)
	}
	if err == nil && got.Decision == claim.WonUnknown {
		s.at(retaken)
		if compensates(a.Operation) {
			s.at(refundResumed)
		}
	}
	return got, err
}

func (s *pointedStore) Settle(ctx context.Context, held claim.Record, v claim.Verdict) (claim.Record, error) {
	outcome := v.Outcome.String()
	expires := outcome == claim.OutcomeRefused && held.State == claim.FailedRetry
	ends := outcome == claim.OutcomeRefused && held.Interim != nil
	learned, kept := orderPoints(&held, &v)
	if refused, ok := v.Outcome.(*claim.Refused); ok && refused.Refund != nil {
		learned, kept = cancelLearned, cancelKept
	}
	s.at(learned)
	switch {
	case outcome == claim.OutcomePending:
		s.at(waitLearned)
	case ends:
		s.at(calledOff)
	case outcome == claim.OutcomeDone && compensates(held.Operation):
		s.at(refundLearned)
	case outcome == claim.OutcomeDone:
		s.at(answered)
	case expires:
		s.at(expiryDecided)
	case outcome == claim.OutcomeMoved:
		s.at(moving)
	}
	rec, err := s.Store.Settle(ctx, held, v)
	if err == nil {
		s.at(kept)
	}
	switch {
	case err != nil:
	case outcome == claim.OutcomePending:
		s.at(waitKept)
	case ends:
		s.at(callEnded)
	case outcome == claim.OutcomeDone && compensates(held.Operation):
		s.at(refundBooked)
	case outcome == claim.OutcomeDone:
		s.at(settled)
	case expires:
		s.at(expirySettled)
	case outcome == claim.OutcomeMoved:
		s.at(arrived)
	}
	return rec, err
}

func orders(operation string) bool { return payment.Operation(operation).Orders() }

// orderPoints are those before and after a Settle of a capture or a cancellation, or of the
// charge that it is about.
func orderPoints(held *claim.Record, v *claim.Verdict) (learned, kept point) {
	outcome := v.Outcome.String()
	pending, _ := v.Outcome.(*claim.Pending)
	switch {
	case orders(held.Operation) && outcome == claim.OutcomePending:
		return orderSays, orderWaits
	case pending != nil && pending.By != "":
		return orderTakes, orderTaken
	case held.Interim != nil && held.Interim.By != "" && (outcome == claim.OutcomeDone || outcome == claim.OutcomeRefused):
		return orderReported, orderBooked
	case orders(held.Operation) && outcome == claim.OutcomeDone:
		return orderLearned, orderKept
	case held.Interim != nil && held.Interim.State == string(payment.RequiresCapture) && (outcome == claim.OutcomeDone || outcome == claim.OutcomeRefused):
		return orderReported, orderBooked
	default:
		return "none", "none" // "" is that of a process that is to live
	}
}

func (s *pointedStore) Cancel(ctx context.Context, key claim.Key, home, object string, step uuid.UUID, node, region string) (claim.Record, error) {
	s.at(cancelWanted)
	rec, err := s.Store.Cancel(ctx, key, home, object, step, node, region)
	if err == nil {
		s.at(cancelMarked)
	}
	return rec, err
}

func (s *pointedStore) TakeOver(ctx context.Context, key claim.Key, home, object, holder, region string, news claim.News) (claim.Record, error) {
	rec, err := s.Store.TakeOver(ctx, key, home, object, holder, region, news)
	if err == nil {
		s.at(takenOver)
		if compensates(rec.Operation) {
			s.at(refundResumed)
		}
	}
	return rec, err
}

// childMain is the child: a cluster that runs until it is killed or its parent ends. It prints
// where its regions listen, as one line of JSON.
func childMain(config string) int {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	open := newProvider
	if c.Notices {
		open = noticing
	}
	var provider speaker
	var err error
	if c.Adyen {
		provider, err = atAdyen(judged, c.PSP)
	} else if c.Stripe {
		provider, err = stripe.New(stripe.Config{Key: "sk_test_child", BaseURL: c.PSP + "/stripe"})
	} else {
		provider, err = open(c.PSP)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	distances, err := wan.Parse(c.WAN, regions, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	k := &killer{point: c.Die, ready: make(chan struct{})}
	k.remaining.Store(c.Arrivals)
	cc := clusterConfig(c.Dir, provider, c.backend)
	cc.Network = wan.New(distances)
	for i := range cc.Regions {
		if c.Port != 0 {
			cc.Regions[i].Listen = fmt.Sprintf("127.0.0.1:%d", c.Port+i)
		}
	}
	cc.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cc.WrapStore = func(_ string, s deployment.Store) deployment.Store {
		return &pointedStore{s, k.at, c.NoWorker, c.Die == pinned}
	}
	cc.Providers = psp.Providers{&pointedProvider{provider, k.at}}
	if c.Gateway != "" {
		asGateway(&cc, c.Gateway, c.Dedupe)
		for i := range cc.Gateway.Settings.Routes {
			cc.Gateway.Settings.Routes[i].Timeout = c.UpstreamTimeout
		}
		if c.Asks {
			ruled(func(s *gateway.Settings) { s.Routes = []gateway.Route{asked(time.Millisecond)} })(&cc)
		}
	}
	if c.Second != "" {
		if err := addSecond(&cc, c.Second); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	if c.Notices {
		cc.Notifiers = map[string]psp.Notifier{provider.Name(): provider}
	}
	if c.Sink != "" {
		cc.Events = webhookEvents()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cluster, err := node.StartCluster(ctx, cc)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := putEndpoints(ctx, cluster, c.backend, c.Sink); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(clusterBases(cluster)); err != nil {
		return 1
	}
	close(k.ready)
	obey(os.Stdin, cluster, cc.Network) // ends with the parent
	return 0
}

// obey does what the parent says, a line each, until it ends.
func obey(in io.Reader, cluster *node.Cluster, network *wan.Network) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch words := strings.Fields(lines.Text()); words[0] {
		case "cut":
			network.Cut(words[1], words[2])
		case "heal":
			network.Heal(words[1], words[2])
		case "lose": // in the middle of what it does
			now, cancel := context.WithCancel(context.Background())
			cancel()
			_ = cluster.Region(words[1]).Stop(now) // it reports what it left open
		}
	}
}

// child is a cluster in a process of its own.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	bases  map[string]string
	stderr *testLog
	dead   chan struct{}
	stdin  io.WriteCloser
}

// startChild returns once every region listens.
func startChild(t testing.TB, c childConfig) *child {
	t.Helper()
	config, err := json.Marshal(c)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &child{t: t, cmd: exec.Command(exe), stderr: &testLog{}, dead: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	line := make(chan []byte, 1)
	go func() {
		defer close(p.dead)
		first, _ := bufio.NewReader(stdout).ReadBytes('\n')
		line <- first
		_ = p.cmd.Wait() // a kill is expected
	}()
	t.Cleanup(func() {
		p.kill()
		require.NotContains(t, p.stderr.String(), "DATA RACE")
		require.NotContains(t, p.stderr.String(), "panic")
		if t.Failed() {
			t.Log(p.stderr.String())
		}
	})
	first := receive(t, "the cluster's addresses", line)
	if err := json.Unmarshal(first, &p.bases); err != nil {
		p.kill()
		require.NoError(t, err, "the cluster did not start: %s", p.stderr.String())
	}
	return p
}

// kill ends the process with SIGKILL and waits for its death.
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	<-p.dead
	_ = p.stdin.Close()
}

// tell has the process do what obey understands.
func (p *child) tell(words ...string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, strings.Join(words, " ")+"\n")
	require.NoError(p.t, err)
}

// dump makes the process say what it is doing, on stderr, and end.
func (p *child) dump() {
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	<-p.dead
}

func (p *child) end() (<-chan struct{}, *exec.Cmd) { return p.dead, p.cmd }

// died waits until the process has killed itself.
func (p *child) died() {
	p.t.Helper()
	receive(p.t, "the death of the process", p.dead)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(p.t, ok)
	require.True(p.t, status.Signaled() && status.Signal() == syscall.SIGKILL, "the process ended by itself: %v\n%s", p.cmd.ProcessState, p.stderr.String())
}
