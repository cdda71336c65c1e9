package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

// Simulator is a simulator behind its own listener.
type Simulator struct {
	*simulator.Simulator
	secret string // what it signs webhooks to nodes with
	server *http.Server
	addr   string
	done   chan error
}

// StartSimulator starts a simulator at the address of a flag.
func StartSimulator(flag, listen string, c simulator.Config) (*Simulator, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, occupied("the simulator", flag, listen, err)
	}
	sim, err := simulator.Open(c)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Simulator{Simulator: sim, secret: secretOf(sim), server: sim.NewServer(listen), addr: l.Addr().String(), done: make(chan error, 1)}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// pathNotices is where nodes receive the simulator's webhooks.
const pathNotices = "/v1/webhooks/simulator"

// secretOf is the secret with which the simulator of this directory has signed webhooks to
// nodes, or a new one. It signs those with the same one that an earlier process left unsent.
func secretOf(s *simulator.Simulator) string {
	for _, t := range s.NoticeStats().Notices.Targets {
		if strings.HasSuffix(t.URL, pathNotices) && !t.Stripe && !t.Adyen {
			return t.Secret
		}
	}
	return relay.NewSecret()
}

// Secret is what the webhooks of [Simulator.Notify] are signed with.
func (s *Simulator) Secret() string { return s.secret }

// Notify has the simulator send a webhook of every movement to the API at base,
// http://host:port.
func (s *Simulator) Notify(base string) error {
	return s.SetNotices(simulator.Notices{Targets: []simulator.NoticeTarget{{URL: base + pathNotices, Secret: s.secret}}})
}

// Addr is host:port.
func (s *Simulator) Addr() string { return s.addr }

// Stop waits for open calls, within ctx.
func (s *Simulator) Stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("simulator: the shutdown timed out with calls still open: %w", err), s.server.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.Close())
}
