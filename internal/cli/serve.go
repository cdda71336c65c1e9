package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/build"
	"github.com/homeward-io/homeward/internal/meter"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/internal/telemetry"
)

type serveCommand struct {
	Config string `type:"path" help:"Settings file (YAML); docs/node.yaml has all of them. Default: the environment and the defaults."`
}

// Run serves until ctx ends, and then drains.
func (c *serveCommand) Run(ctx context.Context, io streams) error {
	settings, secrets, err := node.LoadServeSettings(c.Config, os.Environ())
	if err != nil {
		return err
	}
	defer outliveReaders()()
	log, lines := telemetry.NewLog(io.err, settings.LogLevel())
	defer lines.Close()
	out := telemetry.NewLines(io.out)
	defer out.Close()
	flush, err := telemetry.Setup(ctx, tracing(settings, log))
	if err != nil {
		return err
	}
	defer flush()
	server, err := node.Serve(ctx, settings, secrets, atNode, log)
	if ctx.Err() != nil && errors.Is(err, claim.ErrUnavailable) { // a stop was requested, with no work in progress
		fmt.Fprintln(out, err)
		return nil
	}
	if err != nil {
		return err
	}
	if err := server.Meters().Observe(func(o *meter.Observer) { o.Is(meter.LogDropped, float64(lines.Dropped())) }); err != nil {
		return errors.Join(err, parts.Within(ctx, settings.Drain, server.Stop))
	}
	n := server.Node()
	metrics := "none"
	if addr := server.MetricsAddr(); addr != "" {
		metrics = "http://" + addr + "/metrics"
	}
	console := "none"
	if addr := n.ConsoleAddr(); addr != "" {
		console = addr
	}
	fmt.Fprintf(out, "homeward %s in %s: API http://%s, RPC %s, gossip %s, database %s, metrics %s, console %s\n",
		n.Name(), n.Region(), n.APIAddr(), n.RPCAddr(), n.GossipAddr(), server.Database(), metrics, console)
	<-ctx.Done()
	fmt.Fprintln(out, "draining: requests in hand are finished, new ones are refused")
	if err := parts.Within(ctx, settings.Drain, server.Stop); err != nil {
		return err
	}
	fmt.Fprintln(out, "drained")
	return nil
}

// tracing returns the maker of a node's spans.
func tracing(settings node.ServeSettings, log *slog.Logger) telemetry.Process {
	return telemetry.Process{
		Version: build.Version(), Region: settings.Node.Region, Node: settings.Node.Name, AllowPlaintext: settings.Traces.AllowPlaintext, Log: log,
	}
}

// jsonLog is the log of a command that no person watches.
func jsonLog(io streams, settings node.ServeSettings) *slog.Logger {
	return slog.New(telemetry.Traced(slog.NewJSONHandler(io.err, &slog.HandlerOptions{Level: settings.LogLevel()})))
}
