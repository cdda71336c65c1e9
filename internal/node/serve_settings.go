package node

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/sqlstore"
	"github.com/homeward-io/homeward/payment/psp"
	"github.com/homeward-io/homeward/payment/psp/httpjson"
	"github.com/homeward-io/homeward/region"
)

// ServeSettings is the configuration file of one regional node, with the
// defaults of [DefaultServeSettings]; docs/node.yaml explains each. File and
// environment are read as for [Settings]. The secrets are no settings: see
// [Secrets].
type ServeSettings struct {
	Node     NodeSettings   `koanf:"node"`
	API      APISettings    `koanf:"api"`
	RPC      RPCSettings    `koanf:"rpc"`
	TLS      TLSSettings    `koanf:"tls"`
	Gossip   GossipSettings `koanf:"gossip"`
	Database sqlstore.Pool  `koanf:"database"`
	// Provider configures the only provider of a deployment. A deployment with several
	// uses Providers instead, by name, and DefaultProvider names one of them.
	Provider        ProviderSettings            `koanf:"provider"`
	Providers       map[string]ProviderSettings `koanf:"providers"`
	DefaultProvider string                      `koanf:"default_provider"`
	// LeaveProviders are names that were in use and may have open work, and that this node
	// is to start without all the same.
	LeaveProviders []string `koanf:"leave_providers"`
	// Gateway makes the node a gateway in front of another API, in place of the API of payments: then
	// it calls no provider.
	Gateway gateway.Settings `koanf:"gateway"`
	Tuning  `koanf:",flatten,squash"`
	// Seal: stored values are sealed, with [SealKeys]; otherwise they are stored in clear
	// text.
	Seal bool `koanf:"seal"`
	// Drain bounds a shutdown.
	Drain   time.Duration   `koanf:"drain"`
	Metrics MetricsSettings `koanf:"metrics"`
	Console ConsoleSettings `koanf:"console"`
	// Traces configures what OpenTelemetry's own variables do not.
	Traces TraceSettings `koanf:"traces"`
	// Log is the lowest level that is logged: debug, info, warn or error.
	Log string `koanf:"log"`
}

// NodeSettings identify the node.
type NodeSettings struct {
	// Name is for people; "" takes the host's. A suffix makes it unique per start.
	Name string `koanf:"name"`
	// Region must be in the database's table of regions.
	Region string `koanf:"region"`
}

// APISettings configure the listener for merchants.
type APISettings struct {
	Listen string `koanf:"listen"` // host:port
}

// RPCSettings configure the listener for nodes of other regions.
type RPCSettings struct {
	Listen    string `koanf:"listen"`    // host:port
	Advertise string `koanf:"advertise"` // host:port; "" is the one listened on
}

// MetricsSettings configure the scraping of metrics; OpenTelemetry's own variables
// configure pushing.
type MetricsSettings struct {
	Listen string `koanf:"listen"` // host:port; "" is nowhere
	// AllowPlaintext allows pushing to another machine without TLS.
	AllowPlaintext bool `koanf:"allow_plaintext"`
}

// TraceSettings are those that OpenTelemetry has no variable for.
type TraceSettings struct {
	// AllowPlaintext allows sending to another machine without TLS.
	AllowPlaintext bool `koanf:"allow_plaintext"`
}

// GossipSettings configure the gossip listener, and the seeds.
type GossipSettings struct {
	Listen    string   `koanf:"listen"`    // host:port, TCP and UDP
	Advertise string   `koanf:"advertise"` // host:port; "" is the one listened on
	Seeds     []string `koanf:"seeds"`     // host:ports of other nodes
	// Local: all nodes share one machine or zone, so gossip may use short intervals.
	Local bool `koanf:"local"`
}

