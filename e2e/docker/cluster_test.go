package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

const (
	us   = "us-east1"
	eu   = "europe-west1"
	asia = "asia-northeast1"

	// patience bounds every wait for something that must happen. It is only spent
	// when a test fails.
	patience = 90 * time.Second
	// replicationTime lets some hundred ranges replicate, one after the other, across oceans.
	replicationTime = 6 * time.Minute
	// lookEvery is how often the tests poll for a change without a signal.
	lookEvery = 50 * time.Millisecond
	// stopTime is how long a node may take to stop, in seconds: somewhat more than HOMEWARD_DRAIN.
	stopTime = "25"
)

var (
	regions = []string{us, eu, asia}
	codes   = map[string]claim.RegionCode{us: 1, eu: 2, asia: 3}
	tenants = []string{"acme", "globex"}
)

// network is compose.yaml's E2E_NET.
func network() string {
	if n := os.Getenv("E2E_NET"); n != "" {
		return n
	}
	return "10.213"
}

// member is a node of the cluster.
type member struct {
	name, region, url string
}

// cluster is the cluster that Compose runs.
type cluster struct {
	ctx     context.Context
	files   []string // Compose's
	env     []string
	kind    localdb.Kind
	members []member
	keys    map[string]string // API keys by tenant
	http    *http.Client
	images  string // directory of the built images
	certs   string // that of the certificates, which every node sees as /certs
}

// newCluster chooses the cluster's database. Nothing runs yet.
func newCluster(ctx context.Context, images, certs string) (*cluster, error) {
	c := &cluster{
		ctx: ctx, files: []string{"../compose.yaml"}, kind: localdb.CockroachDB, keys: map[string]string{}, images: images, certs: certs, env: []string{"E2E_CERTS=" + certs},
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 2 * time.Second}},
	}
	for _, r := range regions {
		for i := 1; i <= 2; i++ {
			c.members = append(c.members, member{fmt.Sprintf("%s-%d", r, i), r, fmt.Sprintf("http://%s.%d.1%d:8081", network(), codes[r], i)})
		}
	}
	switch want := localdb.Kind(os.Getenv("HOMEWARD_TEST_KIND")); want {
	case "", localdb.CockroachDB:
		if err := c.pull(); err != nil && want != "" {
			return nil, err
		} else if err != nil {
			c.kind = localdb.PostgreSQL
			fmt.Printf("%v: PostgreSQL takes its place\n", err)
		}
	case localdb.PostgreSQL:
		c.kind = want
	default:
		return nil, fmt.Errorf("HOMEWARD_TEST_KIND is %q; write cockroachdb or postgresql", want)
	}
	if c.kind == localdb.PostgreSQL {
		if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
			return nil, errors.New("neither CockroachDB's image nor PostgreSQL is here; apt-get install postgresql")
		}
		c.files = append(c.files, "../compose.postgres.yaml")
	}
	return c, nil
}

// pull gets CockroachDB's image unless it is there.
func (c *cluster) pull() error {
	name := os.Getenv("E2E_COCKROACH_IMAGE")
	if name == "" {
		name = cockroachImage()
	}
	if _, err := docker(c.ctx, "image", "inspect", name); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, pullTime)
	defer cancel()
	_, err := docker(ctx, "pull", "--quiet", name)
	return err
}

// cockroachImage returns the image that compose.yaml names.
func cockroachImage() string {
	text, _ := os.ReadFile("../compose.yaml")
	_, rest, _ := strings.Cut(string(text), "${E2E_COCKROACH_IMAGE:-")
	name, _, _ := strings.Cut(rest, "}")
	return name
}

// databases returns the services with rows. The test takes the first one away.
func (c *cluster) databases() []string {
	if c.kind == localdb.PostgreSQL {
		return []string{"database"}
	}
	return []string{"database-" + eu, "database-" + us, "database-" + asia}
}

// of returns the services of a region.
func (c *cluster) of(region string) []string {
	s := []string{region + "-1", region + "-2"}
	if c.kind == localdb.CockroachDB {
		s = append(s, "database-"+region)
	}
	return s
}

// up starts everything in the order of dependencies.
func (c *cluster) up() error {
	if err := c.down(); err != nil {
		return err
	}
	first := append(c.databases(), "simulator")
	for _, r := range regions {
		first = append(first, "wan-"+r)
	}
	if err := c.compose(c.ctx, append([]string{"up", "-d"}, first...)...); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	var nodes []string
	for _, m := range c.members {
		nodes = append(nodes, m.name)
	}
	return c.compose(c.ctx, append([]string{"up", "-d"}, nodes...)...)
}

// down removes everything, data too. Docker may keep the network while it still detaches a container
// that has just ended; the second time it is gone.
func (c *cluster) down() error {
	down := func() error {
		return c.compose(context.WithoutCancel(c.ctx), "down", "--volumes", "--remove-orphans", "--timeout", "1")
	}
	if down() == nil {
		return nil
	}
	return down()
}

