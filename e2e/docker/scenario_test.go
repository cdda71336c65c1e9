package docker

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/e2e/answer"
	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// maxImage bounds the project's image, in bytes: it has 49.1 MB, of which Prometheus' exporter and
// HTTP handler, the export of metrics, the console and three more providers are some five, licences
// and time zones nearly one, and a gateway's rules with the tokens of its tenants a third of one. A
// half is for the next changes. Before you raise it, remove something: see docs/design/providers.md.
const maxImage = 49_600_000

// TestImage checks that the image is small, runs as no user of the host, and has a binary that
// needs nothing else.
func TestImage(t *testing.T) {
	c := needCluster(t)
	out, err := docker(c.ctx, "image", "inspect", "--format", "{{.Size}} {{.Config.User}}", image)
	require.NoError(t, err)
	size, user, _ := strings.Cut(strings.TrimSpace(out), " ")
	bytes, err := strconv.Atoi(size)
	require.NoError(t, err)
	require.Less(t, bytes, maxImage)
	require.Equal(t, "65532:65532", user)
	t.Logf("%.1f MB", float64(bytes)/1e6)

	binary, err := elf.Open(filepath.Join(c.images, "homeward"))
	require.NoError(t, err)
	defer func() { _ = binary.Close() }()
	for _, p := range binary.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "the binary needs a dynamic linker")
	}
	out, err = docker(c.ctx, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", image, "version")
	require.NoError(t, err)
	require.NotEmpty(t, out)
}

// scenarios run in this order.
var scenarios = []struct {
	name string
	run  func(s *scene)
}{
	{"region-killed", regionKilled},
	{"region-frozen", regionFrozen},
	{"partition", partition},
	{"partition-one-way", partitionOneWay},
	{"region-cut-off", regionCutOff},
	{"node-killed-mid-forward", nodeKilledMidForward},
	{"slow-region", slowRegion},
	{"database-lost", databaseLost},
	{"simulator-down", simulatorDown},
	{"clock-wrong", clockWrong},
	{"rolling-restart", rollingRestart},
}

// scene is one scenario under way.
type scene struct {
	*testing.T
	c *cluster
	l *load
}

func TestScenarios(t *testing.T) {
	c := needCluster(t)
	whole := false
	for i, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			anew := !whole
			if anew {
				began := time.Now()
				require.NoError(t, c.up())
				t.Logf("the cluster was started in %v", time.Since(began).Round(time.Second))
			}
			whole = false
			if sc.name == "clock-wrong" { // before the clients begin
				for _, w := range wrongClocks {
					require.NoError(t, wrongClock(c.ctx, t.TempDir(), filepath.Join(c.certs, w.program), w.by))
				}
			}
			began := time.Now()
			s := &scene{t, c, c.begin(c.ctx, i)}
			defer func() {
				s.l.end()
				if t.Failed() {
					s.keep(sc.name)
				}
				s.l.cancel()
			}()
			r := row{scenario: sc.name}
			defer func() {
				r.took, r.ok = time.Since(began), !t.Failed()
				rows = append(rows, r)
			}()
			s.must(c.provider(everyday))
			if anew { // else the last scenario ended with that
				s.whole()
			}
			for range warm {
				s.must(receive(c.ctx, s.l.through))
			}
			sc.run(s)
			s.whole()
			s.l.end()
			s.l.judge(t, &r.tally)
			whole = !t.Failed()
		})
	}
	if len(rows) == 0 {
		names := ""
		for _, sc := range scenarios {
			names += " " + sc.name
		}
		t.Error("no scenario has this name; there are" + names)
	}
}

// keep saves the logs and the history of a failed scenario.
func (s *scene) keep(name string) {
	dir := filepath.Join(artefacts, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.Log(err)
		return
	}
	// The directory hides itself from git.
	for _, err := range []error{
		os.WriteFile(filepath.Join(artefacts, ".gitignore"), []byte("*\n"), 0o600),
		s.c.keep(dir),
		s.l.keep(dir),
	} {
		if err != nil {
			s.Log(err)
		}
	}
	s.Logf("logs and history are in e2e/artefacts/%s", name)
}

// must ends the scenario after an error.
func (s *scene) must(err error) {
	s.Helper()
	require.NoError(s, err)
}

