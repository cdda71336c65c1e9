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
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/node"
	"github.com/homeward-io/homeward/internal/seal"
	"github.com/homeward-io/homeward/internal/wan"
	"github.com/homeward-io/homeward/payment/psp"
)

// regionNames are the regions of the three-region cluster; one region is the
// first of them alone. Their codes count from 1.
var regionNames = []string{"us-east1", "europe-west1", "asia-northeast1"}

const (
	tenantID = "acme"
	apiKey   = "sk_bench_acme"
	// drainTime bounds a shutdown.
	drainTime = 30 * time.Second
)

// homewardRole is the system under test: one region, or three.
func homewardRole(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	f := flag.NewFlagSet("homeward", flag.ContinueOnError)
	dir := f.String("dir", "", "store directory")
	url := f.String("psp", "", "address of the simulator")
	regions := f.Int("regions", 1, "how many regions")
	distance := f.Duration("wan", 0, "round trip between any two regions")
	lag := f.Duration("lag", 0, "replica lag; 0 means the store's default")
	db := f.String("db", "", "connection string of a database to use instead of a store; one region only")
	metrics := f.Bool("metrics", true, "serve metrics, as a node does")
	if err := f.Parse(args); err != nil {
		return err
	}
	p, err := provider(*url)
	if err != nil {
		return err
	}
	c := node.ClusterConfig{
		Dir: *dir, Payments: node.Payments{Providers: psp.Providers{p}, Notifiers: map[string]psp.Notifier{p.Name(): p}}, Tuning: node.Tuning{Policy: claim.DefaultPolicy(), Limits: limits()}, ReplicaLag: *lag,
		Tenants:    []node.ClusterTenant{{Tenant: tenant(), APIKeys: []string{apiKey}}},
		Logger:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Seal:       seal.Clear(nil, nil),
		Fatal:      func(error) { os.Exit(1) }, // the log has said why
		OwnProcess: true,
	}
	if *metrics {
		c.MetricsListen = "127.0.0.1:0"
	}
	if *db != "" {
		c.Databases, c.Pool = map[string]string{regionNames[0]: *db}, patientPool()
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
	var serving []string
	for _, n := range cluster.Nodes {
		serving = append(serving, n.APIAddr())
	}
	store, err := cluster.DB.Region(regionNames[0])
	if err == nil {
		err = serveChild(ctx, serving, in, out, shelf{store}.serve)
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	return errors.Join(err, cluster.Stop(stopping), p.Close())
}

func tenant() claim.Tenant {
	return claim.Tenant{ID: tenantID, Name: "Acme Rockets", Registrar: regionNames[0]}
}

// limits are the published ones but for the tenant's rate: here one tenant is
// all of them.
func limits() httpapi.Limits {
	l := httpapi.DefaultLimits()
	l.TenantRate, l.TenantBurst = 0, 0
	return l
}
