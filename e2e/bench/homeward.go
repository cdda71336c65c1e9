package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment/psp"
)

// regionNames are those of three regions; one region is the first of them alone. Their codes
// count from 1.
var regionNames = []string{"us-east1", "europe-west1", "asia-northeast1"}

const (
	tenantID = "acme"
	apiKey   = "sk_bench_acme"
	// drainTime bounds a shutdown.
	drainTime = 30 * time.Second
)

func tenant() claim.Tenant {
	return claim.Tenant{ID: tenantID, Name: "Acme Rockets", Registrar: regionNames[0]}
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// clusterRole is the system under test on the embedded store: one region, or three. A gateway is
// one on a database, too.
func clusterRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("cluster", flag.ContinueOnError)
	dir := f.String("dir", "", "store directory")
	sim := f.String("psp", "", "address of the simulator")
	regions := f.Int("regions", 1, "how many regions")
	distance := f.Duration("wan", 0, "round trip between any two regions")
	lag := f.Duration("lag", 0, "replica lag; 0 means the store's default")
	front := f.String("gateway", "", "address of an API to be in front of")
	databases := map[string]string{}
	f.Func("db", "connection string of the next region's database", func(u string) error {
		databases[regionNames[len(databases)]] = u
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	p, err := provider(*sim)
	if err != nil {
		return err
	}
	limits := httpapi.DefaultLimits()
	limits.TenantRate, limits.TenantBurst = 0, 0 // here one tenant is all of them
	c := node.ClusterConfig{
		Dir: *dir, Payments: node.Payments{Providers: psp.Providers{p}, Notifiers: map[string]psp.Notifier{p.Name(): p}}, Tuning: node.Tuning{Policy: claim.DefaultPolicy(), Limits: limits}, ReplicaLag: *lag,
		Tenants:       []node.ClusterTenant{{Tenant: tenant(), APIKeys: []string{apiKey}}},
		Logger:        quiet(),
		Seal:          seal.Clear(nil, nil),
		Fatal:         func(error) { os.Exit(1) }, // the log has the reason
		OwnProcess:    true,
		MetricsListen: "127.0.0.1:0",
	}
	if len(databases) > 0 {
		c.Databases, c.Pool = databases, patientPool()
	}
	if *front != "" { // it seals what it stores, with a key that it makes
		keys, err := os.MkdirTemp("", "homeward-bench-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(keys) }()
		if c.Seal, err = node.DemoSeal(ctx, keys, c.Logger); err != nil {
			return err
		}
		defer func() { _ = c.Seal.Close() }()
		of := gateway.DefaultSettings()
		of.Upstream = "http://" + *front
		c.Payments, c.Tenants = node.Payments{Gateway: &gateway.Config{Settings: of}}, nil
	}
	distances := map[wan.Pair]time.Duration{}
	for i, name := range regionNames[:*regions] {
		c.Regions = append(c.Regions, node.ClusterRegion{Region: claim.Region{Name: name, Code: claim.RegionCode(i + 1)}, Listen: "127.0.0.1:0"})
		for _, other := range regionNames[:i] {
			distances[wan.Pair{A: name, B: other}] = *distance
		}
	}
	if *regions > 1 {
		c.Network = wan.New(distances)
	}
	starting, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cluster, err := node.StartCluster(starting, c)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	var hello greeting
	for _, n := range cluster.Nodes {
		hello.Serving = append(hello.Serving, n.APIAddr())
	}
	err = greet(ctx, hello, in, out)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	return errors.Join(err, cluster.Stop(stopping), p.Close())
}

// nodesRole is the system under test on a database: a node as homeward serve starts it, with
// its defaults, or one in each region, in one process.
func nodesRole(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	f := flag.NewFlagSet("nodes", flag.ContinueOnError)
	url := f.String("psp", "", "address of the simulator")
	event := f.Bool("event", false, "emit an event for each charge, which a sink takes")
	var urls, seeds []string
	f.Func("db", "connection string of the next region's database", func(u string) error { urls = append(urls, u); return nil })
	f.Func("seed", "gossip address of another node", func(a string) error { seeds = append(seeds, a); return nil })
	if err := f.Parse(args); err != nil {
		return err
	}
	var hello greeting
	for i, db := range urls {
		s := node.DefaultServeSettings()
		s.Node = node.NodeSettings{Name: "bench", Region: regionNames[i]}
		s.API.Listen, s.RPC.Listen, s.Metrics.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		s.Gossip = node.GossipSettings{Listen: "127.0.0.1:0", Seeds: seeds, Local: true}
		s.Database, s.Provider.BaseURL = patientPool(), "http://"+*url
		s.Seal = false                                   // in clear text, as the embedded side
		s.Events.Log = *event                            // a line that the log leaves out
		s.Limits.TenantRate, s.Limits.TenantBurst = 0, 0 // here one tenant is all of them
		starting, cancel := context.WithTimeout(ctx, startTime)
		n, err := node.Serve(starting, s, node.Secrets{DatabaseURL: db}, nil, quiet())
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
	return greet(ctx, hello, in, out)
}

// patientPool is a node's pool by default, but for its patience: a machine that stalls
// should show in a percentile and not end the run.
func patientPool() sqlstore.Pool {
	p := sqlstore.DefaultPool()
	p.StatementTimeout, p.CallTimeout, p.ConnectTimeout = 20*time.Second, 30*time.Second, 10*time.Second
	return p
}