// until waits until ok, at most for patience.
func (s *scene) until(what string, ok func() bool) {
	s.Helper()
	s.must(s.c.until(what, func() error { return expect(ok()) }))
}

func expect(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("not yet")
}

// at returns the first or second node of a region.
func (s *scene) at(region string, n int) member {
	for _, m := range s.c.members {
		if m.name == fmt.Sprintf("%s-%d", region, n) {
			return m
		}
	}
	panic("no such node")
}

// home reports whether a node reaches a region: the region makes a new charge, and the node's own
// region does not make it as deputy.
func (s *scene) home(at member, region string) bool {
	r := s.l.pay(at, region)
	return r.Status == http.StatusCreated && servedBy(r) == region
}

// whole waits until every node is ready and reaches every region.
func (s *scene) whole() {
	s.Helper()
	s.must(atOnce(s.c.members, s.joined))
}

// joined waits until a node is ready and reaches every region.
func (s *scene) joined(m member) error {
	if err := s.c.until(m.name+" is ready", func() error { return expect(s.c.ready(m)) }); err != nil {
		return err
	}
	return atOnce(regions, func(region string) error {
		return s.c.until(m.name+" reaches "+region, func() error { return expect(s.home(m, region)) })
	})
}

// deputises waits until the nodes of some regions serve the keys of another one, which each of them
// has lost: they charge new keys themselves. Each way leads from a region to one that it has lost.
func (s *scene) deputises(ways ...way) {
	s.Helper()
	began := time.Now()
	s.must(atOnce(ways, func(w way) error {
		err := atOnce([]int{1, 2}, func(n int) error {
			return s.c.until(fmt.Sprintf("%s-%d acts for %s", w.from, n, w.to), func() error {
				r := s.l.pay(s.at(w.from, n), w.to)
				return expect(r.Status == http.StatusCreated && servedBy(r) == w.from)
			})
		})
		s.Logf("%s serves the keys of %s after %v", w.from, w.to, time.Since(began).Round(100*time.Millisecond))
		return err
	}))
}

// regionKilled: all of a region dies at once. The others serve its keys, and when it is back it
// serves them again.
func regionKilled(s *scene) {
	s.must(s.c.signal(s.c.of(eu), "kill"))
	s.deputises(way{us, eu}, way{asia, eu})
	s.must(s.c.signal(s.c.of(eu), "start"))
}

// held makes charges at a node while the provider has faults f, and waits until they are in flight.
// The channel gets the answers.
func (s *scene) held(n int, at member, home string, f faults) ([]*send, <-chan *answer.Answer) {
	s.must(s.c.provider(f))
	sends, replies := make([]*send, n), make(chan *answer.Answer, n)
	for i := range sends {
		one := s.l.fresh(home)
		sends[i] = one
		s.l.running.Go(func() { replies <- s.l.attempt(s.l.ctx, probeClient, one, at, patience) })
	}
	look := s.at(home, 1)
	s.must(atOnce(sends, func(one *send) error {
		return s.c.until(one.key+" is in flight", func() error {
			if state := s.state(look, one); state != "IN_FLIGHT" {
				return fmt.Errorf("it is %q", state)
			}
			return nil
		})
	}))
	return sends, replies
}

// state is a node's state of a key, "" if it has none.
func (s *scene) state(at member, one *send) string {
	req, err := http.NewRequestWithContext(s.c.ctx, http.MethodGet, at.url+"/v1/idempotency-keys/"+one.key, nil)
	if err != nil {
		return ""
	}
	req.Header.Set("Authorization", "Bearer "+s.c.keys[one.tenant])
	res, err := s.c.http.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	var status struct{ State string }
	if decode(res, &status) != nil {
		return ""
	}
	return status.State
}

// finish retries a charge at a node until it has a final answer.
func (s *scene) finish(one *send, at member) *answer.Answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.l.ctx, patience)
	defer cancel()
	r := s.l.settle(ctx, probeClient, one, func() member { return at })
	require.Equal(s, http.StatusCreated, r.Status, "%v", r)
	return r
}

