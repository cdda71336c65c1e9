package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/homeward-io/homeward/internal/lab"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment/psp/simulator"
)

type simulatorCommand struct {
	Listen  string        `default:"127.0.0.1:8090" help:"Address to listen on."`
	Data    string        `type:"path" help:"Directory for its books; default: memory only."`
	Latency time.Duration `default:"0s" help:"Latency of each call."`
	Jitter  time.Duration `default:"0s" help:"Additional random latency, uniformly distributed."`
	Dedupe  string        `default:"key_and_parameters" enum:"none,key,key_and_parameters" help:"Deduplication: none (each call moves money), key, or key_and_parameters."`
	Lookup  bool          `default:"true" negatable:"" help:"Allow look-ups by reference."`

	WebhookURL []string `placeholder:"URL" help:"URL that receives a webhook of each movement, signed if HOMEWARD_PROVIDER_WEBHOOK_SECRET is set; may be repeated. Default: as last set."`
}

// Help returns the text that homeward simulator --help adds.
func (simulatorCommand) Help() string {
	return "HOMEWARD_PROVIDER_WEBHOOK_SECRET, or the file that HOMEWARD_PROVIDER_WEBHOOK_SECRET_FILE names, is the secret that signs webhooks, and the same one for the node that receives them: base64, with or without whsec_."
}

func (c *simulatorCommand) config(io streams) (simulator.Config, error) {
	secret, err := node.Secret(os.Environ(), node.ProviderWebhooks)
	if err != nil {
		return simulator.Config{}, err
	}
	cfg := simulator.Config{
		Dir: c.Data, Latency: c.Latency, Jitter: c.Jitter, Logger: warnings(io),
		IgnoreKeys: c.Dedupe == "none", IgnoreParameters: c.Dedupe == "key", NoLookup: !c.Lookup,
	}
	if len(c.WebhookURL) > 0 {
		cfg.Notices = &simulator.Notices{}
		for _, url := range c.WebhookURL {
			cfg.Notices.Targets = append(cfg.Notices.Targets, simulator.NoticeTarget{URL: url, Secret: secret})
		}
	}
	return cfg, nil
}

func (c *simulatorCommand) Run(ctx context.Context, io streams) error {
	defer outliveReaders()()
	config, err := c.config(io)
	if err != nil {
		return err
	}
	sim, err := lab.StartSimulator("--listen", c.Listen, config)
	if err != nil {
		return err
	}
	warnOpened(io, opened{sim.Addr(), opensSimulator})
	fmt.Fprintf(io.out, "simulator ready on http://%s\n", sim.Addr())
	<-ctx.Done()
	return parts.Within(ctx, node.DrainTime, sim.Stop)
}

// warnings is the log for a terminal: warnings and errors only.
func warnings(io streams) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
