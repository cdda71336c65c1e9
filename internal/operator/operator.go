// Package operator queries the nodes of a running deployment, over their RPC, about its
// regions, and changes the status of regions. It imports region/admin and its
// dependencies: the queries run elsewhere.
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

// Access selects the nodes to query, and the caller's identity.
type Access struct {
	Nodes []string // RPC addresses, host:port
	Certificate
}

// Certificate is the operator's certificate. The zero value is none, for nodes without
// TLS.
type Certificate struct {
	// Cert, Key and CA are files, PEM.
	Cert string `json:"cert"`
	Key  string `json:"key"`
	CA   string `json:"ca"`
	// TrustDomain is the deployment's name in them.
	TrustDomain string `json:"trust_domain"`
}

// askTime bounds one query: a node queries all others for it, concurrently for up to 5
// s each.
const askTime = 15 * time.Second

// Operator queries nodes in turn until one answers. It prints its progress, a line at a
// time. It is not safe for concurrent use.
type Operator struct {
	clients []*admin.Client
	addrs   []string // of the clients
	certs   bool     // we have a certificate
	say     func(line string)
}

// Open contacts no node. The caller closes it.
func Open(a Access, say func(line string)) (_ *Operator, err error) {
	var certs *region.TLS
	switch files := []string{a.Cert, a.Key, a.CA}; {
	case strings.Join(files, "") == "":
	case a.Cert == "" || a.Key == "" || a.CA == "":
		return nil, errors.New("--cert, --key and --ca go together; give all three, or none")
	default:
		if certs, err = region.NewTLS(region.TLSConfig{CertFile: a.Cert, KeyFile: a.Key, CAFile: a.CA, TrustDomain: a.TrustDomain}); err != nil {
			return nil, err
		}
	}
	o := &Operator{addrs: a.Nodes, certs: certs != nil, say: say}
	for i, addr := range a.Nodes {
		var c *admin.Client
		if i == 0 {
			c, err = admin.NewClient(addr, certs)
		} else {
			c, err = o.clients[0].At(addr)
		}
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

// lookTime bounds the check of what listens if no node's RPC answered.
const lookTime = 3 * time.Second

// whoIsThere returns what may listen at an address, and what to do then; "" if it cannot tell.
func (o *Operator) whoIsThere(ctx context.Context, addr string) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	// The identity does not matter: nothing is sent but the query.
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
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; start the node, or name one that runs with --node or --cluster"
	case ctx.Err() != nil:
		return ""
	case err != nil:
		return "what listens there does not speak HTTP; name rpc.listen of a node's settings"
	}
	defer func() { _ = res.Body.Close() }() // it was only checked
	switch {
	case res.StatusCode == http.StatusOK:
		return "this is a node's API; name its RPC listener, rpc.listen in its settings"
	case o.certs:
		return "it answers without TLS; leave --cert, --key and --ca out if it is a node's RPC listener"
	default:
		return "what listens there is no node's RPC listener; name rpc.listen of a node's settings"
	}
}

// Overview returns the answering node's view of the deployment, once that has epoch.
func (o *Operator) Overview(ctx context.Context, epoch uint64) (*admin.Overview, error) {
	return ask(ctx, o, func(ctx context.Context, c *admin.Client) (*admin.Overview, error) {
		return c.Overview(ctx, admin.Question{Gather: true, Epoch: epoch})
	})
}

// Look is Overview with the options of q.
func (o *Operator) Look(ctx context.Context, q admin.Question) (*admin.Overview, error) {
	return ask(ctx, o, func(ctx context.Context, c *admin.Client) (*admin.Overview, error) { return c.Overview(ctx, q) })
}

func (o *Operator) setStatus(ctx context.Context, name string, status region.Status) (epoch uint64, err error) {
	return ask(ctx, o, func(ctx context.Context, c *admin.Client) (uint64, error) {
		return c.SetStatus(ctx, name, status)
	})
}
