package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	project    = "homeward-e2e" // of Compose; e2e/docker.sh clears it away by this name
	image      = "homeward-e2e"
	wanImage   = "homeward-e2e-wan"
	clockImage = "homeward-e2e-clock"
	// pullTime is for 200 MB at 10 Mbit/s. Without a network the pull fails at once.
	pullTime = 3 * time.Minute
)

// command runs a program with variables of its own and returns what it printed. An error is one
// line and ends with the program's last line.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(problems.String()), "\n")
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lines[len(lines)-1])
	}
	return out.String(), nil
}

// docker runs docker.
func docker(ctx context.Context, args ...string) (string, error) {
	return command(ctx, nil, "docker", args...)
}

// images builds what compose.yaml runs.
func images(ctx context.Context, dir string) error {
	return errors.Join(
		makeImage(ctx, dir, image),
		build(ctx, filepath.Join(dir, "wan"), "./e2e/docker/wan"),
		// The legacy builder is part of every engine; BuildKit's client is a plug-in.
		do(ctx, []string{"DOCKER_BUILDKIT=0"}, "docker", "build", "--quiet", "--file", "../Dockerfile", "--tag", wanImage, dir),
	)
}

// makeImage makes Homeward's image as make image does, without an engine, from a program that is
// built with the flags of releases and more. The program stays at homeward in dir.
func makeImage(ctx context.Context, dir, tag string, flags ...string) error {
	set, err := command(ctx, nil, "sh", "../../internal/build/flags.sh")
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "homeward")
	if err := build(ctx, program, "./cmd/homeward", append(strings.Fields(set), flags...)...); err != nil {
		return err
	}
	return do(ctx, nil, "go", "run", "-C", "../../internal/tools/release", "./image", "-binary", program, "-load", tag)
}

// build makes a static binary.
func build(ctx context.Context, file, pkg string, flags ...string) error {
	args := append([]string{"build", "-C", "../..", "-trimpath", "-ldflags", "-s -w", "-o", file}, flags...)
	return do(ctx, []string{"CGO_ENABLED=0"}, "go", append(args, pkg)...)
}

// do is command without its output.
func do(ctx context.Context, env []string, name string, args ...string) error {
	_, err := command(ctx, env, name, args...)
	return err
}

// identities makes the nodes' certificates, good for some days.
func identities(ctx context.Context, program, dir string) error {
	if _, err := command(ctx, nil, program, "dev-certs", "--dir", dir, "--regions", strings.Join(regions, ","), "--nodes", "2"); err != nil {
		return err
	}
	// No process in a container is this user; a reader of these keys here may use them for as long
	// as the tests last.
	_, err := command(ctx, nil, "chmod", "-R", "a+rX", dir)
	return err
}

// clockVariable moves the clock of a binary that wrongClock built.
const clockVariable = "CLOCK_OFFSET"

// wrongClock builds the image whose clock follows clockVariable.
func wrongClock(ctx context.Context, dir string) error {
	goroot, err := command(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	path := filepath.Join(strings.TrimSpace(goroot), "src/time/time.go")
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if bytes.Count(source, []byte(now)) != 1 {
		return fmt.Errorf("%s has another Now than this test expects; change wrongClock", path)
	}
	lying := bytes.Replace(source, []byte(now), []byte(now+"\tsec += wrongBy\n"), 1)
	const reads = `package time

import "syscall"

var wrongBy = func() int64 {
	text, _ := syscall.Getenv("` + clockVariable + `")
	d, _ := ParseDuration(text)
	return int64(d / Second)
}()
`
	overlay := fmt.Sprintf(`{"Replace":{%q:%q,%q:%q}}`,
		path, filepath.Join(dir, "time.go.txt"), filepath.Join(filepath.Dir(path), "wrong.go"), filepath.Join(dir, "wrong.go.txt"))
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "time.go.txt"), lying, 0o600),
		os.WriteFile(filepath.Join(dir, "wrong.go.txt"), []byte(reads), 0o600),
		os.WriteFile(filepath.Join(dir, "overlay.json"), []byte(overlay), 0o600),
		makeImage(ctx, dir, clockImage, "-overlay", filepath.Join(dir, "overlay.json")),
	)
}

// composeProgram is Docker's plug-in, or Debian's docker-compose.
var composeProgram = sync.OnceValue(func() []string {
	if _, err := docker(context.Background(), "compose", "version"); err == nil {
		return []string{"docker", "compose"}
	}
	return []string{"docker-compose"}
})

// compose runs Compose on the cluster's files.
func (c *cluster) compose(ctx context.Context, args ...string) error {
	p := composeProgram()
	all := append(p[1:len(p):len(p)], "--project-name", project)
	for _, f := range c.files {
		all = append(all, "--file", f)
	}
	_, err := command(ctx, c.env, p[0], append(all, args...)...)
	return err
}

// atOnce runs f for all elements at the same time.
func atOnce[T any](all []T, f func(T) error) error {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() { errs[i] = f(one) })
	}
	running.Wait()
	return errors.Join(errs...)
}
