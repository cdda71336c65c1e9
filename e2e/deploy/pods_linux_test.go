package deploy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/lab/localdb"
	"github.com/homeward-io/homeward/internal/lab/localdb/dbtest"
	"github.com/homeward-io/homeward/internal/operator"
	"github.com/homeward-io/homeward/payment/psp/simulator"
	"github.com/homeward-io/homeward/region"
)

// TestWhatPodsRun starts what the pods of three releases of the chart would run, on
// PostgreSQL: the former version, installed as an operator installs it. It charges in each
// region and through a forward, upgrades to this version under load, region by region, rolls
// one back, and drains another.
func TestWhatPodsRun(t *testing.T) {
	needs(t, "helm")
	before := former(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	now := buildAt(t, root, "this")
	m := newMoney(t, before)

	for _, d := range m.regions {
		d.install(before)
	}
	m.meet()
	for _, d := range m.regions {
		m.pays(d, d)
	}
	first, second := m.regions[0], m.regions[1]
	m.pays(first, second)
	m.skew(before.version, before.version, before.version)

	// The load is a drill's, with its verdict by the provider. Between the regions one is of each
	// version, and forwards go both ways.
	m.upgrade(now, func() {
		m.skew(now.version, before.version, before.version)
		m.pays(first, second) // new to old
		m.pays(second, first) // old to new
	})
	m.skew(now.version, now.version, now.version)
	m.pays(first, second)

	// Back in one region, as helm rollback does it: nothing takes the tables back.
	third := m.regions[2]
	third.install(before)
	m.skew(now.version, now.version, before.version)
	m.pays(first, third)
	m.pays(third, first)

	m.drains(second)
}

// money is a planet that pays: database, provider, merchants, and an operator.
type money struct {
	*planet
	apiKey string
	access operator.Certificate
}

// newMoney makes what the releases need, as in docs/DEPLOYING.md: the database and its users, the
// Secrets, a tenant.
func newMoney(t *testing.T, b build) *money {
	t.Helper()
	dir := dbtest.Dir(t)
	sim, err := lab.StartSimulator("--listen", "127.0.0.1:0", simulator.Config{Dir: filepath.Join(dir, "psp"), Latency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sim.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m := &money{planet: newPlanet(t, filepath.Join(dir, "pods"), "http://"+sim.Addr())}
	server := dbtest.Start(t, localdb.Config{Kind: localdb.PostgreSQL, MaxConnections: 300})
	if err := server.CreateDatabase(t.Context(), "homeward", ""); err != nil {
		t.Fatal(err)
	}
	admin := server.URL("", "homeward")
	owner, node := m.database(b, admin)

	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	certs := lab.Certs{Dir: filepath.Join(dir, "certs"), TrustDomain: "homeward", Life: time.Hour}
	person := region.Identity{Operator: "dev", Role: region.RoleTreasurer}
	who := []region.Identity{person}
	for _, r := range regions {
		who = append(who, region.Identity{Region: r, Node: r})
	}
	if err := certs.Write(who); err != nil {
		t.Fatal(err)
	}
	files := certs.Files(person)
	m.access = operator.Certificate{Cert: files.Cert, Key: files.Key, CA: files.CA, TrustDomain: "homeward"}
	for _, r := range regions {
		files := certs.Files(region.Identity{Region: r, Node: r})
		m.volumes[r].secrets = map[string]map[string]string{
			"homeward-database": {"url": node},
			"homeward-owner":    {"url": owner},
			"homeward-gossip":   {"key": base64.StdEncoding.EncodeToString(key[:])},
			"homeward-seal":     {"keys": "base64key://" + base64.URLEncoding.EncodeToString(key[:])},
			"homeward-nodes":    {"tls.crt": read(t, files.Cert), "tls.key": read(t, files.Key), "ca.crt": read(t, files.CA)},
		}
	}
	out := m.homeward(b, node, "tenant", "create", "acme", "--name", "Acme", "--registrar", regions[0])
	found := regexp.MustCompile(`API key: (\S+)`).FindStringSubmatch(out)
	if found == nil {
		t.Fatalf("tenant create printed no key: %s", out)
	}
	m.apiKey = found[1]
	return m
}

// database makes the tables and the users, and returns the URLs of those who migrate, and
// of nodes.
func (m *money) database(b build, admin string) (owner, node string) {
	m.t.Helper()
	m.homeward(b, admin, "migrate", "up", "--regions", "us-east1=1,europe-west1=2,asia-northeast1=3")
	m.homeward(b, admin, "migrate", "roles")
	conn, err := pgx.Connect(m.t.Context(), admin)
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	as := func(user string) string {
		password := rand.Text()
		if _, err := conn.Exec(m.t.Context(), fmt.Sprintf("ALTER ROLE %s LOGIN PASSWORD '%s'", user, password)); err != nil {
			m.t.Fatal(err)
		}
		u, err := neturl.Parse(admin)
		if err != nil {
			m.t.Fatal(err)
		}
		u.User = neturl.UserPassword(user, password)
		return u.String()
	}
	return as("homeward_owner"), as("homeward_node")
}

// homeward runs a command of a build on the database, as people do.
func (m *money) homeward(b build, database string, args ...string) string {
	m.t.Helper()
	m.t.Setenv("HOMEWARD_DATABASE_URL", database)
	return must(m.t, "", b.binary, args...)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask sends a request with a key until it has its final answer.
func (m *money) ask(to *deployed, key, body string) (*http.Response, string) {
	m.t.Helper()
	var res *http.Response
	var text []byte
	eventually(m.t, "an answer of "+to.name, func() bool {
		req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, to.url()+"/v1/charges", strings.NewReader(body))
		if err != nil {
			m.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+m.apiKey)
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Content-Type", "application/json")
		if res, err = probing.Do(req); err != nil {
			return false
		}
		text, err = io.ReadAll(res.Body)
		_ = res.Body.Close() // it has been read
		return err == nil && res.StatusCode < http.StatusInternalServerError
	})
	return res, string(text)
}

// pays charges at one region with a key that is at home in another, or the same one, and
// asks for it again at both: the same bytes.
func (m *money) pays(at, home *deployed) {
	m.t.Helper()
	// A key that is at home where it first arrived has its home there.
	minted := m.mint(home)
	body := `{"amount":2500,"currency":"usd","payment_method":"pm_card_visa"}`
	res, said := m.ask(at, minted, body)
	if res.StatusCode != http.StatusCreated {
		m.t.Fatalf("a charge at %s with a key of %s: %d %s", at.name, home.name, res.StatusCode, said)
	}
	if got := res.Header.Get("Homeward-Home-Region"); got != home.name {
		m.t.Errorf("a charge at %s with a key of %s is at home in %q", at.name, home.name, got)
	}
	if hops, want := res.Header.Get("Homeward-Hops"), map[bool]string{true: "0", false: "1"}[at == home]; hops != want {
		m.t.Errorf("a charge at %s (%s) with a key of %s (%s) took %q hops, not %s", at.name, at.running.version, home.name, home.running.version, hops, want)
	}
	for _, d := range []*deployed{at, home} {
		if again, text := m.ask(d, minted, body); text != said || again.Header.Get("Idempotent-Replayed") != "true" {
			m.t.Errorf("the same charge at %s is answered %d %s, not %s", d.name, again.StatusCode, text, said)
		}
	}
	if res, text := m.ask(at, uuid.NewString(), body); res.StatusCode != http.StatusCreated {
		m.t.Errorf("an opaque key at %s: %d %s", at.name, res.StatusCode, text)
	}
}

// mint has a region stamp a key for itself.
func (m *money) mint(home *deployed) string {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, home.url()+"/v1/idempotency-keys", strings.NewReader(`{"count":1}`))
	if err != nil {
		m.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+m.apiKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := probing.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer res.Body.Close()
	var minted struct{ Keys []string }
	if err := json.NewDecoder(res.Body).Decode(&minted); err != nil || len(minted.Keys) != 1 {
		m.t.Fatalf("%s mints no key: %d %v", home.name, res.StatusCode, err)
	}
	return minted.Keys[0]
}

// operate asks the nodes of a region as a person does.
func (m *money) operate(at *deployed, do func(*operator.Operator) error) string {
	m.t.Helper()
	var said bytes.Buffer
	o, err := operator.Open(operator.Access{Nodes: []string{at.rpc()}, Certificate: m.access}, func(line string) { fmt.Fprintln(&said, line) })
	if err != nil {
		m.t.Fatal(err)
	}
	defer o.Close()
	if err := do(o); err != nil {
		m.t.Fatalf("%v\n%s", err, &said)
	}
	return said.String()
}

// meet waits until a node sees every other one.
func (m *money) meet() {
	m.t.Helper()
	eventually(m.t, "the regions have met", func() bool {
		met := true
		for _, d := range m.regions {
			m.operate(d, func(o *operator.Operator) error {
				all, err := o.Overview(m.t.Context(), 0)
				for _, r := range m.regions {
					met = met && err == nil && len(all.Of(r.name)) == len(r.pods)
				}
				return err
			})
		}
		return met
	})
}

// skew checks what each region's nodes say they are.
func (m *money) skew(versions ...string) {
	m.t.Helper()
	m.meet()
	m.operate(m.regions[0], func(o *operator.Operator) error {
		all, err := o.Overview(m.t.Context(), 0)
		if err != nil {
			return err
		}
		for _, n := range all.Members {
			for i, d := range m.regions {
				if n.Region == d.name && n.Version != versions[i] {
					m.t.Errorf("%s in %s is version %s, not %s", n.Name, n.Region, n.Version, versions[i])
				}
			}
		}
		return nil
	})
}

// rolling are the means of a drill that upgrades the nodes when it restarts them. In each region a
// Deployment starts every pod's successor before it ends the pod.
type rolling struct {
	lab.NoMeans
	m       *money
	to      build
	between func()
}

func (r rolling) Offers(drill.Scenario, string) (string, error) {
	return "helm upgrade in each region, one after the other: the migration, then each pod's successor before the pod ends", nil
}

func (r rolling) Nodes() (all []drill.Node) {
	for _, d := range r.m.regions {
		all = append(all, drill.Node{Name: d.name, Region: d.name})
	}
	return all
}

// Stop does nothing: a pod ends when its successor is ready.
func (rolling) Stop(context.Context, string) error { return nil }

func (r rolling) Start(_ context.Context, region string) error {
	r.m.of(region).install(r.to)
	if region == r.m.regions[0].name {
		r.between()
	}
	return nil
}

// upgrade rolls to another build under load. between is run when the first region has been.
func (m *money) upgrade(to build, between func()) {
	m.t.Helper()
	c := drill.Config{
		Scenario: drill.RollingRestart, Means: rolling{m: m, to: to, between: between}, APIKeys: []string{m.apiKey}, Provider: m.provider,
		Rate: 30, For: 12 * time.Second, Say: func(line string) { m.t.Log(line) },
	}
	for _, d := range m.regions {
		c.Regions = append(c.Regions, drill.Region{Name: d.name, URLs: []string{d.url()}})
	}
	report, err := drill.Run(m.t.Context(), c)
	if err != nil {
		m.t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.Text(&text); err != nil {
		m.t.Fatal(err)
	}
	m.t.Log(text.String())
	v := report.Verdict
	if !v.OK() || v.OpenClaims != 0 || v.BeyondStandard != 0 || v.Compared != v.Payments {
		m.t.Errorf("duplicates %d, differing %d, lost %d, open %d, beyond a client's usual attempts %d, compared %d of %d: %v",
			v.Duplicates, v.Differing, v.Lost, v.OpenClaims, v.BeyondStandard, v.Compared, v.Payments, v.Examples)
	}
}

// drains takes a region out of service: /readyz fails, and requests that still arrive are served.
// Its pods can be replaced meanwhile, as they are ready though their region is not. Then the region
// takes traffic again.
func (m *money) drains(d *deployed) {
	m.t.Helper()
	key := m.mint(d)
	const body = `{"amount":700,"currency":"usd","payment_method":"pm_card_visa"}`
	_, before := m.ask(d, key, body)
	if got := m.readyz(d); got != http.StatusOK {
		m.t.Fatalf("/readyz of %s is %d before the drain", d.name, got)
	}
	said := m.operate(d, func(o *operator.Operator) error { return o.Drain(m.t.Context(), d.name, patience, false) })
	if !strings.Contains(said, "safe to take down") {
		m.t.Errorf("the drain of %s ends with %s", d.name, said)
	}
	if got := m.readyz(d); got != http.StatusServiceUnavailable {
		m.t.Errorf("/readyz of %s is %d after the drain", d.name, got)
	}
	// As many probes as it takes to notice, and one more.
	probe := d.pods[0].container.ReadinessProbe
	pause(m.t.Context(), (probe.FailureThreshold+1)*probe.PeriodSeconds)
	if got := len(d.endpoints()); got != len(d.pods) {
		m.t.Errorf("the Service of %s has %d of %d pods while the region is drained: who still has its address is refused", d.name, got, len(d.pods))
	}
	if _, after := m.ask(d, key, body); after != before {
		m.t.Errorf("a drained region answers a retry with %s, not %s", after, before)
	}
	if res, text := m.ask(d, uuid.NewString(), body); res.StatusCode != http.StatusCreated || res.Header.Get("Homeward-Home-Region") == d.name {
		m.t.Errorf("a new key at a drained region: %d, home %q: %s", res.StatusCode, res.Header.Get("Homeward-Home-Region"), text)
	}
	d.mu.Lock()
	old := d.pods[0]
	d.mu.Unlock()
	d.start(d.running, old.spec)
	d.ready(0)
	d.remove(old)
	m.operate(d, func(o *operator.Operator) error { return o.Activate(m.t.Context(), d.name) })
	if got := m.readyz(d); got != http.StatusOK {
		m.t.Errorf("/readyz of %s is %d after it was put back", d.name, got)
	}
}

// readyz is what a region's health check gets.
func (m *money) readyz(d *deployed) int {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, d.url()+"/readyz", nil)
	if err != nil {
		m.t.Fatal(err)
	}
	res, err := probing.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close() // the status was all
	return res.StatusCode
}
