package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/payment/psp/simulator"
)

type simulatorCommand struct {
	Listen  string        `default:"127.0.0.1:8090" help:"Address to listen on."`
	Data    string        `type:"path" help:"Directory that keeps its books; default: memory only."`
	Latency time.Duration `default:"0s" help:"How long each call takes."`
	Jitter  time.Duration `default:"0s" help:"Up to how much longer, uniformly."`
	Dedupe  string        `default:"key_and_parameters" enum:"none,key,key_and_parameters" help:"What it does with a key that it has seen: none (each call moves money), key, key_and_parameters."`
	Lookup  bool          `default:"true" negatable:"" help:"Whether it can be asked by reference."`

	WebhookURL    []string `placeholder:"URL" help:"Who is told of each movement; may be repeated. Default: as last set."`
	WebhookSecret string   `placeholder:"SECRET" help:"What webhooks are signed with: base64, with or without whsec_."`
}

func (c *simulatorCommand) config(io streams) simulator.Config {
	cfg := simulator.Config{
		Dir: c.Data, Latency: c.Latency, Jitter: c.Jitter, Logger: warnings(io),
		IgnoreKeys: c.Dedupe == "none", IgnoreParameters: c.Dedupe == "key", NoLookup: !c.Lookup,
	}
	if len(c.WebhookURL) > 0 {
		cfg.Notices = &simulator.Notices{}
		for _, url := range c.WebhookURL {
			cfg.Notices.Targets = append(cfg.Notices.Targets, simulator.NoticeTarget{URL: url, Secret: c.WebhookSecret})
		}
	}
	return cfg
}

func (c *simulatorCommand) Run(ctx context.Context, io streams) error {
	sim, err := startSimulator("--listen", c.Listen, c.config(io))
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "simulator ready on http://%s\n", sim.addr)
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	return sim.stop(stop)
}

// occupied says that nobody can listen on an address, and what decides on it.
func occupied(who, flag, addr string, err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) { // which names the address again
		err = op.Err
	}
	return fmt.Errorf("%s cannot listen on %s: %w; choose another address with %s or stop what uses it", who, addr, err, flag)
}

// runningSimulator is a simulator behind its own listener.
type runningSimulator struct {
	sim    *simulator.Simulator
	server *http.Server
	addr   string
	done   chan error
}

// startSimulator starts one at the address that a flag decides on.
func startSimulator(flag, listen string, c simulator.Config) (*runningSimulator, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, occupied("the simulator", flag, listen, err)
	}
	sim, err := simulator.Open(c)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &runningSimulator{sim: sim, server: sim.NewServer(listen), addr: l.Addr().String(), done: make(chan error, 1)}
	go func() { s.done <- s.server.Serve(l) }()
	return s, nil
}

// notify has the simulator tell the API at base, http://host:port, of every movement
// of money, and signs with secret.
func (s *runningSimulator) notify(base, secret string) error {
	return s.sim.SetNotices(simulator.Notices{Targets: []simulator.NoticeTarget{{URL: base + "/v1/webhooks/simulator", Secret: secret}}})
}

func (s *runningSimulator) stop(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("simulator: calls were still open when time ran out: %w", err), s.server.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.sim.Close())
}

// warnings is the log of a person's terminal: what needs attention, no more.
func warnings(io streams) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
