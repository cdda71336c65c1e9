package simulate

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/lab/devcerts"
	"github.com/homeward-io/homeward/region"
)

const (
	trustDomain = "homeward"
	rpcPort     = "81"
)

// authorities sign the certificates of nodes.
type authorities struct {
	dir    string
	former *devcerts.Authority // which no node trusts: the one before, or that of others

	mu      sync.Mutex
	signs   *devcerts.Authority
	trusted []*devcerts.Authority
}

func newAuthorities(w *world) *authorities {
	first := newAuthority(w)
	return &authorities{dir: w.t.TempDir(), former: newAuthority(w), signs: first, trusted: []*devcerts.Authority{first}}
}

func newAuthority(w *world) *devcerts.Authority {
	a, err := devcerts.NewAuthority(time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0))
	require.NoError(w.t, err)
	return a
}

// issue puts a certificate of a node that trusts the present authorities into a directory, one file after the other.
func (a *authorities) issue(dir string, of region.Identity, by *devcerts.Authority) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, err := of.URI(trustDomain)
	if err != nil {
		return err
	}
	if by == nil {
		by = a.signs
	}
	cert, key, err := by.Issue(time.Now().Add(-time.Minute), time.Now().AddDate(0, 1, 0), name)
	if err != nil {
		return err
	}
	var trusted bytes.Buffer
	for _, t := range a.trusted {
		trusted.Write(t.PEM())
	}
	if err := os.MkdirAll(filepath.Join(a.dir, dir), 0o700); err != nil {
		return err
	}
	for file, content := range map[string][]byte{"cert": cert, "key": key, "ca": trusted.Bytes()} {
		next := filepath.Join(a.dir, dir, "next")
		if err := os.WriteFile(next, content, 0o600); err != nil {
			return err
		}
		if err := os.Rename(next, filepath.Join(a.dir, dir, file)); err != nil {
			return err
		}
	}
	return nil
}

// open reads a directory of issue as a node of a region does, "" for any.
func (a *authorities) open(w *world, dir, of string) (*region.TLS, error) {
	in := func(file string) string { return filepath.Join(a.dir, dir, file) }
	return region.NewTLS(region.TLSConfig{CertFile: in("cert"), KeyFile: in("key"), CAFile: in("ca"), TrustDomain: trustDomain, Region: of, Logger: w.logger(dir)})
}

func (m *machine) identity() region.Identity { return region.Identity{Region: m.region, Node: m.name} }

// certificates are the node's, which gets some before its first start.
func (m *machine) certificates() (*region.TLS, error) {
	a := m.w.authorities
	if m.started == 1 {
		if err := a.issue(m.name, m.identity(), nil); err != nil {
			return nil, err
		}
	}
	return a.open(m.w, m.name, m.region)
}

// renewCertificates replaces the nodes' certificates, and then their authority, in the steps of docs/RUNBOOK.md,
// without a restart. Some nodes lose their connections in each step, so that others meet them with what they have then.
// At last one node gets a certificate of another region by mistake for a while, which it must not use.
func (w *world) renewCertificates() {
	a, rng := w.authorities, rand.New(rand.NewPCG(w.seed, 9))
	former, next := a.signs, newAuthority(w)
	for _, to := range []struct {
		signs   *devcerts.Authority
		trusted []*devcerts.Authority
	}{
		{former, []*devcerts.Authority{former}},
		{former, []*devcerts.Authority{former, next}},
		{next, []*devcerts.Authority{former, next}},
		{next, []*devcerts.Authority{next}},
	} {
		a.mu.Lock()
		a.signs, a.trusted = to.signs, to.trusted
		a.mu.Unlock()
		all := slices.Clone(w.nodes())
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, m := range all {
			w.reissue(m, m.identity())
			if rng.IntN(2) == 0 {
				w.network.reset(m.host, rpcPort)
			}
			time.Sleep(between(rng, 2*time.Second))
		}
		time.Sleep(2 * time.Second) // a node looks at its files once a second
	}
	a.former = former
	m := w.nodes()[rng.IntN(len(w.nodes()))]
	w.reissue(m, region.Identity{Region: regions[(slices.Index(regions, m.region)+1)%len(regions)], Node: m.name})
	for range 3 {
		time.Sleep(2 * time.Second)
		w.network.reset(m.host, rpcPort)
		if err := w.meet("witness", region.Identity{Region: m.region, Node: "witness"}, nil, m, m.region); err != nil && strings.Contains(err.Error(), "is not a node of") {
			w.t.Errorf("seed %d: %s uses a certificate of another region: %v", w.seed, m.name, err)
		}
	}
	w.reissue(m, m.identity())
}

func (w *world) reissue(m *machine, of region.Identity) {
	if err := w.authorities.issue(m.name, of, nil); err != nil {
		w.t.Errorf("the certificates of %s: %v", m.name, err)
	}
}

// meet has somebody with a certificate by an authority, nil for the present one, send a request to a node, for one of
// a region. It returns nil if there was an answer.
func (w *world) meet(name string, who region.Identity, by *devcerts.Authority, m *machine, of string) error {
	w.must(w.authorities.issue(name, who, by))
	a := w.authorities
	certs, err := a.open(w, name, "")
	if by != nil { // its own file has to trust who signed it
		w.must(os.WriteFile(filepath.Join(a.dir, name, "ca"), slices.Concat(by.PEM(), a.signs.PEM()), 0o600))
		certs, err = a.open(w, name, "")
	}
	w.must(err)
	from := w.network.hosts["10.8.0.1"]
	transport := region.NewTransport(certs).Through(from.process())
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(region.Towards(w.ctx, of), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+m.ip+":"+rpcPort+"/", nil)
	w.must(err)
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// certificateBreaks asks each healthy node with certificates that it has to take, and not to take.
func (w *world) certificateBreaks() (wrong []string) {
	for i, m := range w.nodes() {
		peer := region.Identity{Region: m.region, Node: "witness"}
		if err := w.meet("witness", peer, nil, m, m.region); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s does not answer a node with the deployment's certificate: %v", m.name, err))
		}
		if w.meet("stranger", peer, w.authorities.former, m, m.region) == nil {
			wrong = append(wrong, fmt.Sprintf("%s answers a node with a certificate of an authority that is not trusted", m.name))
		}
		if of := regions[(i/perRegion+1)%len(regions)]; w.meet("witness", peer, nil, m, of) == nil {
			wrong = append(wrong, fmt.Sprintf("%s passes for a node of %s", m.name, of))
		}
	}
	return wrong
}
