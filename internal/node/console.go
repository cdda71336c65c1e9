package node

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/internal/console"
	"github.com/homeward-io/homeward/internal/inspect"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/region"
)

// Console configures a node's console: its listener and its users.
type Console struct {
	Listen string // host:port
	Access console.Access
	// Certs requires a certificate of the deployment from callers; nil: Access
	// authenticates them.
	Certs *region.TLS
	// TLS is shown to browsers: by default Certs' own. Without either the console is
	// served in clear text, for this machine or behind a proxy that ends TLS.
	TLS *tls.Config
	// Actions lets operators act.
	Actions bool
	// TraceURL is as in [console.Config].
	TraceURL string
	// Hint is an example request, shown while no request has arrived.
	Hint func() []string
}

// ConsoleListen is the setting that a [ListenError] of a console names.
const ConsoleListen = "console.listen"

const (
	// consoleHead and consoleIdle are generous for a browser, as callers are
	// authenticated.
	consoleHead = 10 * time.Second
	consoleIdle = 2 * time.Minute
	// consoleHeaders has room for a cookie, and a form's token.
	consoleHeaders = 32 << 10
)

// serveConsole serves this node's view of the deployment to operators.
func (n *Node) serveConsole(context.Context) (parts.Stop, error) {
	c := n.c.Console
	if c == nil {
		return nil, nil
	}
	var kept console.Runs
	if n.c.RunsBook != nil {
		kept = n.c.RunsBook
	}
	handler, err := console.New(console.Config{
		Money: n.c.Store, Runs: kept,
		Deployment: n.admin, Queues: n.c.Store, History: histories{n}, TraceURL: c.TraceURL, Region: n.c.Region, Node: n.c.Name, Access: c.Access, Actions: c.Actions, Hint: c.Hint, Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	server := c.server(handler)
	n.serve("console", server, n.conListener)
	return func(ctx context.Context) error { return shutdown(ctx, server) }, nil
}

func (c *Console) server(handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, TLSConfig: c.TLS, ReadTimeout: consoleHead}
	if c.Certs != nil {
		server = region.NewServer(handler, c.Certs)
		server.Protocols.SetHTTP1(true)
		if c.TLS != nil {
			server.TLSConfig.GetCertificate = c.TLS.GetCertificate
		}
	}
	server.ReadHeaderTimeout, server.IdleTimeout, server.MaxHeaderBytes = consoleHead, consoleIdle, consoleHeaders
	return server
}

// ConsoleAddr is the address of the console; "" if there is none.
func (n *Node) ConsoleAddr() string {
	if n.conListener == nil {
		return ""
	}
	return n.conListener.Addr().String()
}

// histories reads the history of a key, in the present regions.
type histories struct{ *Node }

// Read implements [console.History].
func (h histories) Read(ctx context.Context, q inspect.Query) (inspect.History, error) {
	r := inspect.Reader{Rows: h.c.Store, Regions: h.c.Topology.Regions(), Policy: h.c.Policy, Digits: psp.MinorDigits}
	return r.Read(ctx, q)
}
