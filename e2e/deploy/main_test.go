package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homeward-io/homeward/internal/lab/child"
)

const (
	chart = "../../helm/homeward"
	// patience bounds every wait for something that must happen. It is only spent when
	// a test fails.
	patience = 2 * time.Minute
	// lookEvery is how often the tests poll for a change without a signal.
	lookEvery = 100 * time.Millisecond
)

// needs skips a test if a tool is missing, unless DEPLOY_TOOLS is "required".
func needs(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("DEPLOY_TOOLS") == "required" {
				t.Fatalf("%s is not on PATH; run make deploy-check, which builds it", tool)
			}
			t.Skipf("%s is not on PATH; make deploy-check builds it", tool)
		}
	}
}

// command runs a program and returns what it printed; its error has what it complained of.
func command(t *testing.T, stdin string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// must is command for what cannot fail.
func must(t *testing.T, stdin string, name string, args ...string) string {
	t.Helper()
	out, err := command(t, stdin, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually waits until check returns true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !check(); time.Sleep(lookEvery) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// program starts a program that ends with the test, and shows its last output if the test fails.
func program(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	log, err := child.OpenLog(filepath.Join(dir, name+".log"), false)
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(exec.Command(name, args...), log, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the last output of %s:\n%s", name, log.Tail(20))
		}
	})
}

// freePorts returns free ports of the loopback.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// module returns the directory of a module at a version, fetched where it is not here.
func module(t *testing.T, at string) string {
	t.Helper()
	var m struct{ Dir, Error string }
	out, err := command(t, "", "go", "mod", "download", "-json", at)
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatal(err)
	}
	if err != nil || m.Error != "" {
		t.Fatalf("%s cannot be had: %s", at, m.Error)
	}
	return m.Dir
}