// ProviderSettings describe a payment provider.
type ProviderSettings struct {
	// Kind is the adapter: httpjson, stripe or adyen.
	Kind string `koanf:"kind"`
	// Name is the one in Providers, for those.
	Name string `koanf:"name"`
	// Account is the provider's id of our account, for httpjson only: other adapters
	// report it. "" is not compared with the name's former account.
	Account string `koanf:"account"`
	// BaseURL is "" for stripe and adyen unless an operator sets it: their own.
	BaseURL string `koanf:"base_url"`
	// AllowHTTP lets BaseURL be http:// on another machine.
	AllowHTTP bool `koanf:"allow_http"`
	// The following, except Timeout, apply to httpjson only: other adapters set them.
	// Dedupe is key_and_parameters, key or none; see psp.Dedupe.
	Dedupe string `koanf:"dedupe"`
	// Lookup: it answers look-ups by our reference.
	Lookup bool `koanf:"lookup"`
	// Show: it answers look-ups by its own ids.
	Show bool `koanf:"show"`
	// Timeout bounds one call, and exceeds its slowest healthy answer.
	Timeout time.Duration `koanf:"timeout"`
	// SettleWindow is how long after a call a look-up may still miss it; 0 is Timeout,
	// but must be set if Dedupe is none.
	SettleWindow time.Duration `koanf:"settle_window"`
	// Paths are relative to BaseURL.
	Paths PathSettings `koanf:"paths"`
	// KeyHeader carries the provider key.
	KeyHeader string `koanf:"key_header"`
	// Failover names the provider that tries a payment next if this one certainly moved
	// no money; "" for none. FailoverOn are the decline codes that count, beside calls
	// that were not sent.
	Failover   string   `koanf:"failover"`
	FailoverOn []string `koanf:"failover_on"`
	// Webhooks configures the signatures of the provider's webhooks.
	Webhooks SignatureSettings `koanf:"webhooks"`
	// Adyen applies to adyen only.
	Adyen AdyenSettings `koanf:"adyen"`
}

// AdyenSettings are the settings of the adapter for Adyen.
type AdyenSettings struct {
	// MerchantAccount is the account that receives and pays.
	MerchantAccount string `koanf:"merchant_account"`
	// LivePrefix is that of the merchant account's live endpoints; "" is the test environment.
	LivePrefix string `koanf:"live_prefix"`
	// LivePrefixes are those of the home regions that have another, as REGION=PREFIX.
	LivePrefixes []string `koanf:"live_prefixes"`
	// ReturnURL is where payers return to if their merchant names none.
	ReturnURL string `koanf:"return_url"`
}

// PathSettings are the paths of an httpjson provider's API.
type PathSettings struct {
	Charges   string `koanf:"charges"`
	Transfers string `koanf:"transfers"`
	Refunds   string `koanf:"refunds"`
	Lookup    string `koanf:"lookup"`
	Movements string `koanf:"movements"`
}

// SignatureSettings are the headers of an httpjson provider's webhooks, and the
// greatest age of a signature.
type SignatureSettings struct {
	IDHeader        string        `koanf:"id_header"`
	TimestampHeader string        `koanf:"timestamp_header"`
	SignatureHeader string        `koanf:"signature_header"`
	Tolerance       time.Duration `koanf:"tolerance"`
}

// DefaultServeSettings is a node on a developer's machine, beside a simulator.
// docs/node.yaml has the reason for each.
func DefaultServeSettings() ServeSettings {
	tuning := DefaultTuning()
	tuning.Policy.ClockOffset = defaultMaxOffset
	tuning.Outbox = OutboxConfig{Poll: 500 * time.Millisecond, Lease: time.Minute, Batch: 32}
	return ServeSettings{
		Node:     NodeSettings{Region: "us-east1"},
		API:      APISettings{Listen: "127.0.0.1:8081"},
		RPC:      RPCSettings{Listen: "127.0.0.1:7081"},
		TLS:      TLSSettings{TrustDomain: defaultTrustDomain},
		Gossip:   GossipSettings{Listen: "127.0.0.1:7946", Seeds: []string{}},
		Console:  defaultConsole(),
		Database: sqlstore.DefaultPool(),
		Provider: ProviderSettings{
			Kind: kindHTTPJSON, Name: "simulator", BaseURL: "http://127.0.0.1:8090", Dedupe: "key_and_parameters", Lookup: true, Show: true,
			Timeout:   httpjson.DefaultTimeout,
			Paths:     PathSettings{Charges: "/v1/charges", Transfers: "/v1/transfers", Refunds: "/v1/refunds", Lookup: "/v1/lookup", Movements: "/v1/movements"},
			KeyHeader: "Idempotency-Key", FailoverOn: []string{},
			Webhooks: SignatureSettings{
				IDHeader: "webhook-id", TimestampHeader: "webhook-timestamp", SignatureHeader: "webhook-signature", Tolerance: psp.NoticeTolerance,
			},
			Adyen: AdyenSettings{LivePrefixes: []string{}},
		},
		Providers:      map[string]ProviderSettings{},
		LeaveProviders: []string{},
		Gateway:        gateway.DefaultSettings(),
		Tuning:         tuning,
		Seal:           true,
		Drain:          45 * time.Second,
		Metrics:        MetricsSettings{Listen: defaultMetrics},
		Log:            "info",
	}
}

