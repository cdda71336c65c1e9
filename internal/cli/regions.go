package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// askFlags say which running node is asked, and as whom.
type askFlags struct {
	Node        string `placeholder:"HOST:PORT" env:"HOMEWARD_NODE" help:"RPC address of the node to ask (${env}). Default: those of --cluster, else 127.0.0.1:7081."`
	Cluster     string `type:"path" placeholder:"DIR" help:"Data directory of a running homeward cluster, which says where its nodes and certificates are."`
	Cert        string `type:"path" env:"HOMEWARD_OPERATOR_CERT" help:"Operator's certificate, where the nodes have certificates (${env}). PEM, like the other two."`
	Key         string `type:"path" env:"HOMEWARD_OPERATOR_KEY" help:"Its key (${env})."`
	CA          string `name:"ca" type:"path" env:"HOMEWARD_OPERATOR_CA" help:"The deployment's CA (${env})."`
	TrustDomain string `name:"trust-domain" default:"homeward" env:"HOMEWARD_OPERATOR_TRUST_DOMAIN" help:"The deployment's name in its certificates (${env})."`
}

// defaultNode is where a node listens for RPC unless it is told otherwise.
const defaultNode = "127.0.0.1:7081"

// askTime bounds one question: a node asks all others on our behalf, for 5 s each
// and at the same time.
const askTime = 15 * time.Second

// asker asks nodes in turn until one answers.
type asker struct {
	clients []*admin.Client
	addrs   []string // of the clients
	certs   bool     // we have a certificate
}

func (f askFlags) open() (_ *asker, err error) {
	addrs := []string{defaultNode}
	if f.Cluster != "" {
		var state struct {
			Operator *operatorState
			Nodes    []clusterNode
		}
		path := filepath.Join(f.Cluster, stateFile)
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &state)
		}
		if err != nil {
			return nil, fmt.Errorf("--cluster: %w; it must be the data directory of a cluster that runs", err)
		}
		addrs = nil
		for i := range state.Nodes {
			addrs = append(addrs, state.Nodes[i].RPC)
		}
		if o := state.Operator; o != nil && f.Cert == "" {
			f.Cert, f.Key, f.CA, f.TrustDomain = o.Cert, o.Key, o.CA, o.TrustDomain
		}
	}
	if f.Node != "" {
		addrs = []string{f.Node}
	}
	var certs *region.TLS
	switch given := []string{f.Cert, f.Key, f.CA}; {
	case strings.Join(given, "") == "":
	case f.Cert == "" || f.Key == "" || f.CA == "":
		return nil, errors.New("--cert, --key and --ca go together; give all three, or none")
	default:
		if certs, err = region.NewTLS(region.TLSConfig{CertFile: f.Cert, KeyFile: f.Key, CAFile: f.CA, TrustDomain: f.TrustDomain}); err != nil {
			return nil, err
		}
	}
	a := &asker{addrs: addrs, certs: certs != nil}
	for _, addr := range addrs {
		c, err := admin.NewClient(addr, certs)
		if err != nil {
			return nil, fmt.Errorf("--node: %w", err)
		}
		a.clients = append(a.clients, c)
	}
	return a, nil
}

func (a *asker) close() {
	for _, c := range a.clients {
		c.Close()
	}
}

// ask runs question at one node after the other until one answers.
func ask[T any](ctx context.Context, a *asker, question func(context.Context, *admin.Client) (T, error)) (answer T, err error) {
	for _, c := range a.clients {
		asking, cancel := context.WithTimeout(ctx, askTime)
		answer, err = question(asking, c)
		cancel()
		if !errors.Is(err, region.ErrNoAnswer) || ctx.Err() != nil {
			return answer, err
		}
	}
	if ctx.Err() == nil && len(a.addrs) == 1 {
		if what := a.whoIsThere(ctx, a.addrs[0]); what != "" {
			return answer, fmt.Errorf("no node answers at %s: %s", a.addrs[0], what)
		}
	}
	return answer, fmt.Errorf("%w; say where one is with --node or --cluster, and who asks with --cert, --key and --ca", err)
}

// lookTime bounds the look at what listens where no node's RPC did.
const lookTime = 3 * time.Second