// prepare makes the tables and the tenants.
func (c *cluster) prepare() error {
	url := fmt.Sprintf("postgresql://homeward@%s.0.30:5432/homeward?sslmode=disable", network())
	migrate := []string{"migrate", "up", "--regions", strings.Join(regions, ",")}
	if c.kind == localdb.CockroachDB {
		url = fmt.Sprintf("postgresql://root@%s.1.30:26257/homeward?sslmode=disable", network())
		migrate = append(migrate, "--survive", "region")
		if err := c.initCockroach(); err != nil {
			return err
		}
	}
	homeward := func(args ...string) (string, error) {
		return docker(c.ctx, append([]string{"run", "--rm", "--network", project + "_default", "--env", "HOMEWARD_DATABASE_URL=" + url, "--env", "HOMEWARD_DATABASE__ALLOW_UNVERIFIED=true", image}, args...)...)
	}
	if err := c.until("the database has its tables", func() error {
		_, err := homeward(migrate...)
		return err
	}); err != nil {
		return err
	}
	if c.kind == localdb.CockroachDB {
		if err := c.replicated(); err != nil {
			return err
		}
	}
	for i, tenant := range tenants {
		out, err := homeward("tenant", "create", tenant, "--name", tenant, "--registrar", regions[i])
		if err != nil {
			return err
		}
		_, rest, _ := strings.Cut(out, "API key: ")
		if c.keys[tenant], _, _ = strings.Cut(rest, "\n"); c.keys[tenant] == "" {
			return fmt.Errorf("tenant create printed no API key but %q", out)
		}
	}
	return nil
}

// cockroach runs the program cockroach in one of its nodes.
func (c *cluster) cockroach(args ...string) (string, error) {
	id, err := c.id("database-" + us)
	if err != nil {
		return "", err
	}
	return docker(c.ctx, append([]string{"exec", id, "/cockroach/cockroach"}, append(args, "--insecure", "--host=localhost:26257")...)...)
}