const (
	// StartTime bounds a start: opening the store, once it can be reached, and joining the
	// other regions; each of both in a node.
	StartTime = 30 * time.Second
	// DrainTime is the default bound of a shutdown: more than the provider's slowest
	// healthy answer.
	DrainTime = 45 * time.Second
)

const (
	// defaultMetrics is on the port that OpenTelemetry's specification assigns to
	// Prometheus exporters.
	defaultMetrics = "127.0.0.1:9464"
	// defaultMaxOffset is CockroachDB's own default of --max-offset.
	defaultMaxOffset = 500 * time.Millisecond
	// twoHops is what forwards may add to a request: two round trips of 0.4 s,
	// the longest between regions, and a dial.
	twoHops = 2 * time.Second
	// maxName is the longest node name, in characters: a DNS label, as hosts have.
	maxName = 63
)

// LoadServeSettings reads a node's settings, as LoadSettings does for the demo, and its
// secrets. A missing secret is not reported as a mistake, as settings can be checked
// without the secrets. An invalid one is.
func LoadServeSettings(path string, environ []string) (ServeSettings, Secrets, error) {
	s := DefaultServeSettings()
	err := load(path, environ, &s, others{"serve", "demo", DefaultSettings(), nil})
	secrets, serr := readSecrets(environ)
	var perr error
	secrets.Providers, perr = readProviderSecrets(environ, &s)
	serr = errors.Join(serr, perr)
	for _, p := range s.providers() {
		if p.validate() == nil {
			serr = errors.Join(serr, p.accepts(secrets.Providers[p.Name]))
		}
	}
	return s, secrets, errors.Join(err, s.Validate(), serr)
}

// Validate names every mistake, one to a line.
func (s ServeSettings) Validate() error {
	return errors.Join(
		s.Node.validate(),
		s.addresses(),
		s.TLS.validate(s.RPC),
		s.Console.validate(s.TLS),
		s.Database.Validate(),
		s.Policy.Validate(),
		mustPass("claim.remember_for", s.Policy.RememberFor),
		s.Outbox.validate(),
		s.validateProviders(),
		s.gatewayMistakes(),
		s.callTimes(),
		s.Compensations.validate(),
		s.Events.validate(s.Policy),
		mustPass("deputy_after", s.DeputyAfter),
		mustPass("topology_every", s.TopologyEvery),
		mustPass("sweep_every", s.SweepEvery),
		rateMistake(s.Limits),
		pagesMistake(s.ErrorPages),
		bucketMistake("objects", s.Objects, `"" to keep bodies in their rows`),
		bucketMistake("runs", s.Runs, `"" to keep no reports`),
		s.Audit.validate(),
		levelMistake(s.Log),
	)
}

func (n NodeSettings) validate() error {
	var errs []error
	if len(n.Name) > maxName || strings.ContainsFunc(n.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("settings: node.name %q must be at most %d visible ASCII characters", n.Name, maxName))
	}
	if !region.ValidName(n.Region) {
		errs = append(errs, fmt.Errorf("settings: node.region %q is not a region name; write 1 to %d characters of a-z, 0-9 and '-'", n.Region, region.MaxRegionName))
	}
	return errors.Join(errs...)
}

