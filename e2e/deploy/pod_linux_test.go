package deploy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/homeward-io/homeward/internal/lab/child"
)

// pod is one pod as a process: its one container's arguments, variables and files, under
// its user, in a directory that is its root. What a kubelet does to it is done here, too:
// probes, preStop, signals, in the order and time that the chart asks for.
//
// Four things are not a pod's. The network is this machine's, so each pod has an address of
// loopback of its own, and variables say that it listens there alone. Names of Services are
// in its /etc/hosts. No limit of memory or CPU is set. Only root can write to its root
// directory, where a container's is mounted read-only.
type pod struct {
	t          *testing.T
	name, ip   string
	root       string
	spec       podSpec
	container  container
	proc       *child.Process
	log        string
	started    atomic.Bool // the startup probe has passed
	ready      atomic.Bool
	going      atomic.Bool // it is being deleted: no Service has it any more
	stopProbes context.CancelFunc
	probes     chan struct{} // closed when they have ended
}

// volumes are the Secrets of a namespace: name → key → text.
type volumes struct{ secrets map[string]map[string]string }

// newPod lays a pod's root out and starts its process. The binary takes the image's place.
func newPod(t *testing.T, dir, name, ip, binary string, spec podSpec, v volumes, overrides map[string]string) *pod {
	t.Helper()
	if c := spec.Containers; len(c) != 1 || len(spec.InitContainers) > 0 || len(c[0].Command) > 0 || len(c[0].EnvFrom) > 0 {
		t.Fatalf("pod %s wants more than one container, or one with a command or envFrom, which this kubelet does not have", name)
	}
	p := &pod{t: t, name: name, ip: ip, root: filepath.Join(dir, name), spec: spec, container: spec.Containers[0], log: filepath.Join(dir, name+".log")}
	p.layOut(binary, v)
	log, err := child.OpenLog(p.log, false)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/homeward", p.container.Args...)
	cmd.Path, cmd.Dir = "/homeward", "/" // in its root, without a look-up on PATH
	cmd.Err = nil
	cmd.Env = p.environ(overrides)
	cmd.Stdout = log
	cmd.SysProcAttr = p.jail()
	if p.proc, err = child.Start(cmd, log, syscall.SIGKILL); err != nil {
		if os.Getuid() != 0 && errors.Is(err, syscall.EPERM) {
			t.Skipf("pods are tried in roots of their own, which needs root or user namespaces: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.unprobed()
		if err := p.proc.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the last output of %s:%s", name, p.proc.Log().Tail(15))
		}
	})
	return p
}

// jail is its root and its user. Without root the user is one in a namespace.
func (p *pod) jail() *syscall.SysProcAttr {
	s := p.spec.SecurityContext
	if os.Getuid() == 0 {
		return &syscall.SysProcAttr{Chroot: p.root, Credential: &syscall.Credential{Uid: s.RunAsUser, Gid: s.RunAsGroup, Groups: []uint32{s.FSGroup}}}
	}
	one := func(inside uint32, outside int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: int(inside), HostID: outside, Size: 1}}
	}
	return &syscall.SysProcAttr{
		Chroot: p.root, Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: one(s.RunAsUser, os.Getuid()), GidMappings: one(s.RunAsGroup, os.Getgid()),
	}
}

