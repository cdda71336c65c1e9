package deploy

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homeward-io/homeward/e2e/balancer"
)

// planet is three clusters on this machine: one namespace in each, with what a release of
// the chart makes there.
type planet struct {
	t        *testing.T
	dir      string
	provider string // base URL
	port     int    // of the API, the RPC, gossip and metrics: this and the three after it
	volumes  map[string]*volumes
	regions  []*deployed
}

// deployed is a region's release: what the Deployment, its Service and the cluster's DNS
// do with the pods.
type deployed struct {
	*planet
	name    string
	place   int // 127.0.place.x
	service *balancer.Balancer
	mu      sync.Mutex
	pods    []*pod
	made    int // pods so far
	running build
}

func newPlanet(t *testing.T, dir, provider string) *planet {
	t.Helper()
	w := &planet{t: t, dir: dir, provider: provider, port: 8081, volumes: map[string]*volumes{}}
	for i, r := range regions {
		d := &deployed{planet: w, name: r, place: 10 + i}
		var err error
		if d.service, err = balancer.Start(fmt.Sprintf("127.0.%d.250:0", d.place), d.endpoints); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.service.Close(); err != nil {
				t.Error(err)
			}
		})
		w.regions = append(w.regions, d)
		w.volumes[r] = &volumes{secrets: map[string]map[string]string{}}
	}
	return w
}

// endpoints are those of the Service: pods that are ready, and not going.
func (d *deployed) endpoints() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pods {
		if p.ready.Load() && !p.going.Load() {
			all = append(all, d.api(p))
		}
	}
	return all
}

// api is a pod's own address of the API.
func (d *deployed) api(p *pod) string { return net.JoinHostPort(p.ip, p.container.at("api")) }

// at is the port of a name.
func (c container) at(name string) string {
	for _, p := range c.Ports {
		if p.Name == name {
			return strconv.Itoa(p.ContainerPort)
		}
	}
	return ""
}

// install makes a build's release in the region, or upgrades the one that is there: hooks
// first, then the Deployment's pods, rolling.
func (d *deployed) install(b build) {
	d.t.Helper()
	all := b.render(d.t, d.name, valuesOf(d.name, d.provider))
	for _, o := range all {
		if o.Kind == "Job" && strings.Contains(o.Metadata.Annotations["helm.sh/hook"], "pre-upgrade") {
			d.job(b, o)
		}
	}
	for _, service := range []string{"homeward", "homeward-peers", "homeward-gossip"} {
		one(d.t, all, "Service", service)
	}
	d.roll(b, one(d.t, all, "Deployment", "homeward"))
}

// job runs a Job's pod to its end.
func (d *deployed) job(b build, o object) {
	d.t.Helper()
	p := newPod(d.t, d.dir, fmt.Sprintf("%s-%s-%s", d.name, o.Metadata.Name, b.version), "127.0.0.1", b.binary, o.Spec.Template.Spec, *d.volumes[d.name], nil)
	p.proc.Expect()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	if !p.proc.Wait(ctx) || p.proc.Err() != nil {
		d.t.Fatalf("the Job %s of %s did not end well: %v%s", o.Metadata.Name, b.version, p.proc.Err(), p.proc.Log().Tail(15))
	}
}

// roll makes the Deployment's pods of this build, one more than its replicas at a time and none
// less, as its strategy has it.
func (d *deployed) roll(b build, o object) {
	d.t.Helper()
	if s := o.Spec.Strategy.RollingUpdate; s.MaxSurge != 1 || s.MaxUnavailable != 0 {
		d.t.Fatalf("the chart rolls with maxSurge %d and maxUnavailable %d, which this Deployment does not have", s.MaxSurge, s.MaxUnavailable)
	}
	d.mu.Lock()
	old := d.pods
	d.mu.Unlock()
	settle := time.Duration(o.Spec.MinReadySeconds) * time.Second
	spec := o.Spec.Template.Spec
	spec.annotations = o.Spec.Template.Metadata.Annotations
	for i := range o.Spec.Replicas {
		p := d.start(b, spec)
		if len(old) == 0 && i+1 < o.Spec.Replicas {
			continue // a new ReplicaSet makes all of its pods at once
		}
		d.ready(settle)
		if i < len(old) {
			d.remove(old[i])
		}
		d.t.Logf("%s: %s runs %s", d.name, p.name, b.version)
	}
	d.running = b
}

// start makes one pod.
func (d *deployed) start(b build, spec podSpec) *pod {
	d.t.Helper()
	d.made++
	ip := fmt.Sprintf("127.0.%d.%d", d.place, d.made)
	c := spec.Containers[0]
	p := newPod(d.t, d.dir, fmt.Sprintf("%s-%d", d.name, d.made), ip, b.binary, spec, *d.volumes[d.name], map[string]string{
		"HOMEWARD_API__LISTEN": net.JoinHostPort(ip, c.at("api")), "HOMEWARD_RPC__LISTEN": net.JoinHostPort(ip, c.at("rpc")),
		"HOMEWARD_GOSSIP__LISTEN": net.JoinHostPort(ip, c.at("gossip")), "HOMEWARD_METRICS__LISTEN": net.JoinHostPort(ip, c.at("metrics")),
	})
	d.mu.Lock()
	d.pods = append(d.pods, p)
	d.mu.Unlock()
	d.resolve()
	p.probe()
	return p
}

func (d *deployed) remove(p *pod) {
	d.t.Helper()
	p.remove()
	d.mu.Lock()
	for i := range d.pods {
		if d.pods[i] == p {
			d.pods = append(d.pods[:i:i], d.pods[i+1:]...)
			break
		}
	}
	d.mu.Unlock()
	d.resolve()
}

// ready waits until every pod is, and has been for that long.
func (d *deployed) ready(settle time.Duration) {
	d.t.Helper()
	since := time.Time{}
	eventually(d.t, "the pods of "+d.name+" are ready", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, p := range d.pods {
			if !p.proc.Alive() {
				d.t.Fatalf("pod %s ended: %v%s", p.name, p.proc.Err(), p.proc.Log().Tail(15))
			}
			if !p.ready.Load() {
				since = time.Time{}
				return false
			}
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= settle
	})
}

// resolve gives every pod the names of Services: the headless one of its own region, and those of
// the peers' load balancers. Both lead to every pod, ready or not.
func (w *planet) resolve() {
	w.t.Helper()
	var all []*pod
	own := map[*pod]string{}
	var peers strings.Builder
	for _, d := range w.regions {
		d.mu.Lock()
		var addresses strings.Builder
		for _, p := range d.pods {
			fmt.Fprintf(&addresses, "%s homeward-gossip.%s.svc\n", p.ip, d.name)
			fmt.Fprintf(&peers, "%s homeward-peers.%s.example\n", p.ip, d.name)
		}
		for _, p := range d.pods {
			own[p] = addresses.String()
		}
		all = append(all, d.pods...)
		d.mu.Unlock()
	}
	for _, p := range all {
		p.hosts(own[p] + peers.String())
	}
}

func (w *planet) of(region string) *deployed {
	for _, d := range w.regions {
		if d.name == region {
			return d
		}
	}
	w.t.Fatalf("there is no region %s", region)
	return nil
}

// url is where merchants reach the region.
func (d *deployed) url() string { return "http://" + d.service.Addr() }

// rpc is the address at which a pod of the region serves operators.
func (d *deployed) rpc() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return net.JoinHostPort(d.pods[0].ip, d.pods[0].container.at("rpc"))
}