func (s ServeSettings) addresses() error {
	errs := []error{
		addressMistake("api.listen", s.API.Listen, 0),
		addressMistake("rpc.listen", s.RPC.Listen, 0),
		addressMistake("gossip.listen", s.Gossip.Listen, 0),
	}
	if s.Metrics.Listen != "" {
		errs = append(errs, addressMistake("metrics.listen", s.Metrics.Listen, 0))
	}
	if s.RPC.Advertise != "" {
		errs = append(errs, addressMistake("rpc.advertise", s.RPC.Advertise, 1))
	}
	if s.Gossip.Advertise != "" {
		errs = append(errs, addressMistake("gossip.advertise", s.Gossip.Advertise, 1))
	}
	if host, _, err := net.SplitHostPort(s.RPC.Listen); err == nil && s.RPC.Advertise == "" && unspecified(host) {
		errs = append(errs, fmt.Errorf("settings: rpc.listen %s means every address of this host, so peers cannot dial it; set rpc.advertise to the host:port at which they reach this node", s.RPC.Listen))
	}
	if host, _, err := net.SplitHostPort(s.Gossip.Listen); err == nil && s.Gossip.Advertise == "" && unspecified(host) {
		errs = append(errs, fmt.Errorf("settings: gossip.listen %s means every address of this host, so other nodes cannot find this one by it; set gossip.advertise to the host:port at which they reach it", s.Gossip.Listen))
	}
	// Gossip listens on TCP, too.
	listens := []struct{ name, addr string }{{"api.listen", s.API.Listen}, {"rpc.listen", s.RPC.Listen}, {"gossip.listen", s.Gossip.Listen}, {"metrics.listen", s.Metrics.Listen}, {ConsoleListen, s.Console.Listen}}
	for i, a := range listens {
		for _, b := range listens[:i] {
			if collide(a.addr, b.addr) {
				errs = append(errs, fmt.Errorf("settings: %s %s and %s %s use the same port; give each its own", b.name, b.addr, a.name, a.addr))
			}
		}
	}
	for i, seed := range s.Gossip.Seeds {
		errs = append(errs, addressMistake(fmt.Sprintf("gossip.seeds[%d]", i), seed, 1))
	}
	return errors.Join(errs...)
}

// collide reports whether two listeners cannot share a and b. Port 0 is any free port.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errors.Join(errA, errB) == nil && portA == portB && portA != "0" &&
		(hostA == hostB || unspecified(hostA) || unspecified(hostB))
}

func addressMistake(name, addr string, minPort int) error {
	host, text, err := net.SplitHostPort(addr)
	port, perr := strconv.Atoi(text)
	if err != nil || perr != nil || port < minPort || port > math.MaxUint16 || minPort > 0 && unspecified(host) {
		how := "host:port"
		if strings.Count(addr, ":") > 1 && !strings.Contains(addr, "]") {
			how = "[host]:port, with the brackets around an IPv6 address,"
		}
		return fmt.Errorf("settings: %s %q is not an address; write %s with a port from %d to %d", name, addr, how, minPort, math.MaxUint16)
	}
	return nil
}

// dialable is an address without brackets that its host does not need: what puts them around
// an address that it does not know may do so around IPv4, which no URL may have.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // "", or Validate has refused it
	}
	return net.JoinHostPort(host, port)
}

// unspecified reports whether a host is "every address of this machine".
func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// validate refuses the zeros that an OutboxConfig in code may have: in a file
// they are mistakes.
func (o OutboxConfig) validate() error {
	var batch error
	if o.Batch < 1 {
		batch = fmt.Errorf("settings: outbox.batch must be at least 1, is %d", o.Batch)
	}
	return errors.Join(mustPass("outbox.poll", o.Poll), mustPass("outbox.lease", o.Lease), batch)
}

// callTimes checks that no time-out ends a healthy provider call: that would turn its
// answer into an unknown one.
func (s ServeSettings) callTimes() error {
	bound, why := s.Drain, "drain"
	for _, other := range []struct {
		bound time.Duration
		why   string
	}{
		{s.Policy.LeaseCeiling - s.Policy.LeaseMargin, "claim.lease_ceiling less claim.lease_margin"},
		{s.Limits.Request - s.Policy.WaitMax - twoHops, "what a request may take less claim.wait_max and two hops"},
	} {
		if other.bound < bound {
			bound, why = other.bound, other.why
		}
	}
	var errs []error
	if took := s.Gateway.Timeout(); took >= bound {
		errs = append(errs, fmt.Errorf("settings: gateway.routes let an upstream take %v to answer; that must be below %v, which is %s", took, bound, why))
	}
	for _, p := range s.providers() {
		if p.Timeout >= bound {
			errs = append(errs, fmt.Errorf("settings: %s.timeout must be below %v, which is %s, is %v", p.at, bound, why, p.Timeout))
		}
	}
	return errors.Join(errs...)
}

func bucketMistake(setting, bucket, none string) error {
	if bucket == "" {
		return nil
	}
	if why := cannotOpen(bucket); why != "" {
		return fmt.Errorf("settings: %s %q cannot be opened as a bucket: %s; or write %s", setting, bucket, why, none)
	}
	return nil
}

