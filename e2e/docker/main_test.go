package docker

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// guard is the variable that lets these tests run.
const guard = "HOMEWARD_DOCKER"

// shared is the cluster of all scenarios, nil if they are skipped. After a failed scenario the next
// one makes it anew.
var shared *cluster

// rows are the report.
var rows []row

type row struct {
	scenario string
	took     time.Duration
	ok       bool
	tally
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if os.Getenv(guard) != "1" {
		return m.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if err := os.RemoveAll(artefacts); err != nil { // of an earlier run
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	code, err := withCluster(ctx, m.Run)
	if len(rows) > 0 {
		text := report(time.Since(began))
		fmt.Print(text)
		if code != 0 {
			err = errors.Join(err, os.WriteFile(filepath.Join(artefacts, "report.txt"), []byte(text), 0o600))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return code
}

// withCluster builds the images, runs the tests and clears everything away.
func withCluster(ctx context.Context, tests func() int) (code int, err error) {
	if runtime.GOOS != "linux" {
		return 1, errors.New("the tests need Linux: they reach containers at the containers' own addresses")
	}
	dir, err := os.MkdirTemp("", "homeward-images-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	if err := images(ctx, dir); err != nil {
		return 1, err
	}
	certs := filepath.Join(dir, "certs")
	if err := identities(ctx, filepath.Join(dir, "homeward"), certs); err != nil {
		return 1, err
	}
	if shared, err = newCluster(ctx, dir, certs); err != nil {
		return 1, err
	}
	fmt.Printf("images built in %v\n", time.Since(began).Round(time.Second))
	defer func() {
		if err := shared.down(); err != nil { // e2e/docker.sh removes a network that Docker takes for one in use
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
	}()
	return tests(), nil
}

// report has the result of every scenario.
func report(took time.Duration) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\ndatabase: %s; %v in all\n", shared.kind, took.Round(time.Second))
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "scenario\tverdict\ttime\tkeys\tcharged\tdeclined\trequests\t503\tno answer\twhy 503")
	for _, r := range rows {
		verdict := "ok"
		if !r.ok {
			verdict = "FAILED"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", r.scenario, verdict, r.took.Round(100*time.Millisecond),
			r.Keys, r.Completed, r.Declined, r.Requests, r.No, r.None, strings.Trim(fmt.Sprint(r.Why), "map[]"))
	}
	_ = w.Flush()
	return text.String()
}

func needCluster(t *testing.T) *cluster {
	t.Helper()
	if shared == nil {
		t.Skipf("it needs Docker and some minutes: make e2e, or %s=1", guard)
	}
	return shared
}
