package node

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/region"
)

// Settings is the configuration file, with the defaults of [DefaultSettings].
// Durations are written "30s". The environment overrides the file: the variable
// HOMEWARD_CLAIM__LEASE sets claim.lease, two underscores for each dot.
type Settings struct {
	// Regions are the deployment's regions. Codes stand in keys and ids for ever.
	Regions []RegionSetting `koanf:"regions"`
	// Claim is the life of a claim; see claim.Policy.
	Claim claim.Policy `koanf:"claim"`
	// Outbox paces recovery.
	Outbox OutboxConfig `koanf:"outbox"`
	// ReplicaLag is how old a settled answer is before other regions read it from
	// their own replica. Default 4.8 s, what a CockroachDB follower read lags.
	ReplicaLag time.Duration `koanf:"replica_lag"`
	// SweepEvery is how often rows past their windows are deleted. Default 1m.
	SweepEvery time.Duration `koanf:"sweep_every"`
	// Objects is the gocloud.dev URL of the bucket for large response bodies;
	// empty means a directory beside the store.
	Objects string `koanf:"objects"`
	// TenantRate and TenantBurst limit each tenant at each node, in requests per
	// second and requests. Defaults 1000 and 2000.
	TenantRate  float64 `koanf:"tenant_rate"`
	TenantBurst int     `koanf:"tenant_burst"`
}

// RegionSetting is one region.
type RegionSetting struct {
	Name string           `koanf:"name"`
	Code claim.RegionCode `koanf:"code"`
}

// DefaultSettings is the demo's deployment: three regions, the published times.
func DefaultSettings() Settings {
	return Settings{
		Regions:    []RegionSetting{{"us-east1", 1}, {"europe-west1", 2}, {"asia-northeast1", 3}},
		Claim:      claim.DefaultPolicy(),
		ReplicaLag: embedded.DefaultReplicaLag,
		SweepEvery: time.Minute,
		TenantRate: 1000, TenantBurst: 2000,
	}
}

// envPrefix marks the variables that are settings.
const envPrefix = "HOMEWARD_"

// LoadSettings reads path ("" for none) and the environment over the defaults.
// The error names every mistake, one to a line.
func LoadSettings(path string, environ []string) (Settings, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(DefaultSettings(), "koanf"), nil); err != nil {
		return Settings{}, fmt.Errorf("settings: %w", err)
	}
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return Settings{}, fmt.Errorf("settings: there is no file %s", path)
			}
			return Settings{}, fmt.Errorf("settings: %s: %s", path, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	variables := env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "__", "."), value
		},
	})
	if err := k.Load(variables, nil); err != nil {
		return Settings{}, fmt.Errorf("settings: environment: %w", err)
	}
	var s Settings
	err := k.UnmarshalWithConf("", &s, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: &s, TagName: "koanf", ErrorUnused: true, WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(mapstructure.StringToTimeDurationHookFunc(), refuseBareDurations),
	}})
	if err != nil {
		return Settings{}, undecodable(err)
	}
	return s, s.Validate()
}

// undecodable says what mapstructure found, one mistake to a line.
func undecodable(err error) error {
	text := err.Error()
	if _, list, ok := strings.Cut(text, "\n\n"); ok { // below its headline
		text = list
	}
	var errs []error
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		line = strings.Replace(line, "'' has invalid keys:", "there is no setting named", 1)
		line = strings.Replace(line, "has invalid keys:", "has no setting named", 1)
		errs = append(errs, errors.New("settings: "+line))
	}
	return errors.Join(errs...)
}

// refuseBareDurations turns "lease: 30" away: nobody means 30 ns.
func refuseBareDurations(from, to reflect.Type, data any) (any, error) {
	if to == reflect.TypeFor[time.Duration]() && from.Kind() == reflect.Int {
		return nil, fmt.Errorf("%v is no duration; write a unit, as in 30s", data)
	}
	return data, nil
}

// Validate names every mistake, one to a line.
func (s Settings) Validate() error {
	var regions []region.Region
	for _, r := range s.Regions {
		regions = append(regions, region.Region{Name: r.Name, Code: r.Code})
	}
	_, err := region.NewTopology(regions)
	errs := []error{err, s.Claim.Validate()}
	if s.TenantRate < 0 || s.TenantBurst < 0 || (s.TenantRate > 0) != (s.TenantBurst > 0) {
		errs = append(errs, fmt.Errorf("settings: tenant_rate and tenant_burst must both be above 0 or both be 0"))
	}
	if s.SweepEvery <= 0 {
		errs = append(errs, fmt.Errorf("settings: sweep_every must be above 0, is %v", s.SweepEvery))
	}
	return errors.Join(errs...)
}