func levelMistake(level string) error {
	if _, err := logLevel(level); err != nil {
		return fmt.Errorf("settings: log %q must be debug, info, warn or error", level)
	}
	return nil
}

func logLevel(text string) (level slog.Level, err error) {
	err = level.UnmarshalText([]byte(text))
	return level, err
}

// LogLevel is the lowest level that is logged.
func (s ServeSettings) LogLevel() slog.Level {
	level, err := logLevel(s.Log)
	if err != nil {
		return slog.LevelInfo // Validate has refused it
	}
	return level
}

// YAML is the settings as a file, all of them.
func (s ServeSettings) YAML() ([]byte, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(s, "koanf"), nil); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	// A file with both forms would be refused.
	if len(s.Providers) == 0 {
		k.Delete("providers")
	} else {
		k.Delete("provider")
		for name := range s.Providers {
			k.Delete("providers." + name + ".name")
		}
	}
	return k.Marshal(yaml.Parser())
}

// policy is the policy of claims, completed from other settings.
func (s ServeSettings) policy() claim.Policy {
	p := s.Policy
	if s.Gateway.On() {
		p.MaxGenerations = max(p.MaxGenerations, gatewayGenerations)
		p.RememberFor = 0 // an upstream reports nothing afterwards
	}
	if s.Objects == "" {
		p.InlineBody = math.MaxInt // there is no other place for a body
	}
	return p
}

// name is the node's, unique per start.
func (s ServeSettings) name(unique string) (string, error) {
	name, err := s.lastingName()
	return name + "-" + unique, err
}

// lastingName is the node's, whenever it starts.
func (s ServeSettings) lastingName() (string, error) {
	name := s.Node.Name
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("settings: this host has no name (%w); set node.name", err)
		}
		name = host
	}
	return name, nil
}

// GossipKey is the variable of the keys that encrypt gossip: 16, 24 or 32 bytes in
// base64 each, with commas between them. The first encrypts what a node sends; any of
// them decrypts what it receives, so that a deployment can rotate keys.
const GossipKey = "HOMEWARD_GOSSIP_KEY"

// Secrets must not be in the settings file or on the command line; see [Secret]. Both
// members may be missing.
type Secrets struct {
	DatabaseURL string
	GossipKeys  [][]byte
	// Providers has the secrets of each provider that has any, by name.
	Providers map[string]ProviderSecrets
	// SealKeys is the text of the variable [SealKeys].
	SealKeys string
	// AuditKeys is the text of the variable [AuditKeys].
	AuditKeys string
	// OIDC is the value of the variable [OIDCSecret].
	OIDC string
	// Gateway is the value of the variable [GatewayCredentials].
	Gateway string
}

