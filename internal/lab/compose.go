package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/homeward-io/homeward/internal/drill"
	"github.com/homeward-io/homeward/internal/node"
)

// ComposeMeans are those of a Docker Compose project: they act on its containers, and
// no others, through the docker command. Compose labels each container with the
// project's directory and the service.
type ComposeMeans struct {
	NoMeans
	containers []container
	regions    []drill.Region
}

// container is one container of the project, as docker inspect prints it.
type container struct {
	ID     string `json:"Id"`
	Config struct {
		Labels map[string]string
	}
	NetworkSettings struct {
		Networks map[string]struct {
			IPAddress  string
			IPAMConfig struct{ IPv4Address string }
			Aliases    []string
		}
		Ports map[string][]struct{ HostPort string }
	}
}

const (
	composeDir     = "com.docker.compose.project.working_dir"
	composeService = "com.docker.compose.service"
	// composeDatabase begins the name of a region's database service.
	composeDatabase = "database-"
	// readyEvery is how often a starting node is polled: no signal of its readiness leaves a
	// container.
	readyEvery = 100 * time.Millisecond
)

func (c container) service() string { return c.Config.Labels[composeService] }

// ReadCompose reads the containers of the project in dir. regions are the entry
// regions.
func ReadCompose(ctx context.Context, dir string, regions []drill.Region) (ComposeMeans, error) {
	m := ComposeMeans{regions: regions}
	ids, err := docker(ctx, "ps", "-aq", "--no-trunc", "--filter", "label="+composeDir+"="+dir)
	if err != nil {
		return m, err
	}
	if len(strings.Fields(ids)) == 0 {
		return m, fmt.Errorf("--compose: there is no container of a Docker Compose project in %s; start it, or name its directory", dir)
	}
	text, err := docker(ctx, append([]string{"inspect"}, strings.Fields(ids)...)...)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal([]byte(text), &m.containers); err != nil {
		return m, fmt.Errorf("docker inspect: %w", err)
	}
	slices.SortFunc(m.containers, func(a, b container) int { return strings.Compare(a.service(), b.service()) })
	return m, nil
}

func docker(ctx context.Context, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// regionOf returns the region of a service that is a node: REGION-NAME. Where one region's name
// begins another's, the longer one counts.
func (m ComposeMeans) regionOf(service string) (name string, ok bool) {
	for _, r := range m.regions {
		if strings.HasPrefix(service, r.Name+"-") && len(r.Name) > len(name) {
			name = r.Name
		}
	}
	return name, name != ""
}

func (m ComposeMeans) Nodes() (all []drill.Node) {
	for _, c := range m.containers {
		if region, ok := m.regionOf(c.service()); ok {
			all = append(all, drill.Node{Name: c.service(), Region: region})
		}
	}
	return all
}

func (m ComposeMeans) Offers(s drill.Scenario, region string) (string, error) {
	var names []string
	for _, n := range m.Nodes() {
		if n.Region == region {
			names = append(names, n.Name)
		}
	}
	nodes := strings.Join(names, " and ")
	needNodes := func(how string) (string, error) {
		if len(names) == 0 {
			return "", fmt.Errorf("the project has no container of a service called %s-…", region)
		}
		return how, nil
	}
	switch s {
	case drill.PSPOutage:
		return pspOutageHow, nil
	case drill.RegionLoss:
		return needNodes("docker kill " + nodes + ", then docker start")
	case drill.Partition:
		return needNodes("docker network disconnect of " + nodes + ", then connect")
	case drill.RollingRestart:
		return "docker stop of each node in turn, and a start", nil
	case drill.DBFailover:
		if _, err := m.find(composeDatabase + region); err != nil {
			return "", err
		}
		return "docker kill " + composeDatabase + region + ", then docker start", nil
	case drill.Blackhole:
		return "", fmt.Errorf("%s is not offered with --compose: its containers have no gate before their RPC ports; use --cluster", s)
	case drill.DatabasePath:
		return "", fmt.Errorf("%s is not offered with --compose: its containers have no gate before the database; use --cluster", s)
	case drill.Drain:
	}
	return "", fmt.Errorf("%s is not offered with --compose; use homeward region drain", s)
}

func (m ComposeMeans) find(service string) (container, error) {
	for _, c := range m.containers {
		if c.service() == service {
			return c, nil
		}
	}
	return container{}, fmt.Errorf("the project has no container of a service called %s", service)
}

// do runs one docker command on a service's container.
func (m ComposeMeans) do(ctx context.Context, service string, args ...string) error {
	c, err := m.find(service)
	if err != nil {
		return err
	}
	_, err = docker(ctx, append(args, c.ID)...)
	return err
}

func (m ComposeMeans) Kill(ctx context.Context, node string) error { return m.do(ctx, node, "kill") }
func (m ComposeMeans) Stop(ctx context.Context, node string) error { return m.do(ctx, node, "stop") }

func (m ComposeMeans) Start(ctx context.Context, node string) error {
	if err := m.do(ctx, node, "start"); err != nil {
		return err
	}
	c, err := m.find(node)
	if err != nil {
		return err
	}
	api, ok := m.apiOf(c)
	if !ok {
		return fmt.Errorf("none of the addresses in --api is that of %s, so its readiness cannot be read", node)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, clusterStartTime, fmt.Errorf("not ready within %v", clusterStartTime))
	defer cancel()
	for !answersReady(ctx, api) {
		select {
		case <-time.After(readyEvery):
		case <-ctx.Done():
			return fmt.Errorf("%s at %s: %w", node, api, context.Cause(ctx))
		}
	}
	return nil
}

// apiOf finds the address in --api that leads to a container: its own, or one of
// the ports that it publishes.
func (m ComposeMeans) apiOf(c container) (string, bool) {
	for _, r := range m.regions {
		for _, api := range r.URLs {
			u, err := url.Parse(api)
			if err != nil {
				continue // refused before the drill began
			}
			for _, n := range c.NetworkSettings.Networks {
				if n.IPAddress == u.Hostname() {
					return api, true
				}
			}
			ip := net.ParseIP(u.Hostname())
			for _, published := range c.NetworkSettings.Ports {
				for _, p := range published {
					if p.HostPort == u.Port() && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
						return api, true
					}
				}
			}
		}
	}
	return "", false
}

func answersReady(ctx context.Context, api string) bool {
	ctx, cancel := context.WithTimeout(ctx, node.ConnectTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/readyz", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

// Cut disconnects a container from all its networks, and Join reconnects it, with its
// former address.
func (m ComposeMeans) Cut(ctx context.Context, node string) error {
	c, err := m.find(node)
	if err != nil {
		return err
	}
	var errs []error
	for network := range c.NetworkSettings.Networks {
		_, err := docker(ctx, "network", "disconnect", network, c.ID)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (m ComposeMeans) Join(ctx context.Context, node string) error {
	c, err := m.find(node)
	if err != nil {
		return err
	}
	var errs []error
	for network, n := range c.NetworkSettings.Networks {
		args := []string{"network", "connect"}
		if n.IPAMConfig.IPv4Address != "" {
			args = append(args, "--ip", n.IPAMConfig.IPv4Address)
		}
		for _, alias := range n.Aliases {
			args = append(args, "--alias", alias)
		}
		_, err := docker(ctx, append(args, network, c.ID)...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (m ComposeMeans) KillDatabase(ctx context.Context, region string) error {
	return m.do(ctx, composeDatabase+region, "kill")
}

func (m ComposeMeans) StartDatabase(ctx context.Context, region string) error {
	return m.do(ctx, composeDatabase+region, "start")
}