// initCockroach makes a cluster of the three nodes, and the database.
func (c *cluster) initCockroach() error {
	if err := c.until("CockroachDB is initialized", func() error {
		_, err := c.cockroach("init")
		if err != nil && strings.Contains(err.Error(), "already been initialized") {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return c.until("CockroachDB answers", func() error {
		_, err := c.cockroach("sql", "--execute=CREATE DATABASE IF NOT EXISTS homeward")
		return err
	})
}

// replicated waits until every range has three replicas: until then the first node
// holds some alone, and its loss would be that of the cluster.
func (c *cluster) replicated() error {
	return c.untilWithin(replicationTime, "every range has three replicas", func() error {
		out, err := c.cockroach("sql", "--format=tsv", "--execute=SELECT count(*) FROM crdb_internal.ranges_no_leases WHERE array_length(replicas, 1) < 3")
		if err != nil {
			return err
		}
		if alone := strings.TrimSpace(strings.TrimPrefix(out, "count")); alone != "0" {
			return fmt.Errorf("%s have fewer", alone)
		}
		return nil
	})
}

// until repeats f until it succeeds, at most for patience.
func (c *cluster) until(what string, f func() error) error { return c.untilWithin(patience, what, f) }

func (c *cluster) untilWithin(limit time.Duration, what string, f func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || c.ctx.Err() != nil {
			return errors.Join(err, c.ctx.Err())
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("gave up waiting until %s: %w", what, err)
		}
		_ = wait(c.ctx, lookEvery)
	}
}

// id is the container of a service, running or not.
func (c *cluster) id(service string) (string, error) {
	out, err := docker(c.ctx, "ps", "--all", "--quiet", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+project, "--filter", "label=com.docker.compose.service="+service)
	if id := strings.TrimSpace(out); err != nil || id != "" {
		return id, err
	}
	return "", fmt.Errorf("service %s has no container", service)
}

// signal runs one of docker's own commands on some services, on all at once.
func (c *cluster) signal(services []string, args ...string) error {
	return atOnce(services, func(service string) error {
		id, err := c.id(service)
		if err != nil {
			return err
		}
		_, err = docker(c.ctx, append(slices.Clone(args), id)...)
		return err
	})
}

// exitCode is how a service's container ended.
func (c *cluster) exitCode(service string) (string, error) {
	id, err := c.id(service)
	if err != nil {
		return "", err
	}
	out, err := docker(c.ctx, "inspect", "--format", "{{.State.ExitCode}}", id)
	return strings.TrimSpace(out), err
}

// way is the direction of packets from one region to another.
type way struct{ from, to string }

// cut drops the packets of some ways: those of gossip where they would leave, those of requests and
// of CockroachDB in their proxies.
func (c *cluster) cut(ways ...way) error {
	return errors.Join(c.gossip("cut", ways), c.carried(ways, func(p *toxiproxy.Proxy, stream string) error {
		// With a time of 0 the toxic drops all bytes, and closes nothing.
		_, err := p.AddToxic("cut_"+stream, "timeout", stream, 1, toxiproxy.Attributes{"timeout": 0})
		return err
	}))
}

// mend undoes cut. Connections that lost bytes are closed.
func (c *cluster) mend(ways ...way) error {
	return errors.Join(c.gossip("mend", ways), c.carried(ways, func(p *toxiproxy.Proxy, stream string) error {
		return p.RemoveToxic("cut_" + stream)
	}))
}

// gossip changes which other regions the nodes of a region can send packets to.
func (c *cluster) gossip(what string, ways []way) error {
	targets := map[string][]string{}
	for _, w := range ways {
		targets[w.from] = append(targets[w.from], fmt.Sprintf("%s.%d.0/24", network(), codes[w.to]))
	}
	return atOnce(c.members, func(m member) error {
		if len(targets[m.region]) == 0 {
			return nil
		}
		id, err := c.id(m.name)
		if err != nil {
			return err
		}
		_, err = docker(c.ctx, append([]string{"run", "--rm", "--network", "container:" + id, "--user", "0", "--cap-add", "NET_ADMIN", wanImage, what}, targets[m.region]...)...)
		return err
	})
}

// carried calls change for each stream of each proxy that carries bytes along some ways: the
// proxies of the sending region carry requests upstream, and their answers downstream.
func (c *cluster) carried(ways []way, change func(p *toxiproxy.Proxy, stream string) error) error {
	var errs []error
	for _, w := range ways {
		errs = append(errs,
			c.proxies(w.from, w.to, func(p *toxiproxy.Proxy) error { return change(p, "upstream") }),
			c.proxies(w.to, w.from, func(p *toxiproxy.Proxy) error { return change(p, "downstream") }))
	}
	return errors.Join(errs...)
}

// postgresPort is where the host's PostgreSQL is on every wan. It belongs to no
// region that can be cut off, see compose.postgres.yaml.
const postgresPort = ":26257"

// proxies calls f for all that lead from a region to another one.
func (c *cluster) proxies(from, to string, f func(*toxiproxy.Proxy) error) error {
	all, err := toxiproxy.NewClient(fmt.Sprintf("http://%s.0.1%d:8474", network(), codes[from])).Proxies()
	if err != nil {
		return err
	}
	var errs []error
	for name, p := range all {
		if strings.HasPrefix(name, to+":") && !strings.HasSuffix(name, postgresPort) {
			errs = append(errs, f(p))
		}
	}
	return errors.Join(errs...)
}

// slow delays every packet of a region to and from others by more; 0 ends the delay.
func (c *cluster) slow(region string, more time.Duration) error {
	var ways []way
	for _, r := range regions {
		if r != region {
			ways = append(ways, way{region, r}, way{r, region})
		}
	}
	return c.carried(ways, func(p *toxiproxy.Proxy, stream string) error {
		if more == 0 {
			return p.RemoveToxic("slow_" + stream)
		}
		_, err := p.AddToxic("slow_"+stream, "latency", stream, 1, toxiproxy.Attributes{"latency": more.Milliseconds()})
		return err
	})
}

// ready reports whether a node wants traffic.
func (c *cluster) ready(m member) bool {
	ctx, cancel := context.WithTimeout(c.ctx, attemptTime)
	defer cancel()
	_, err := c.get(ctx, m.url+"/readyz")
	return err == nil
}

// get returns the body of an answer with status 200.
func (c *cluster) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, body)
	}
	return body, err
}

// artefacts is the directory for the logs of failed scenarios.
const artefacts = "../artefacts"

// keep saves every container's log, running or not.
func (c *cluster) keep(dir string) error {
	names, err := docker(c.ctx, "ps", "--all", "--filter", "label=com.docker.compose.project="+project, "--format", `{{.ID}} {{.Label "com.docker.compose.service"}}`)
	if err != nil {
		return err
	}
	return atOnce(strings.Split(strings.TrimSpace(names), "\n"), func(line string) error {
		id, service, _ := strings.Cut(line, " ")
		_, err := command(c.ctx, nil, "sh", "-c", `docker logs --timestamps "$0" >"$1" 2>&1`, id, filepath.Join(dir, service+".log"))
		return err
	})
}

// decode decodes the body of an answer with status 200.
func decode(res *http.Response, v any) error {
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", res.Status)
	}
	return json.NewDecoder(res.Body).Decode(v)
}

// receive waits for a signal, at most for patience.
func receive[T any](ctx context.Context, signal <-chan T) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-signal:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("gave up waiting: %w", ctx.Err())
	}
}
