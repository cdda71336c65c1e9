package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/homeward-io/homeward/internal/lab/localdb"
)

// probe is what it takes to see how much a database works. It travels to the generator,
// which reads at the ends of its window.
type probe struct {
	// Processes are those of the server's start; their children count, too.
	Processes []int
	// URLs are of each of its nodes, and of another database than the measured one: the
	// observer does not count.
	URLs     []string
	Database string
	Kind     localdb.Kind
}

// newProbe is for a database on s.
func newProbe(s *localdb.Server, database string) (*probe, error) {
	p := &probe{Kind: s.Kind(), Database: database}
	regions := []string{""}
	if p.Kind == localdb.CockroachDB && len(s.Regions()) > 0 {
		regions = s.Regions()
	}
	for _, region := range regions {
		p.URLs = append(p.URLs, s.URL(region, ""))
		u, err := url.Parse(s.URL(region, ""))
		if err != nil {
			return nil, err
		}
		pid, err := listenerOn(u.Port())
		if err != nil {
			return nil, err
		}
		p.Processes = append(p.Processes, pid)
	}
	return p, nil
}

// listenerOn is the child of this process that was told to listen on a port, as
// package localdb tells databases.
func listenerOn(port string) (int, error) {
	all, err := processes()
	if err != nil {
		return 0, err
	}
	for pid, p := range all {
		if p.parent != os.Getpid() {
			continue
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // it has ended
		}
		for arg := range bytes.SplitSeq(line, []byte{0}) {
			if s := string(arg); s == "port="+port || strings.HasPrefix(s, "--listen-addr=") && strings.HasSuffix(s, ":"+port) {
				return pid, nil
			}
		}
	}
	return 0, fmt.Errorf("no process of a database on port %s was found", port)
}

// process is what /proc says of one.
type process struct {
	parent int
	// cpu is its own and that of its children that have ended, so that nothing is lost
	// when a connection's process goes.
	cpu time.Duration
}

// tick is the unit of /proc/PID/stat, the same on every Linux.
const tick = time.Second / 100

func processes() (map[int]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		if all[pid], err = parseStat(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return all, nil
}

// parseStat reads proc(5)'s stat: the name in it may hold anything, so that what comes
// before its last ')' is left out.
func parseStat(text string) (p process, err error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return p, fmt.Errorf("%d fields: %q", len(fields), text)
	}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, err
	}
	for _, f := range fields[11:15] { // utime, stime, and those of children that were waited for
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return p, err
		}
		p.cpu += time.Duration(n) * tick
	}
	return p, nil
}

// below is the CPU of processes and all their descendants.
func below(all map[int]process, roots []int) (sum time.Duration) {
	for pid := range all {
		for at := pid; at > 1; at = all[at].parent {
			if slices.Contains(roots, at) {
				sum += all[pid].cpu
				break
			}
		}
	}
	return sum
}

// reading is what a database has done since its start.
type reading struct {
	at         time.Time
	CPU        time.Duration
	WAL        int64 // bytes; PostgreSQL only
	Statements int64 // of the database measured; transactions on PostgreSQL, where each statement is one
}

// usageRate is what it does per second.
type usageRate struct{ Cores, Statements float64 }

// quietest is the idle that counts of several: what cleans up after a run, as vacuums do,
// is a part of its charges, and may still go on when the next idle is taken.
func quietest(all []usageRate) usageRate {
	return slices.MinFunc(all, func(a, b usageRate) int { return cmp.Compare(a.Cores, b.Cores) })
}

// series are the figures of results, by side, over the quietest idle.
func series(results [][]loadResult, idles []usageRate) [][]figures {
	all, idle := make([][]figures, len(results)), quietest(idles)
	for i, runs := range results {
		for _, r := range runs {
			all[i] = append(all[i], newFigures(r.over(idle)))
		}
	}
	return all
}

// readings takes readings over connections of its own, which are made beforehand.
type readings struct {
	probe *probe
	conns []*pgx.Conn
}

// open connects; nothing comes of no probe.
func (p *probe) open(ctx context.Context) (*readings, error) {
	if p == nil {
		return nil, nil
	}
	r := &readings{probe: p}
	for _, u := range p.URLs {
		conn, err := pgx.Connect(ctx, u)
		if err != nil {
			r.close(ctx)
			return nil, err
		}
		r.conns = append(r.conns, conn)
		if p.Kind == localdb.CockroachDB {
			// Newer versions want this before they show their own tables; older ones do
			// not know it.
			_, _ = conn.Exec(ctx, "SET allow_unsafe_internals = true")
		}
	}
	return r, nil
}

func (r *readings) close(ctx context.Context) {
	if r == nil {
		return
	}
	for _, conn := range r.conns {
		_ = conn.Close(context.WithoutCancel(ctx)) // it only read
	}
}

func (r *readings) read(ctx context.Context) (got reading, err error) {
	if r == nil {
		return got, nil
	}
	for _, conn := range r.conns {
		var statements int64
		if r.probe.Kind == localdb.CockroachDB {
			err = conn.QueryRow(ctx, "SELECT coalesce(sum(value), 0)::int8 FROM crdb_internal.node_metrics WHERE name = 'sql.query.count'").Scan(&statements)
		} else {
			err = conn.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8,
				(SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1)`, r.probe.Database).Scan(&got.WAL, &statements)
		}
		if err != nil {
			return got, fmt.Errorf("reading of the database: %w", err)
		}
		got.Statements += statements
	}
	all, err := processes()
	got.at, got.CPU = time.Now(), below(all, r.probe.Processes)
	if err == nil && got.CPU == 0 {
		err = errors.New("the processes of the database are gone")
	}
	return got, err
}

// idle watches the database for a while in which nobody should ask it for anything but
// what runs by itself.
func (p *probe) idle(ctx context.Context, d time.Duration) (rate usageRate, err error) {
	if p == nil {
		return rate, nil
	}
	r, err := p.open(ctx)
	if err != nil {
		return rate, err
	}
	defer r.close(ctx)
	before, err := r.read(ctx)
	if err == nil {
		err = sleepUntil(ctx, before.at.Add(d))
	}
	if err != nil {
		return rate, err
	}
	after, err := r.read(ctx)
	took := after.at.Sub(before.at).Seconds()
	return usageRate{(after.CPU - before.CPU).Seconds() / took, float64(after.Statements-before.Statements) / took}, err
}