// regionFrozen: all of a region is frozen with charges in flight, long enough for others to take
// them over, and resumes. Its late answers must change nothing.
func regionFrozen(s *scene) {
	sends, replies := s.held(4, s.at(eu, 1), eu, holding)
	s.must(s.c.signal(s.c.of(eu), "pause"))
	s.must(s.c.provider(everyday))
	for i, one := range sends {
		s.finish(&send{request: one.request, amount: one.amount}, s.at([]string{us, asia}[i%2], 1+i/2))
	}
	s.must(s.c.signal(s.c.of(eu), "unpause"))
	for _, one := range sends {
		// The late holder gives no second answer: the history would show it.
		s.must(receive(s.c.ctx, replies))
		s.finish(one, s.at(eu, 1))
	}
}

// partition: two regions cannot reach each other, both reach the third. Gossip still passes through
// the third.
func partition(s *scene) {
	ways := []way{{us, eu}, {eu, us}}
	s.must(s.c.cut(ways...))
	s.unreached(us, eu)
	s.deputises(way{us, eu}, way{eu, us})
	s.until("asia still reaches europe", func() bool { return s.home(s.at(asia, 1), eu) })
	s.must(s.c.mend(ways...))
}

// partitionOneWay: packets from us to europe are lost, those from europe to us arrive. So us gets no
// answer, and europe's requests are executed without an answer.
func partitionOneWay(s *scene) {
	s.must(s.c.cut(way{us, eu}))
	s.unreached(us, eu)
	s.deputises(way{us, eu}, way{eu, us})
	s.must(s.c.mend(way{us, eu}))
}

// regionCutOff: a region is alone. Both sides act on the same rows if they reach the database. A
// database that is partitioned as well has its majority with the others, and the region alone fails
// closed.
func regionCutOff(s *scene) {
	ways := []way{{eu, us}, {us, eu}, {eu, asia}, {asia, eu}}
	s.must(s.c.cut(ways...))
	s.unreached(us, eu)
	if s.c.kind == localdb.CockroachDB {
		s.deputises(way{us, eu}, way{asia, eu})
		for _, home := range []string{us, eu} {
			r := s.l.attempt(s.l.ctx, probeClient, s.toSettle(s.l.fresh(home)), s.at(eu, 1), attemptTime)
			require.NotEqual(s, http.StatusCreated, r.Status, "charged by a minority: %v", r)
		}
	} else {
		s.deputises(way{us, eu}, way{asia, eu}, way{eu, us})
	}
	s.must(s.c.mend(ways...))
}

// unreached checks that a cut holds: the far side does not make a new charge that is at home there.
func (s *scene) unreached(here, there string) {
	s.Helper()
	r := s.l.attempt(s.l.ctx, probeClient, s.toSettle(s.l.fresh(there)), s.at(here, 1), attemptTime)
	require.NotEqual(s, there, servedBy(r), "the cut lets requests through: %v", r)
}

// nodeKilledMidForward: a node dies with forwarded charges in flight, before the provider has
// decided, and then again when money has moved and no answer was sent. The other one of its region
// answers for them.
func nodeKilledMidForward(s *scene) {
	dying := []string{eu + "-1"}
	for _, f := range []faults{holding, mute} {
		sends, replies := s.held(8, s.at(us, 1), eu, f)
		if f == mute {
			for _, one := range sends {
				s.until("money has moved for "+one.key, func() bool { return s.charged(one) })
			}
		}
		s.must(s.c.signal(dying, "kill"))
		s.must(s.c.provider(everyday))
		for range sends {
			s.must(receive(s.c.ctx, replies))
		}
		for i, one := range sends {
			s.finish(one, s.at(regions[i%3], 2))
		}
		s.must(s.c.signal(dying, "start"))
		s.whole()
	}
}

// charged reports whether money has moved for a charge.
func (s *scene) charged(one *send) bool {
	moved, err := s.l.movements()
	s.must(err)
	for e := range moved {
		if e.Amount == one.amount {
			return true
		}
	}
	return false
}

// slowRegion: packets to and from a region take three times as long. It serves its keys itself.
func slowRegion(s *scene) {
	const more = 200 * time.Millisecond
	s.must(s.c.slow(asia, more))
	for _, r := range regions {
		s.until("asia is slow and not lost, seen from "+r, func() bool {
			began := time.Now()
			there := s.home(s.at(r, 1), asia)
			if r != asia && there {
				require.Greater(s, time.Since(began), 2*more)
			}
			return there
		})
	}
	s.until("asia reaches the others", func() bool { return s.home(s.at(asia, 2), us) })
	s.must(s.c.slow(asia, 0))
}