// whoIsThere says what may listen at an address, and what to do then; "" if nothing
// is known.
func (a *asker) whoIsThere(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	// Who it is does not matter: nothing is sent but the question.
	dial := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	secret, err := dial.DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = secret.Close() // nothing was sent
		if a.certs {
			return "something there speaks TLS and does not take this certificate; check --cert, --ca and --trust-domain, and that it is a node's RPC listener"
		}
		return "it speaks TLS, so operators need a certificate; name it with --cert, --key and --ca"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/livez", nil)
	if err != nil {
		return ""
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil:
		return ""
	case err != nil:
		return "what listens there does not speak HTTP; name rpc.listen of a node's settings"
	}
	defer func() { _ = res.Body.Close() }() // it was only looked at
	switch {
	case res.StatusCode == http.StatusOK:
		return "this is a node's API; name its RPC listener, rpc.listen in its settings"
	case a.certs:
		return "it answers without TLS; leave --cert, --key and --ca out if it is a node's RPC listener"
	default:
		return "what listens there is no node's RPC listener; name rpc.listen of a node's settings"
	}
}

func (a *asker) overview(ctx context.Context, epoch uint64) (*admin.Overview, error) {
	return ask(ctx, a, func(ctx context.Context, c *admin.Client) (*admin.Overview, error) {
		return c.Overview(ctx, true, epoch)
	})
}

func (a *asker) setStatus(ctx context.Context, name string, status region.Status) (epoch uint64, err error) {
	return ask(ctx, a, func(ctx context.Context, c *admin.Client) (uint64, error) {
		return c.SetStatus(ctx, name, status)
	})
}

type regionsCommand struct {
	askFlags
	JSON bool `name:"json" help:"Print it for machines."`
}

