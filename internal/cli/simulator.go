package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
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
	sim, err := lab.StartSimulator("--listen", c.Listen, c.config(io))
	if err != nil {
		return err
	}
	fmt.Fprintf(io.out, "simulator ready on http://%s\n", sim.Addr())
	<-ctx.Done()
	return parts.Within(ctx, node.DrainTime, sim.Stop)
}

// warnings is the log of a person's terminal: what needs attention, no more.
func warnings(io streams) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
