package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/claim"
)

const (
	// DefaultPatience is how long open payments may take after the load: longer than
	// a dead node's lease (10 s) and its outbox row's (1 m) together.
	DefaultPatience = 2 * time.Minute
	// settleTime is the longest time before the outage: what p50 and p99 need, and a
	// sixth of the drill if that is less.
	settleTime = 10 * time.Second
	// maxPayments bounds a drill: memory (some 200 MB), and the amounts that it has
	// to itself.
	maxPayments = 1 << 20
	// maxDrills: an amount consists of the drill's number and the payment's, and the
	// API takes 12 digits.
	maxDrills = 1 << 19
	// endTime bounds the return of what was taken away: a database's start (90 s) or
	// the starts of some nodes.
	endTime = 5 * time.Minute
)

// Region is an entry region: the APIs of its nodes, as http://host:port.
type Region struct {
	Name string
	URLs []string
}

// Config configures a drill. All but Node, From, Patience and Say are required.
type Config struct {
	Scenario Scenario
	// Region is the region that is hit; "" if the scenario hits everything.
	Region string
	// Node is the one node of Region to hit, and From the only region to have its calls hit; "":
	// all. Both are for Blackhole.
	Node, From string
	Means      Means
	Regions    []Region
	// APIKeys of the tenants that pay.
	APIKeys []string
	// Provider is the base URL of the provider simulator.
	Provider string
	// Rate is in requests per second.
	Rate float64
	// For is the duration of the load. An outage that takes longer extends it.
	For time.Duration
	// Patience is how long payments may stay open after the load; 0 means
	// DefaultPatience.
	Patience time.Duration
	// Say receives the drill's progress, a line at a time. Nil: nothing is reported.
	Say func(string)
}

func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	unknown := c.Scenario.Check()
	check(unknown == nil, "%v", unknown)
	check(c.Rate > 0, "the load must be above 0 requests per second, is %g", c.Rate)
	check(c.For >= minFor, "the drill must last %v at least, is %v", minFor, c.For)
	check(c.Patience >= 0, "the patience must not be negative, is %v", c.Patience)
	check(c.Rate*c.For.Seconds() <= maxPayments/2, "%g requests per second for %v are more than the %d that fit into memory; lower one of them", c.Rate, c.For, maxPayments/2)
	check(len(c.APIKeys) > 0, "no API key is given; set those of tenants that pay in HOMEWARD_API_KEYS")
	check(!slices.ContainsFunc(c.APIKeys, func(key string) bool { return !claim.APIKeyFits(key, "") }), "an API key is of a test side, which moves no money that could be counted; set live ones in HOMEWARD_API_KEYS")
	check(c.Provider != "", "no provider simulator is named; only it counts how often money moved")
	check(len(c.Regions) > 0, "no region's API is given")
	var names []string
	for _, r := range c.Regions {
		names = append(names, r.Name)
		check(len(r.URLs) > 0, "region %s has no API", r.Name)
		for _, u := range r.URLs {
			parsed, err := url.Parse(u)
			check(err == nil && parsed.Host != "", "%q is no URL; write http://host:port", u)
		}
	}
	named := strings.Join(names, ", ")
	switch {
	case unknown != nil:
	case c.Scenario.needsRegion():
		check(strings.Contains(", "+named+",", ", "+c.Region+",") && c.Region != "", "%s hits one region; choose one of %s", c.Scenario, named)
	default:
		check(c.Region == "", "%s concerns every region; leave the region out", c.Scenario)
	}
	check(c.Scenario == Blackhole || c.Node == "" && c.From == "", "one node, or what one region sends, is hit by %s alone; leave --only and --from out", Blackhole)
	check(c.From == "" || slices.Contains(names, c.From) && c.From != c.Region, "%q is no other region that could call %s; choose one of %s", c.From, c.Region, named)
	return errors.Join(errs...)
}

// minFor: a second for outage and recovery each is the least that a timeline shows.
const minFor = 3 * time.Second

// drill is a drill in progress.
type drill struct {
	c         Config
	provider  *provider
	transport *http.Transport
	history   *history
	entries   map[string]string  // host → region
	codes     []claim.RegionCode // by region
	base      int64              // amount of the first payment
	shunned   atomic.Pointer[string]
}

// Run executes the drill and returns its findings; see [Findings.OK]. It ends the
// outage even when ctx ends, which is an error, as there is no verdict then.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	how, err := c.Means.Offers(c.Scenario, c.Region)
	if err != nil {
		return nil, err
	}
	if c.Node != "" && !slices.Contains(c.Means.Nodes(), Node{c.Node, c.Region}) {
		return nil, fmt.Errorf("%s has no node %q", c.Region, c.Node)
	}
	if c.Node != "" {
		how += ", at " + c.Node + " alone"
	}
	if c.From != "" {
		how += ", for what " + c.From + " sends"
	}
	if c.Scenario.hitsNodes() && !slices.ContainsFunc(c.Means.Nodes(), func(n Node) bool { return c.Region == "" || n.Region == c.Region }) {
		return nil, fmt.Errorf("%s has no node to hit, and would prove nothing; the regions in --api must have the cluster's names", c.Scenario)
	}
	d := &drill{c: c, transport: &http.Transport{MaxIdleConnsPerHost: idleConns, IdleConnTimeout: attemptTime}, entries: map[string]string{}}
	defer d.transport.CloseIdleConnections()
	d.provider = &provider{base: strings.TrimRight(c.Provider, "/"), http: &http.Client{Transport: d.transport}}
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	c.Say(fmt.Sprintf("%g requests per second for %v from %d regions; %s", c.Rate, c.For, len(c.Regions), how))
	if err := d.run(ctx); err != nil {
		return nil, err
	}
	return d.judgement(ctx, how)
}