// Run prints the deployment as one node sees it.
func (c *regionsCommand) Run(ctx context.Context, io streams) error {
	a, err := c.open()
	if err != nil {
		return err
	}
	defer a.close()
	o, err := a.overview(ctx, 0)
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(io.out)
		e.SetIndent("", "  ")
		return e.Encode(o)
	}
	t := table(io)
	fmt.Fprintln(t, "REGION\tCODE\tSTATUS\tNODES\tRTT\tLAST SEEN\tIN FLIGHT\tPENDING\tDUE\tOLDEST DUE\tPARKED")
	for _, r := range o.Regions {
		seen, rtt, rows := "never", "-", "?\t?\t?\t?\t?"
		if !r.LastSeen.IsZero() {
			seen = ago(r.LastSeen)
		}
		if r.RTT >= 0 {
			rtt = r.RTT.Round(100 * time.Microsecond).String()
		}
		if b := r.Backlog; b != nil {
			oldest := "-"
			if !b.OldestDue.IsZero() {
				oldest = ago(b.OldestDue)
			}
			rows = fmt.Sprintf("%d\t%d\t%d\t%s\t%d", b.InFlight, b.Pending, b.Due, oldest, b.Parked)
		}
		fmt.Fprintf(t, "%s\t%d\t%v\t%d\t%s\t%s\t%s\n", r.Name, r.Code, r.Status, len(o.Of(r.Name)), rtt, seen, rows)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(io.out)
	fmt.Fprintln(t, "NODE\tREGION\tHEALTH\tEPOCH\tREQUESTS\tFORWARDS\tVERSION\tRPC")
	for _, m := range o.Members {
		health, counts := "does not answer", "?\t?\t?"
		if p := m.Part; p != nil {
			health = "ready"
			if p.NotReady != "" {
				health = "not ready: " + p.NotReady
			}
			counts = fmt.Sprintf("%d\t%d\t%d", p.Epoch, p.Requests, p.Forwards)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Region, health, counts, cmp.Or(m.Version, "-"), m.RPCAddr)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range o.Members {
		if m.Unknown != "" {
			fmt.Fprintf(io.out, "? %s does not answer: %s\n", m.Name, m.Unknown)
		}
	}
	printUncounted(io, o.Regions)
	printParked(io, o.Regions...)
	fmt.Fprintf(io.out, "As %s sees it, at epoch %d.\n", o.Node, o.Epoch)
	return nil
}

// printUncounted tells each reason once: a database that is gone is gone for every
// region.
func printUncounted(io streams, regions []admin.RegionState) {
	var reasons []string
	names := map[string][]string{}
	for _, r := range regions {
		if r.Unknown == "" {
			continue
		}
		if names[r.Unknown] == nil {
			reasons = append(reasons, r.Unknown)
		}
		names[r.Unknown] = append(names[r.Unknown], r.Name)
	}
	for _, why := range reasons {
		fmt.Fprintf(io.out, "? the rows of %s cannot be counted: %s\n", strings.Join(names[why], ", "), why)
	}
}

// ago is short, by this machine's clock.
func ago(t time.Time) string {
	d := time.Since(t).Round(time.Second)
	if d < time.Second {
		return "now"
	}
	return d.String() + " ago"
}

func printParked(io streams, regions ...admin.RegionState) {
	for _, r := range regions {
		if r.Backlog == nil {
			continue
		}
		for _, p := range r.Backlog.ParkedRows {
			fmt.Fprintf(io.out, "parked in %s: %s of tenant %s: %s\n", r.Name, p.ID, p.Tenant, strconv.QuoteToGraphic(p.Reason))
		}
		if more := r.Backlog.Parked - len(r.Backlog.ParkedRows); more > 0 {
			fmt.Fprintf(io.out, "parked in %s: %d more\n", r.Name, more)
		}
	}
}

type regionCommand struct {
	Drain   regionDrainCommand   `cmd:"" help:"Send traffic away from a region, and wait until it is safe to take down."`
	Undrain regionUndrainCommand `cmd:"" help:"End a drain: the region takes traffic and new keys again."`
	Down    regionDownCommand    `cmd:"" help:"Say that a region was taken away: the others act on its rows at once."`
	Up      regionUpCommand      `cmd:"" help:"Say that a region is back: it takes traffic and new keys again."`
}

// Help is what homeward region --help adds.
func (regionCommand) Help() string {
	return `A status decides where keys that have no home yet get one, what GET /readyz says, and, once a region is down, that the others need not wait for it. It never moves a key: what is at home in a region stays so, and retries of it are answered. Setting a status again changes nothing.`
}

type regionDrainCommand struct {
	askFlags
	Region  string        `arg:"" help:"The region's name."`
	Timeout time.Duration `default:"10m" help:"How long to wait. The region goes on draining after that."`
	Yes     bool          `help:"Also the last active region, after which no region gives new keys a home."`
}

// noHomes is what follows when the last active region goes.
const noHomes = "no region gives new keys a home now, so new payments get 503 until one is active again"

// drainEvery is how often a drain looks again, sayEvery how often it repeats what
// has changed about the thing it waits for.
const (
	drainEvery = 500 * time.Millisecond
	sayEvery   = 5 * time.Second
)

func (c *regionDrainCommand) Run(ctx context.Context, io streams) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--timeout must be above 0, is %v", c.Timeout)
	}
	a, err := c.open()
	if err != nil {
		return err
	}
	defer a.close()
	last, err := a.lastActive(ctx, c.Region)
	if err != nil {
		return err
	}
	if last && !c.Yes {
		return fmt.Errorf("%[1]s is the last active region: drained, no region would give new keys a home, and new payments would get 503; make another one active first (homeward region undrain, or up), or say --yes", c.Region)
	}
	epoch, err := a.setStatus(ctx, c.Region, region.Draining)
	if err != nil {
		return err
	}
	// Somebody may have drained another one since the look.
	if last, err = a.lastActive(ctx, c.Region); err != nil {
		return fmt.Errorf("%s is draining, but how far it is cannot be seen: %w", c.Region, err)
	}
	newKeys := "new keys get other homes"
	if last {
		newKeys = noHomes
	}
	fmt.Fprintf(io.out, "%s is draining, epoch %d: %s; what is at home there is served as before\n", c.Region, epoch, newKeys)
	waiting, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	d := drain{asker: a, io: io, region: c.Region, epoch: epoch}
	for {
		safe, err := d.look(waiting)
		if err != nil || safe {
			return err
		}
		select {
		case <-waiting.Done():
			return d.ended(ctx, c.Timeout)
		case <-time.After(drainEvery):
		}
	}
}

// lastActive reports whether no region but this one is active. It is a look, which
// somebody else's change may follow.
func (a *asker) lastActive(ctx context.Context, name string) (bool, error) {
	o, err := a.overview(ctx, 0)
	if err != nil || o.Region(name) == nil {
		return false, err // setting the status of a region that is not there says which there are
	}
	for _, r := range o.Regions {
		if r.Name != name && r.Status == region.Active {
			return false, nil
		}
	}
	return true, nil
}

// drain is one wait for a region, told step by step.
type drain struct {
	*asker
	io     streams
	region string
	epoch  uint64

	done  int // steps that were reported as done
	said  string
	at    time.Time
	steps []admin.DrainStep
}