func readSecrets(environ []string) (Secrets, error) {
	var errs []error
	read := func(name string) string {
		value, err := Secret(environ, name)
		errs = append(errs, err)
		return value
	}
	s := Secrets{DatabaseURL: read(DatabaseURL), SealKeys: read(SealKeys), AuditKeys: read(AuditKeys), OIDC: read(OIDCSecret), Gateway: read(GatewayCredentials)}
	if key := read(GossipKey); key != "" {
		for text := range strings.SplitSeq(key, ",") {
			one, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
			if err != nil || !slices.Contains([]int{16, 24, 32}, len(one)) {
				errs = append(errs, fmt.Errorf("%s must be 16, 24 or 32 bytes in base64, or several such with commas between them; make one with: openssl rand -base64 32", GossipKey))
			}
			s.GossipKeys = append(s.GossipKeys, one)
		}
	}
	_, _, herr := gateway.ReadService(s.Gateway)
	errs = append(errs, checkSealKeys(s.SealKeys), herr)
	if s.AuditKeys != "" {
		_, err := ParseAuditKeys(s.AuditKeys)
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

// Missing names every secret that a node with these settings cannot start
// without, one to a line.
func (s Secrets) Missing(settings ServeSettings) error {
	var errs []error
	if s.DatabaseURL == "" {
		errs = append(errs, fmt.Errorf("no database is set: set %s, as in postgresql://user@host:26257/homeward?sslmode=verify-full", DatabaseURL))
	}
	for _, p := range settings.providers() {
		if s.Providers[p.Name].Key != "" {
			continue
		}
		switch p.Kind {
		case kindStripe:
			errs = append(errs, fmt.Errorf("there is no key of the Stripe account: set %s, as in sk_live_…", p.key))
		case kindAdyen:
			errs = append(errs, fmt.Errorf("there is no API key of the Adyen account: set %s, as in AQE…", p.key))
		}
	}
	if settings.Seal && s.SealKeys == "" {
		errs = append(errs, fmt.Errorf("there is no sealing key: set %s as all nodes have it, or make one with: homeward secrets key; seal: false would store secrets of endpoints and bodies of notices in clear text", SealKeys))
	}
	if settings.Audit.Bucket != "" && s.AuditKeys == "" {
		errs = append(errs, fmt.Errorf("there is no key to sign the audit with: set %s; make one with: homeward audit key", AuditKeys))
	}
	if settings.Gateway.NeedsService() && s.Gateway == "" {
		errs = append(errs, fmt.Errorf("a route of the gateway recovers with the service's credentials, and there are none: set %s, as in Authorization: Bearer …", GatewayCredentials))
	}
	if settings.Console.Listen != "" && settings.Console.OIDC.Issuer != "" && s.OIDC == "" {
		errs = append(errs, fmt.Errorf("there is no client secret for %s: set %s", settings.Console.OIDC.Issuer, OIDCSecret))
	}
	// A member of gossip can have requests, and the answers to them, sent to itself.
	if len(s.GossipKeys) == 0 && !onLoopback(settings.Gossip.Listen) {
		errs = append(errs, fmt.Errorf("gossip on %s would be open to anybody: set %s; make one with: openssl rand -base64 32", settings.Gossip.Listen, GossipKey))
	}
	return errors.Join(errs...)
}

// Doubts are warnings for the operator about missing settings, without which the node starts
// all the same: a line each.
func (s Secrets) Doubts(settings ServeSettings) []string {
	var doubts []string
	for _, p := range settings.providers() {
		if s.Providers[p.Name].Webhooks == "" {
			doubts = append(doubts, fmt.Sprintf("%s is not set: every webhook of %s is answered 503, so that only its statements show what it takes back or does late", p.webhooks, p.Name))
		}
	}
	if !settings.Seal {
		doubts = append(doubts, "seal is false: new secrets of endpoints and bodies of notices are stored in clear text; set seal to true once all nodes have the sealing keys")
	}
	return doubts
}

// ProviderVariables are the variables of the providers' secrets, and whether each is set.
func (s Secrets) ProviderVariables(settings ServeSettings) (names []string, set map[string]bool) {
	set = map[string]bool{}
	for _, p := range settings.providers() {
		names = append(names, p.key, p.webhooks)
		set[p.key], set[p.webhooks] = s.Providers[p.Name].Key != "", s.Providers[p.Name].Webhooks != ""
	}
	return names, set
}

func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// secretNames are the variables of secrets, with the settings for which they are often
// mistaken.
var secretNames = map[string][]string{
	DatabaseURL:        {"database_url", "database.url", "database.dsn", "database.user", "database.password"},
	GossipKey:          {"gossip_key", "gossip.key", "gossip.secret_key", "gossip.secret"},
	ProviderKey:        {"provider_key", "provider.key", "provider.api_key", "provider.secret"},
	ProviderWebhooks:   {"provider_webhook_secret", "provider.webhook_secret", "provider.webhooks.secret"},
	SealKeys:           {"seal_keys", "seal_key", "seal.keys", "seal.key"},
	AuditKeys:          {"audit_keys", "audit_key", "audit.keys", "audit.key", "audit.signing_key"},
	GatewayCredentials: {"gateway_credentials", "gateway.credentials", "gateway.service"},
	OIDCSecret:         {"oidc_secret", "console.oidc.secret", "console.oidc.client_secret"},
}

// isSecret reports whether a variable, as NAME=value, is a secret's.
func isSecret(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	_, ok := secretNames[strings.TrimSuffix(name, fileSuffix)]
	return ok || isProviderSecret(name)
}

// misplacedSecrets removes secrets from k and reports where they belong.
func misplacedSecrets(k *koanf.Koanf) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(secretNames)) {
		for _, path := range secretNames[name] {
			if k.Exists(path) {
				errs = append(errs, misplaced(path, name))
				k.Delete(path)
			}
		}
	}
	return errors.Join(append(errs, misplacedProviderSecrets(k))...)
}

func misplaced(path, variable string) error {
	return fmt.Errorf("settings: %s is a secret and must not be among the settings; set the variable %s, or %s to the name of a file that holds it", path, variable, variable+fileSuffix)
}