// layOut makes the root: the image, which is one static file, and the volumes where the
// container mounts them.
func (p *pod) layOut(binary string, v volumes) {
	p.t.Helper()
	if err := os.MkdirAll(p.root, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Link(binary, filepath.Join(p.root, "homeward")); err != nil {
		p.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(p.root, "etc"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	for _, m := range p.container.VolumeMounts {
		i := slices.IndexFunc(p.spec.Volumes, func(vol volume) bool { return vol.Name == m.Name })
		if i < 0 || m.SubPath != "" {
			p.t.Fatalf("pod %s mounts %s at %s, which is no volume of it that this kubelet has", p.name, m.Name, m.MountPath)
		}
		dir := filepath.Join(p.root, m.MountPath)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			p.t.Fatal(err)
		}
		vol := p.spec.Volumes[i]
		switch {
		case vol.DownwardAPI != nil:
			for _, it := range vol.DownwardAPI.Items {
				of, _ := strings.CutPrefix(it.FieldRef.FieldPath, "metadata.annotations['")
				p.files(dir, "annotations", p.spec.annotations, []item{{strings.TrimSuffix(of, "']"), it.Path}}, 0o644)
			}
		case vol.Secret != nil:
			p.files(dir, "Secret "+vol.Secret.SecretName, v.secrets[vol.Secret.SecretName], vol.Secret.Items, vol.Secret.DefaultMode)
		case vol.Projected != nil:
			for _, from := range vol.Projected.Sources {
				p.files(dir, "Secret "+from.Secret.Name, v.secrets[from.Secret.Name], from.Secret.Items, vol.Projected.DefaultMode)
			}
		case vol.EmptyDir != nil:
			if err := os.Chmod(dir, 0o777); err != nil {
				p.t.Fatal(err)
			}
		default:
			p.t.Fatalf("pod %s: volume %s is of a kind that this kubelet does not have", p.name, m.Name)
		}
	}
}

// files writes what a Secret, or a pod's annotations, have, all of it or the items that are named.
func (p *pod) files(dir, of string, data map[string]string, items []item, mode fs.FileMode) {
	p.t.Helper()
	if data == nil {
		p.t.Fatalf("pod %s mounts %s, which does not exist", p.name, of)
	}
	if items == nil {
		for key := range data {
			items = append(items, item{key, key})
		}
	}
	for _, it := range items {
		text, there := data[it.Key]
		if !there {
			p.t.Fatalf("pod %s mounts key %s of %s, which it does not have", p.name, it.Key, of)
		}
		path := filepath.Join(dir, it.Path)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			p.t.Fatal(err)
		}
		if os.Getuid() == 0 { // else the test is the pod's user and owns the file
			if err := os.Chown(path, 0, int(p.spec.SecurityContext.FSGroup)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

var variable = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_]*)\)`)

// environ is what the container gets: the image's, the chart's, in their order, and those of
// Services unless they are turned off.
func (p *pod) environ(overrides map[string]string) []string {
	p.t.Helper()
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": p.name}
	if p.spec.EnableServiceLinks == nil || *p.spec.EnableServiceLinks {
		maps.Copy(env, map[string]string{"HOMEWARD_SERVICE_HOST": "10.0.0.1", "HOMEWARD_SERVICE_PORT": "80", "HOMEWARD_PORT": "tcp://10.0.0.1:80"})
	}
	for _, v := range p.container.Env {
		switch from := v.ValueFrom; {
		case from == nil:
			env[v.Name] = variable.ReplaceAllStringFunc(v.Value, func(reference string) string {
				if value, there := env[reference[2:len(reference)-1]]; there {
					return value
				}
				return reference
			})
		case from.FieldRef.FieldPath == "metadata.name":
			env[v.Name] = p.name
		case from.FieldRef.FieldPath == "status.podIP":
			env[v.Name] = p.ip
		default:
			p.t.Fatalf("pod %s: variable %s is of a source that this kubelet does not have", p.name, v.Name)
		}
	}
	maps.Copy(env, overrides)
	var all []string
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	return all
}

// probe begins the probes: startup, and once that has passed readiness and liveness.
func (p *pod) probe() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stopProbes, p.probes = cancel, make(chan struct{})
	go func() {
		defer close(p.probes)
		if !p.passes(ctx, p.container.StartupProbe) {
			if ctx.Err() == nil {
				p.t.Errorf("pod %s: the startup probe gave up, and a kubelet would start the container again", p.name)
			}
			return
		}
		p.started.Store(true)
		alive := make(chan struct{})
		go func() {
			defer close(alive)
			p.watch(ctx, p.container.LivenessProbe, func(well bool) {
				if !well {
					p.t.Errorf("pod %s: the liveness probe gave up, and a kubelet would start the container again", p.name)
				}
			})
		}()
		p.watch(ctx, p.container.ReadinessProbe, p.ready.Store)
		<-alive
	}()
}

// unprobed ends them.
func (p *pod) unprobed() {
	if p.stopProbes != nil {
		p.stopProbes()
		<-p.probes
	}
}

// passes waits for a probe to pass once, for as long as it may fail.
func (p *pod) passes(ctx context.Context, b probe) bool {
	for range max(b.FailureThreshold, 3) {
		if p.ask(ctx, b) {
			return true
		}
		if !pause(ctx, b.PeriodSeconds) {
			return false
		}
	}
	return false
}

// watch reports each change: one success, or as many failures one after the other as the threshold
// says.
func (p *pod) watch(ctx context.Context, b probe, report func(well bool)) {
	misses, well := 0, false
	for {
		if p.ask(ctx, b) {
			misses = 0
			if !well {
				well = true
				report(true)
			}
		} else if misses++; ctx.Err() == nil && misses >= max(b.FailureThreshold, 1) && well {
			well = false
			report(false)
		}
		if !pause(ctx, b.PeriodSeconds) {
			return
		}
	}
}

func pause(ctx context.Context, seconds int) bool {
	select {
	case <-time.After(time.Duration(max(seconds, 1)) * time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// ask makes one probe. Success is a status from 200 to 399.
func (p *pod) ask(ctx context.Context, b probe) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(b.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	i := slices.IndexFunc(p.container.Ports, func(c containerPort) bool { return c.Name == b.HTTPGet.Port })
	if i < 0 {
		p.t.Errorf("pod %s: a probe asks port %q, which the container does not name", p.name, b.HTTPGet.Port)
		return false
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", p.ip, p.container.Ports[i].ContainerPort, b.HTTPGet.Path), nil)
	if err != nil {
		p.t.Error(err)
		return false
	}
	res, err := probing.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // the status was all
	return res.StatusCode >= 200 && res.StatusCode < 400
}

var probing = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// remove deletes the pod as a kubelet does: no Service has it any more, preStop, SIGTERM,
// and SIGKILL when the grace period is over, which is a failure here.
func (p *pod) remove() {
	p.t.Helper()
	p.going.Store(true)
	p.ready.Store(false)
	p.proc.Expect()
	grace, cancel := context.WithTimeout(context.Background(), time.Duration(p.spec.TerminationGracePeriodSeconds)*time.Second)
	defer cancel()
	if !pause(grace, p.container.Lifecycle.PreStop.Sleep.Seconds) {
		p.t.Errorf("pod %s: preStop took longer than the grace period", p.name)
	}
	p.unprobed()
	if err := p.proc.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	if !p.proc.Wait(grace) {
		p.t.Errorf("pod %s did not end within its grace period and was killed", p.name)
		if err := p.proc.Kill(); err != nil {
			p.t.Error(err)
		}
	} else if err := p.proc.Err(); err != nil {
		p.t.Errorf("pod %s ended with %v%s", p.name, err, p.proc.Log().Tail(15))
	}
}

// hosts is the cluster's DNS, as the pod sees it.
func (p *pod) hosts(text string) {
	p.t.Helper()
	path := filepath.Join(p.root, "etc/hosts")
	if err := os.WriteFile(path+".new", []byte("127.0.0.1 localhost\n"+text), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		p.t.Fatal(err)
	}
}