// prepare checks that everything needed answers.
func (d *drill) prepare(ctx context.Context) error {
	for _, r := range d.c.Regions {
		code, err := d.codeOf(ctx, r)
		if err != nil {
			return err
		}
		d.codes = append(d.codes, code)
		for _, u := range r.URLs {
			parsed, err := url.Parse(u)
			if err != nil {
				return err
			}
			d.entries[parsed.Host] = r.Name
		}
	}
	for {
		d.base = (1 + rand.Int64N(maxDrills-1)) * maxPayments
		taken, err := d.provider.effects(ctx, d.reserved)
		if err != nil || len(taken) == 0 {
			return err
		}
	}
}

// reserved: the amount is reserved for the drill.
func (d *drill) reserved(e effect) bool { return e.Amount >= d.base && e.Amount < d.base+maxPayments }

// codeOf has a region mint a key, and reads the region's code off it.
func (d *drill) codeOf(ctx context.Context, r Region) (claim.RegionCode, error) {
	var minted struct{ Keys []string }
	for _, apiKey := range d.c.APIKeys {
		for _, u := range r.URLs {
			status, err := d.ask(ctx, http.MethodPost, u+"/v1/idempotency-keys", apiKey, `{"count":1}`, &minted)
			if err != nil {
				return 0, fmt.Errorf("the API of %s at %s does not answer: %w", r.Name, u, err)
			}
			if status != http.StatusOK || len(minted.Keys) != 1 {
				return 0, fmt.Errorf("the API of %s at %s answers %d; check the API keys", r.Name, u, status)
			}
		}
	}
	code, ok := claim.ReadStamp(minted.Keys[0])
	if !ok {
		return 0, fmt.Errorf("the API of %s mints %q, which is no stamped key; is it Homeward's?", r.Name, minted.Keys[0])
	}
	return code, nil
}

// run is the load and the phases.
func (d *drill) run(ctx context.Context) (err error) {
	f, err := d.fault()
	if err != nil {
		return err
	}
	d.history = newHistory(time.Now(), d.c.Region)
	load, give := context.WithCancel(ctx)
	defer give()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		d.load(load, stop)
	}()
	err = d.act(ctx, f)
	close(stop)
	if err != nil {
		give()
		<-done
		return err
	}
	d.c.Say(fmt.Sprintf("the load is over; waiting for %d open payments, at most %v", d.history.open(), d.c.Patience))
	select {
	case <-done:
	case <-time.After(d.c.Patience):
	case <-ctx.Done():
	}
	give()
	<-done
	return interrupted(ctx)
}

func interrupted(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the drill was interrupted (%w), so there is no verdict", ctx.Err())
	}
	return nil
}

// act runs the phases. It ends whatever it has begun.
func (d *drill) act(ctx context.Context, f fault) (err error) {
	settle := min(settleTime, d.c.For/6)
	d.c.Say(fmt.Sprintf("before: %v of load alone", settle.Round(time.Second)))
	if pause(ctx, settle) != nil {
		return interrupted(ctx)
	}
	d.c.Say("during: " + string(d.c.Scenario) + " begins")
	d.history.mark(&d.history.from)
	begun := f.begin(ctx)
	if begun == nil {
		d.history.mark(&d.history.struck)
		// An outage is half of the drill, so that recovery has the last third.
		_ = pause(ctx, d.c.For/2-time.Since(d.history.from))
	}
	if begun == nil && ctx.Err() == nil {
		d.c.Say("after: everything is brought back")
	}
	d.history.mark(&d.history.ordered)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended := f.end(end)
	if ctx.Err() != nil && ended == nil {
		return interrupted(ctx)
	}
	if err := errors.Join(begun, ended); err != nil {
		return fmt.Errorf("the cluster did not carry out a step of the drill: %w", err)
	}
	d.history.mark(&d.history.mended)
	_ = pause(ctx, max(d.c.For-settle-d.c.For/2, d.c.For-time.Since(d.history.began)))
	return interrupted(ctx)
}

// judgement requests every payment once more, and reads the provider's book.
func (d *drill) judgement(ctx context.Context, how string) (*Report, error) {
	d.c.Say("requesting every payment once more")
	r := d.report(how)
	patient, cancel := context.WithTimeout(ctx, d.c.Patience)
	defer cancel()
	compared, open, unread := d.audit(patient)
	if err := interrupted(ctx); err != nil {
		return nil, err
	}
	payments := d.history.all()
	answered := map[string]bool{}
	for i := range payments {
		answered[payments[i].object] = payments[i].object != ""
	}
	// A second movement may have another amount than requested.
	effects, err := d.provider.effects(ctx, func(e effect) bool { return d.reserved(e) || answered[e.Reference] })
	if err != nil {
		return nil, err
	}
	judge(&r.Verdict, payments, effects, d.base)
	r.Verdict.Compared, r.Verdict.OpenClaims = compared, open
	if r.Verdict.Phases[outage].New.Calls == 0 {
		unread = errors.Join(unread, errors.New("no new payment fell into the outage; ask for more requests per second, or for longer"))
	}
	if unread != nil {
		r.Verdict.Unasked = unread.Error()
	}
	return r, nil
}
