package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/homeward-io/homeward/internal/lab/child"
)

const (
	// name is the queried name. Names below test. are reserved (RFC 6761).
	name = "api.homeward.test."
	zone = "homeward.test"
	// checkEvery is how often PowerDNS asks each region, and checkTime how long it waits:
	// whole seconds, as its settings are. One miss is enough: PowerDNS 4 counts no more.
	checkEvery = time.Second
	checkTime  = time.Second
	// askTime bounds one question: the server is on this machine.
	askTime = 2 * time.Second
	// startTime is how long PowerDNS may take until it answers: it takes half a second.
	startTime = 30 * time.Second
	// stopTime is what it gets to end before it is killed.
	stopTime = 5 * time.Second
	// lookEvery is how often it is polled while it starts; it gives no signal.
	lookEvery = 50 * time.Millisecond
)

// errNoPowerDNS: the software is not on this machine.
var errNoPowerDNS = errors.New("no PowerDNS with its geoip backend was found; on Debian and Ubuntu: apt-get install pdns-server pdns-backend-geoip")

// findPowerDNS returns the server's path.
func findPowerDNS(ctx context.Context) (string, error) {
	for _, name := range []string{"pdns_server", "/usr/sbin/pdns_server", "/usr/local/sbin/pdns_server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// Its configuration may load others; it need not be readable, either.
		out, _ := exec.CommandContext(ctx, path, "--no-config", "--list-modules").CombinedOutput()
		if !strings.Contains(string(out), "\ngeoip") {
			return "", errNoPowerDNS
		}
		return path, nil
	}
	return "", errNoPowerDNS
}

// powerDNS is a server of this cluster's name, which ends with this process.
type powerDNS struct {
	addr string // host:port
	proc *child.Process
}

// startPowerDNS starts one at host:port that sends clients to the nearest site of those
// that are ready, at port. dir keeps its files.
func startPowerDNS(ctx context.Context, dir, listen string, all []site, port int, ttl time.Duration) (*powerDNS, error) {
	path, err := findPowerDNS(ctx)
	if err != nil {
		return nil, err
	}
	host, listenPort, ok := strings.Cut(listen, ":")
	if !ok {
		return nil, fmt.Errorf("-listen %q: write HOST:PORT", listen)
	}
	places := filepath.Join(dir, "places.mmdb")
	zones := filepath.Join(dir, "zones.yaml")
	if err := errors.Join(writeEarth(places, all), os.WriteFile(zones, zoneOf(all, port, ttl), 0o600)); err != nil {
		return nil, err
	}
	log, err := child.OpenLog(filepath.Join(dir, "powerdns.log"), false)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, //nolint:noctx // it gets a signal to end, not a kill, when the context ends
		"--no-config", "--daemon=no", "--guardian=no", "--disable-syslog=yes", "--write-pid=no", "--socket-dir="+dir,
		"--local-address="+host, "--local-port="+listenPort, "--security-poll-suffix=",
		"--launch=geoip", "--geoip-zones-file="+zones, "--geoip-database-files=mmdb:"+places,
		"--enable-lua-records=yes", "--edns-subnet-processing=yes",
		"--lua-health-checks-interval="+seconds(checkEvery),
		// What it answers depends on who asks and on what is ready now.
		"--cache-ttl=0", "--query-cache-ttl=0", "--negquery-cache-ttl=0",
		"--loglevel=4")
	cmd.Stdout = log
	s := &powerDNS{addr: listen}
	if s.proc, err = child.Start(cmd, log, syscall.SIGKILL); err != nil {
		return nil, fmt.Errorf("PowerDNS: %w", err)
	}
	if err := s.await(ctx, all); err != nil {
		return nil, errors.Join(err, s.proc.Kill())
	}
	return s, nil
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }

// zoneOf is the zone: one name with a Lua record as its answer. See "Lua Records", functions
// ifurlup and pickclosest, and "GeoIP backend", zones file, in PowerDNS' documentation.
func zoneOf(all []site, port int, ttl time.Duration) []byte {
	var addrs []string
	for _, s := range all {
		addrs = append(addrs, "'"+s.addr.String()+"'")
	}
	url := fmt.Sprintf("http://%s:%d/readyz", strings.TrimSuffix(name, "."), port)
	return fmt.Appendf(nil, `domains:
- domain: %[1]s
  ttl: %[2]s
  records:
    %[1]s:
    - soa: ns.%[1]s hostmaster.%[1]s 1 7200 3600 86400 60
    - ns: {content: ns.%[1]s, ttl: 3600}
    ns.%[1]s:
    - a: {content: 127.0.0.1, ttl: 3600}
    %[3]s:
    - lua: >-
        A "ifurlup('%[4]s', {{%[5]s}}, {selector='pickclosest', backupSelector='all', timeout=%[6]s})"
`, zone, seconds(ttl), strings.TrimSuffix(name, "."), url, strings.Join(addrs, ","), seconds(checkTime))
}

// await returns once a client gets one address: until the first checks are done nothing is taken to
// be ready, and everybody gets every address.
func (s *powerDNS) await(ctx context.Context, all []site) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no answer within %v", startTime))
	defer cancel()
	for {
		got, _, err := s.lookup(ctx, netip.PrefixFrom(all[0].addr, all[0].addr.BitLen()))
		if err == nil && len(got) == 1 {
			return nil
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("PowerDNS ended: %v%s", s.proc.Err(), s.proc.Log().Tail(logLines))
		case <-ctx.Done():
			return fmt.Errorf("PowerDNS at %s: %w (it answered %v, %v)%s", s.addr, context.Cause(ctx), got, err, s.proc.Log().Tail(logLines))
		case <-time.After(lookEvery):
		}
	}
}

// logLines is how much of its log is shown: a reason and what led to it.
const logLines = 5

// lookup asks as a resolver does for a client in subnet. It returns the addresses and for
// how long they may be kept.
func (s *powerDNS) lookup(ctx context.Context, subnet netip.Prefix) ([]netip.Addr, time.Duration, error) {
	q := new(dns.Msg).SetQuestion(name, dns.TypeA)
	q.SetEdns0(dns.DefaultMsgSize, false)
	opt := q.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_SUBNET{
		Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: uint8(subnet.Bits()), Address: subnet.Addr().AsSlice(),
	})
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	res, _, err := new(dns.Client).ExchangeContext(ctx, q, s.addr)
	if err != nil {
		return nil, 0, fmt.Errorf("DNS at %s: %w", s.addr, err)
	}
	if res.Rcode != dns.RcodeSuccess {
		return nil, 0, fmt.Errorf("DNS at %s answers %s", s.addr, dns.RcodeToString[res.Rcode])
	}
	var found []netip.Addr
	var ttl uint32
	for _, rr := range res.Answer {
		if a, ok := rr.(*dns.A); ok {
			if addr, ok := netip.AddrFromSlice(a.A.To4()); ok {
				found, ttl = append(found, addr), a.Hdr.Ttl
			}
		}
	}
	if len(found) == 0 {
		return nil, 0, fmt.Errorf("DNS at %s has no address for %s", s.addr, name)
	}
	return found, time.Duration(ttl) * time.Second, nil
}

// stop ends it.
func (s *powerDNS) stop(ctx context.Context) error {
	s.proc.Expect()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if err := s.proc.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, s.proc.Kill())
	}
	if !s.proc.Wait(ctx) {
		return errors.Join(errors.New("PowerDNS did not end in time and was killed"), s.proc.Kill())
	}
	return nil // its exit code after a signal means nothing
}
