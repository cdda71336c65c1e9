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
	project  = "homeward-e2e" // of Compose; e2e/docker.sh clears it away by this name
	image    = "homeward-e2e"
	wanImage = "homeward-e2e-wan"
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
		makeImage(ctx, dir),
		build(ctx, filepath.Join(dir, "wan"), "./e2e/docker/wan"),
		// The legacy builder is part of every engine; BuildKit's client is a plug-in.
		do(ctx, []string{"DOCKER_BUILDKIT=0"}, "docker", "build", "--quiet", "--file", "../Dockerfile", "--tag", wanImage, dir),
	)
}

// homeward is the command's package.
const homeward = "./cmd/homeward"

// makeImage makes Homeward's image as make release ONLY=image does, without an engine, from a program that is
// built with the flags of releases. The program stays at homeward in dir.
func makeImage(ctx context.Context, dir string) error {
	flags, err := releaseFlags(ctx)
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "homeward")
	if err := build(ctx, program, homeward, flags...); err != nil {
		return err
	}
	return do(ctx, nil, "go", "run", "-C", "../../internal/tools/release", "./image", "-binary", program, "-load", image)
}

func releaseFlags(ctx context.Context) ([]string, error) {
	set, err := command(ctx, nil, "sh", "../../internal/build/flags.sh")
	return strings.Fields(set), err
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

// wrongClock makes a program whose clock is wrong by some time. It is linked from the packages of
// Homeward's image, as they are, and a package time with another Now. go build -overlay would
// compile all of them again. The linker refuses a package time that differs in more than a
// function's body. dir is for other files.
func wrongClock(ctx context.Context, dir, program string, by time.Duration) error {
	goroot, err := command(ctx, nil, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	path := filepath.Join(strings.TrimSpace(goroot), "src/time/time.go")
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()"
	if bytes.Count(source, []byte(now)) != 1 {
		return fmt.Errorf("%s has another Now than this test expects; change wrongClock", path)
	}
	// On the same line, so that no other line moves.
	lying := bytes.Replace(source, []byte(now), fmt.Appendf(nil, "%s; sec += %d", now, by/time.Second), 1)
	changed, overlay := filepath.Join(dir, "time.go.txt"), filepath.Join(dir, "overlay.json")
	if err := errors.Join(
		os.WriteFile(changed, lying, 0o600),
		os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, path, changed), 0o600),
	); err != nil {
		return err
	}
	flags, err := releaseFlags(ctx)
	if err != nil {
		return err
	}
	list := func(more ...string) (string, error) {
		args := append([]string{"list", "-C", "../..", "-export", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"}, flags...)
		return command(ctx, []string{"CGO_ENABLED=0"}, "go", append(args, more...)...)
	}
	all, err := list("-deps", homeward)
	if err != nil {
		return err
	}
	another, err := list("-overlay", overlay, "time") // the linker takes the last line of a package
	if err != nil {
		return err
	}
	main := strings.TrimSpace(all[strings.LastIndex(all, "=")+1:]) // the command's archive
	config := filepath.Join(dir, "importcfg")
	return errors.Join(
		os.WriteFile(config, []byte(all+another), 0o600),
		do(ctx, nil, "go", "tool", "link", "-importcfg", config, "-s", "-w", "-o", program, main),
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
