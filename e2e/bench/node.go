package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"

	"github.com/homeward-io/homeward/internal/node"
)

// nodeRole is the system under test on a database: a node as "homeward serve" starts it,
// with its defaults, or one in each region, in one process.
func nodeRole(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	f := flag.NewFlagSet("node", flag.ContinueOnError)
	_ = f.String("dir", "", "not used: every side gets one")
	url := f.String("psp", "", "address of the simulator")
	metrics := f.Bool("metrics", true, "serve metrics, as a node does")
	told := f.Bool("told", false, "tell of each charge: an event is written, and a sink takes it")
	var urls, seeds []string
	f.Func("db", "connection string of the next region's database", func(u string) error {
		urls = append(urls, u)
		return nil
	})
	f.Func("seed", "gossip address of another node", func(a string) error {
		seeds = append(seeds, a)
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var hello greeting
	for i, db := range urls {
		s := node.DefaultServeSettings()
		s.Node = node.NodeSettings{Name: "bench", Region: regionNames[i]}
		s.API.Listen, s.RPC.Listen = "127.0.0.1:0", "127.0.0.1:0"
		s.Gossip = node.GossipSettings{Listen: "127.0.0.1:0", Seeds: seeds, Local: true}
		s.Metrics.Listen = ""
		if *metrics {
			s.Metrics.Listen = "127.0.0.1:0"
		}
		s.Database, s.Provider.BaseURL = patientPool(), "http://"+*url
		s.Seal = false                                   // in clear text, as the embedded side
		s.Events.Log = *told                             // a line that the log leaves out
		s.Limits.TenantRate, s.Limits.TenantBurst = 0, 0 // here one tenant is all of them
		starting, cancel := context.WithTimeout(ctx, startTime)
		n, err := node.Serve(starting, s, node.Secrets{DatabaseURL: db}, nil, log)
		cancel()
		if err != nil {
			return err
		}
		defer func() {
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
			defer cancel()
			err = errors.Join(err, n.Stop(stopping))
		}()
		hello.Serving, hello.Gossip = append(hello.Serving, n.Node().APIAddr()), n.Node().GossipAddr()
		seeds = []string{hello.Gossip}
	}
	return serveGreeting(ctx, hello, in, out)
}