// look reports whether nothing is in the way any more.
func (d *drain) look(ctx context.Context) (safe bool, err error) {
	o, err := d.overview(ctx, d.epoch)
	if err != nil {
		if ctx.Err() != nil {
			return false, nil // the caller knows
		}
		return false, fmt.Errorf("%s goes on draining, but how far it is cannot be seen: %w", d.region, err)
	}
	r := o.Region(d.region)
	if r != nil && o.Epoch >= d.epoch && r.Status != region.Draining {
		return false, fmt.Errorf("%s drains no more: somebody has made it %v", d.region, r.Status)
	}
	d.steps = o.DrainSteps(d.region, d.epoch)
	for i, s := range d.steps {
		if s.Open != "" {
			d.wait(s.Open)
			return false, nil
		}
		if i >= d.done {
			fmt.Fprintf(d.io.out, "done: %s\n", s.Done)
			d.done++
		}
	}
	printParked(d.io, *r)
	fmt.Fprintf(d.io.out, "safe to take down: %s (as %s sees the deployment; homeward region undrain %s takes it back)\n", d.region, o.Node, d.region)
	return true, nil
}

// wait says what is waited for, and not too often how it changes.
func (d *drain) wait(open string) {
	what, _, _ := strings.Cut(open, ":")
	before, _, _ := strings.Cut(d.said, ":")
	if open == d.said || what == before && time.Since(d.at) < sayEvery {
		return
	}
	d.said, d.at = open, time.Now()
	fmt.Fprintf(d.io.out, "waiting: %s\n", open)
}

// ended says what is still in the way.
func (d *drain) ended(ctx context.Context, timeout time.Duration) error {
	var open []string
	for _, s := range d.steps {
		if s.Open != "" {
			open = append(open, s.Open)
		}
	}
	if d.steps == nil {
		open = []string{"no node has answered"}
	}
	why := fmt.Sprintf("after %v", timeout)
	if ctx.Err() != nil {
		why = "now"
	}
	return fmt.Errorf("%s is not safe to take down %s: %s; it goes on draining, so run this again to wait on, or homeward region undrain %s", d.region, why, strings.Join(open, "; "), d.region)
}

type regionUndrainCommand struct {
	askFlags
	Region string `arg:"" help:"The region's name."`
}

func (c *regionUndrainCommand) Run(ctx context.Context, io streams) error {
	return activate(ctx, io, c.askFlags, c.Region)
}

type regionUpCommand struct {
	askFlags
	Region string `arg:"" help:"The region's name."`
}

func (c *regionUpCommand) Run(ctx context.Context, io streams) error {
	return activate(ctx, io, c.askFlags, c.Region)
}

func activate(ctx context.Context, io streams, f askFlags, name string) error {
	a, err := f.open()
	if err != nil {
		return err
	}
	defer a.close()
	epoch, err := a.setStatus(ctx, name, region.Active)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "%s is active, epoch %d: it takes traffic and new keys\n", name, epoch)
	return a.heard(ctx, io, epoch)
}

// heard tells who knows an epoch by now. Whoever does not will read it within
// seconds; nothing depends on it.
func (a *asker) heard(ctx context.Context, io streams, epoch uint64) error {
	o, err := a.overview(ctx, epoch)
	if err != nil {
		return fmt.Errorf("the status is set, but who knows of it cannot be seen: %w", err)
	}
	if know := o.DrainSteps("", epoch)[0]; know.Open != "" {
		fmt.Fprintf(io.out, "not yet known everywhere, which takes seconds and is no danger: %s\n", know.Open)
	} else {
		fmt.Fprintln(io.out, know.Done)
	}
	return nil
}

type regionDownCommand struct {
	askFlags
	Region string `arg:"" help:"The region's name."`
	Yes    bool   `help:"Also while nodes of it are alive."`
}

func (c *regionDownCommand) Run(ctx context.Context, io streams) error {
	a, err := c.open()
	if err != nil {
		return err
	}
	defer a.close()
	o, err := a.overview(ctx, 0)
	if err != nil {
		return err
	}
	var alive []string
	for _, m := range o.Of(c.Region) {
		alive = append(alive, m.Name)
	}
	if len(alive) > 0 && !c.Yes {
		return fmt.Errorf("nodes of %[1]s are alive: %[2]s; drain it and stop them first (homeward region drain %[1]s), or say --yes: the other regions then act on its rows beside them, which is safe, as the rows decide, but slow", c.Region, strings.Join(alive, ", "))
	}
	epoch, err := a.setStatus(ctx, c.Region, region.Down)
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "%[1]s is down, epoch %[2]d: no new keys there; the other regions answer for its keys and finish what it owes, as far as the database reaches its rows (homeward region up %[1]s brings it back)\n", c.Region, epoch)
	if last, err := a.lastActive(ctx, c.Region); err == nil && last { // else heard says that nothing can be seen
		fmt.Fprintln(io.out, noHomes)
	}
	return a.heard(ctx, io, epoch)
}