// databaseLost: without the only database nothing is charged, and every answer asks for a retry. Of
// three database nodes one may be lost.
func databaseLost(s *scene) {
	lost := s.c.databases()[:1]
	s.must(s.c.signal(lost, "kill"))
	s.must(atOnce(s.c.members, func(m member) error {
		if s.c.kind == localdb.CockroachDB && m.region != eu {
			return nil
		}
		if err := s.c.until(m.name+" is not ready", func() error { return expect(!s.c.ready(m)) }); err != nil {
			return err
		}
		_, err := s.refused(m, m.region, attemptTime)
		return err
	}))
	if s.c.kind == localdb.CockroachDB {
		s.until("us-east1 serves its keys", func() bool { return s.home(s.at(us, 1), us) })
	}
	s.must(s.c.signal(lost, "start"))
}

// toSettle settles a charge at the end of the scenario, so that judge finds its final answer.
func (s *scene) toSettle(one *send) *send {
	s.l.running.Go(func() {
		<-s.l.ending
		s.l.settle(s.l.ctx, probeClient, one, s.l.anywhere)
	})
	return one
}

// refused makes a charge that is at home in a region, which gets the answer 503.
func (s *scene) refused(at member, home string, patience time.Duration) (*answer.Answer, error) {
	r := s.l.attempt(s.l.ctx, probeClient, s.toSettle(s.l.fresh(home)), at, patience)
	if r.Err == nil && r.Status == http.StatusServiceUnavailable {
		return r, nil
	}
	return r, fmt.Errorf("%s answers %v", at.name, r)
}

// simulatorDown: without the provider nothing is charged and no answer reports a charge. Its books
// survive.
func simulatorDown(s *scene) {
	s.must(s.c.signal([]string{"simulator"}, "kill"))
	s.must(atOnce(regions, func(r string) error {
		got, err := s.refused(s.at(r, 2), r, patience)
		if err == nil && got.Problem.Retry != "same_key" {
			err = fmt.Errorf("%s-2 does not ask for a retry under the same key: %v", r, got)
		}
		return err
	}))
	s.must(s.c.signal([]string{"simulator"}, "start"))
}

// wrongClocks are in this order. Fresh certificates are dated back by 5 minutes, so a clock is less
// behind.
var wrongClocks = []struct {
	program string
	by      time.Duration
}{{"homeward-ahead", 10 * time.Minute}, {"homeward-behind", -4 * time.Minute}}

// clockWrong: a node's clock is minutes ahead, then behind. Rows have the database's time, so it
// changes nothing.
func clockWrong(s *scene) {
	wrong, plain := s.at(eu, 2), slices.Clip(s.c.env)
	change := func(program string) {
		s.c.env = append(plain, "E2E_CLOCK_PROGRAM="+program)
		s.must(s.c.compose(s.c.ctx, "up", "-d", "--no-deps", wrong.name))
		s.until(wrong.name+" is ready", func() bool { return s.c.ready(wrong) })
	}
	defer func() { s.c.env = plain }()
	for _, w := range wrongClocks {
		change("/certs/" + w.program)
		res, err := s.c.http.Get(wrong.url + "/livez")
		s.must(err)
		s.must(res.Body.Close())
		at, err := http.ParseTime(res.Header.Get("Date"))
		s.must(err)
		require.InDelta(s, w.by.Seconds(), time.Until(at).Seconds(), 30, "the node's clock")
		s.whole()
		// Its claims are in flight while a rival elsewhere sends the same keys.
		sends, replies := s.held(4, wrong, eu, holding)
		for i, one := range sends {
			s.finish(&send{request: one.request, amount: one.amount}, s.at(regions[i%3], 1))
			s.must(receive(s.c.ctx, replies))
		}
		s.must(s.c.provider(everyday))
	}
	change("/homeward")
}

// rollingRestart: every node gets SIGTERM, finishes its work, and comes back before the next.
func rollingRestart(s *scene) {
	for _, m := range s.c.members {
		s.must(s.c.signal([]string{m.name}, "stop", "--time", stopTime))
		code, err := s.c.exitCode(m.name)
		s.must(err)
		assert.Equal(s, "0", code, "%s did not drain", m.name)
		s.must(s.c.signal([]string{m.name}, "start"))
		s.must(s.joined(m))
	}
}
