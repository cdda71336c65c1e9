// Package operator asks the nodes of a running deployment, over their RPC, what a person
// or a tool wants to know of its regions, and has their status changed. It imports
// region/admin and what is below that: what it asks runs elsewhere.
package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/homeward-io/homeward/region"
	"github.com/homeward-io/homeward/region/admin"
)

// Access says which nodes are asked, and as whom.
type Access struct {
	Nodes []string // RPC addresses, host:port
	Certificate
}

// Certificate is an operator's. The zero value is none, where the nodes have none.
type Certificate struct {
	// Cert, Key and CA are files, PEM.
	Cert string `json:"cert"`
	Key  string `json:"key"`
	CA   string `json:"ca"`
	// TrustDomain is the deployment's name in them.
	TrustDomain string `json:"trust_domain"`
}

// askTime bounds one question: a node asks all others on our behalf, for 5 s each
// and at the same time.
const askTime = 15 * time.Second

// Operator asks nodes in turn until one answers. What it does it says, a line at a time.
// It is for one goroutine.
type Operator struct {
	clients []*admin.Client
	addrs   []string // of the clients
	certs   bool     // we have a certificate
	say     func(line string)
}

// Open contacts no node. The caller closes it.
func Open(a Access, say func(line string)) (_ *Operator, err error) {
	var certs *region.TLS
	switch given := []string{a.Cert, a.Key, a.CA}; {
	case strings.Join(given, "") == "":
	case a.Cert == "" || a.Key == "" || a.CA == "":
		return nil, errors.New("--cert, --key and --ca go together; give all three, or none")
	default:
		if certs, err = region.NewTLS(region.TLSConfig{CertFile: a.Cert, KeyFile: a.Key, CAFile: a.CA, TrustDomain: a.TrustDomain}); err != nil {
			return nil, err
		}
	}
	o := &Operator{addrs: a.Nodes, certs: certs != nil, say: say}
	for _, addr := range a.Nodes {
		c, err := admin.NewClient(addr, certs)
		if err != nil {
			return nil, fmt.Errorf("--node: %w", err)
		}
		o.clients = append(o.clients, c)
	}
	return o, nil
}

// Close ends the connections.
func (o *Operator) Close() {
	for _, c := range o.clients {
		c.Close()
	}
}

// ask runs question at one node after the other until one answers.
func ask[T any](ctx context.Context, o *Operator, question func(context.Context, *admin.Client) (T, error)) (answer T, err error) {
	for _, c := range o.clients {
		asking, cancel := context.WithTimeout(ctx, askTime)
		answer, err = question(asking, c)
		cancel()
		if !errors.Is(err, region.ErrNoAnswer) || ctx.Err() != nil {
			return answer, err
		}
	}
	if ctx.Err() == nil && len(o.addrs) == 1 {
		if what := o.whoIsThere(ctx, o.addrs[0]); what != "" {
			return answer, fmt.Errorf("no node answers at %s: %s", o.addrs[0], what)
		}
	}
	return answer, fmt.Errorf("%w; name a node with --node or --cluster, and your certificate with --cert, --key and --ca", err)
}

// lookTime bounds the look at what listens where no node's RPC did.
const lookTime = 3 * time.Second

// whoIsThere says what may listen at an address, and what to do then; "" if nothing
// is known.
func (o *Operator) whoIsThere(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	// Who it is does not matter: nothing is sent but the question.
	dial := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	secret, err := dial.DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = secret.Close() // nothing was sent
		if o.certs {
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
	case o.certs:
		return "it answers without TLS; leave --cert, --key and --ca out if it is a node's RPC listener"
	default:
		return "what listens there is no node's RPC listener; name rpc.listen of a node's settings"
	}
}

// Overview is the deployment as the node that answers sees it, once it knows epoch.
func (o *Operator) Overview(ctx context.Context, epoch uint64) (*admin.Overview, error) {
	return ask(ctx, o, func(ctx context.Context, c *admin.Client) (*admin.Overview, error) {
		return c.Overview(ctx, true, epoch)
	})
}

// Look is Overview with what q says.
func (o *Operator) Look(ctx context.Context, q admin.Question) (*admin.Overview, error) {
	return ask(ctx, o, func(ctx context.Context, c *admin.Client) (*admin.Overview, error) { return c.Ask(ctx, q) })
}

func (o *Operator) setStatus(ctx context.Context, name string, status region.Status) (epoch uint64, err error) {
	return ask(ctx, o, func(ctx context.Context, c *admin.Client) (uint64, error) {
		return c.SetStatus(ctx, name, status)
	})
}
