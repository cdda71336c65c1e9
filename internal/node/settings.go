package node

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/embedded"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/problem"
	"github.com/homeward-io/homeward/region"
)

// Settings is the demo's configuration file, with the defaults of
// [DefaultSettings]. Durations are written "30s". The environment overrides the
// file: the variable HOMEWARD_CLAIM__LEASE sets claim.lease, two underscores for
// each dot.
type Settings struct {
	// Regions are the deployment's regions. Codes are part of keys and ids for ever.
	Regions []RegionSetting `koanf:"regions"`
	Tuning  `koanf:",flatten,squash"`
	// ReplicaLag is how old a settled answer is before other regions read it from
	// their own replica. Default 4.8 s, what a CockroachDB follower read lags.
	ReplicaLag time.Duration `koanf:"replica_lag"`
}

// RegionSetting is one region.
type RegionSetting struct {
	Name string           `koanf:"name"`
	Code claim.RegionCode `koanf:"code"`
}

// inAList are the names of settings that lists have in them, nested ones as well: of a
// [RegionSetting], and of a route of a gateway.
func inAList(list string) []string {
	if strings.HasPrefix(list, "gateway.") {
		return namesIn(reflect.TypeFor[gateway.Route]())
	}
	return namesIn(reflect.TypeFor[RegionSetting]())
}

func namesIn(of reflect.Type) (names []string) {
	for field := range of.Fields() {
		names = append(names, field.Tag.Get("koanf"))
		inside := field.Type
		if inside.Kind() == reflect.Slice {
			inside = inside.Elem()
		}
		if inside.Kind() == reflect.Struct {
			names = append(names, namesIn(inside)...)
		}
	}
	return names
}

// DefaultSettings is the demo's deployment: three regions, the published times.
func DefaultSettings() Settings {
	return Settings{
		Regions:    []RegionSetting{{"us-east1", 1}, {"europe-west1", 2}, {"asia-northeast1", 3}},
		Tuning:     DefaultTuning(),
		ReplicaLag: embedded.DefaultReplicaLag,
	}
}

// LoadSettings reads the demo's settings: path ("" for none) and the environment
// over the defaults. The error names every mistake, one to a line.
func LoadSettings(path string, environ []string) (Settings, error) {
	s := DefaultSettings()
	err := load(path, environ, &s, others{"demo", "serve", DefaultServeSettings(), []string{"compensations", "deputy_after", "topology_every"}})
	return s, errors.Join(err, s.Validate())
}

// envPrefix marks the variables that are settings.
const envPrefix = "HOMEWARD_"

// others are the settings of another command, so that this one recognises a file that
// was written for it.
type others struct {
	this, that string // commands
	settings   any
	// not are settings of the other command alone, though this one has fields for them.
	not []string
}

// load reads path ("" for none) and the environment over the settings that into points
// to, which hold the defaults. An invalid setting keeps its default, so that the
// remaining mistakes can still be found.
func load(path string, environ []string, into any, o others) error {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(into, "koanf"), nil); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	for _, name := range o.not {
		k.Delete(name)
	}
	own, set := maps.Clone(k.Raw()), koanf.New(".")
	if path != "" {
		if err := set.Load(file.Provider(path), yaml.Parser()); err != nil {
			return unreadable(path, err)
		}
	}
	from := map[string]string{} // the variable that sets a setting
	variables := env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return slices.DeleteFunc(slices.Clone(environ), notASetting) },
		TransformFunc: func(name, value string) (string, any) {
			path := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "__", ".")
			if group, rest, ok := strings.Cut(path, "."); ok && group == "providers" {
				part, rest, _ := strings.Cut(rest, ".")
				path = group + "." + providerNamed(set, part) + "." + rest
			}
			from[path] = name
			return path, value
		},
	})
	if err := set.Load(variables, nil); err != nil {
		return fmt.Errorf("settings: environment: %w", err)
	}
	if err := unprintable(set.Raw()); err != nil {
		return err
	}
	var both error
	if _, serves := into.(*ServeSettings); serves {
		both = providersFrom(set, k)
	}
	allowed := k.Copy()
	if err := k.Merge(set); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	errs := []error{both, misplacedSecrets(k), foreignSettings(k, own, o), unknownSettings(k, allowed, from)}
	err := k.UnmarshalWithConf("", into, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: into, TagName: "koanf", ErrorUnused: true, WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			mapstructure.StringToTimeDurationHookFunc(), mapstructure.StringToSliceHookFunc(","), refuseBareDurations),
	}})
	if err != nil {
		errs = append(errs, undecodable(err, k, allowed, from)...)
	}
	return errors.Join(errs...)
}

// lineOf finds the line in an error of the YAML parser, which also quotes the content.
var lineOf = regexp.MustCompile(`\bline (\d+)`)

// unreadable returns why a file cannot be read as settings, without its content: it may
// be the wrong file, with a secret in it.
func unreadable(path string, err error) error {
	var reading *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("settings: there is no file %s", path)
	case errors.As(err, &reading):
		return fmt.Errorf("settings: %s: %w", path, reading.Err)
	}
	where := ""
	if m := lineOf.FindStringSubmatch(err.Error()); m != nil {
		where = " line " + m[1] + ":"
	}
	return fmt.Errorf("settings: %s:%s this is not a YAML mapping of settings", path, where)
}

// unprintable refuses names that errors could not show on a line.
func unprintable(value any) error {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
				return fmt.Errorf("settings: there is no setting named %q; write names in letters, digits, '-' and '_'", name)
			}
			if err := unprintable(v[name]); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range v {
			if err := unprintable(element); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknownSettings removes from k what is no setting, and reports it with the nearest setting.
func unknownSettings(k, allowed *koanf.Koanf, from map[string]string) error {
	var errs []error
	for _, name := range k.Keys() {
		if !allowed.Exists(name) {
			given, candidates := name, among(name, allowed.Keys())
			if variable, ok := from[name]; ok {
				given, candidates = variable, variablesOf(candidates)
			}
			errs = append(errs, fmt.Errorf("settings: there is no setting named %s%s%s", name, by(from, name), didYouMean(given, candidates)))
			k.Delete(name)
		}
	}
	return errors.Join(errs...)
}

// by names the variable that sets a setting, if one does.
func by(from map[string]string, name string) string {
	if variable, ok := from[name]; ok {
		return " (from the variable " + variable + ")"
	}
	return ""
}

// Variables of the tools that query a running node: its address, and the prefix of
// their own certificate's file names.
const (
	NodeAddress = "HOMEWARD_NODE"
	Operator    = "HOMEWARD_OPERATOR_"
)

// Variables of secrets that only tools read: a statement's URL, the API keys with which a drill
// pays, and a database that is copied.
const (
	StatementURL = "HOMEWARD_STATEMENT_URL"
	APIKeys      = "HOMEWARD_API_KEYS"
	SourceURL    = "HOMEWARD_SOURCE_DATABASE_URL"
)

// tested prefixes the variables that configure the project's tests; see
// CONTRIBUTING.md.
const tested = "HOMEWARD_TEST_"

// notASetting reports whether a variable, as NAME=value, is a secret's, a tool's or a
// test's.
func notASetting(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return isSecret(variable) || slices.Contains([]string{StatementURL, APIKeys, SourceURL}, strings.TrimSuffix(name, fileSuffix)) || strings.HasPrefix(variable, NodeAddress+"=") ||
		strings.HasPrefix(variable, Operator) || strings.HasPrefix(variable, tested)
}

// foreignSettings removes settings of another command from k, and reports them.
func foreignSettings(k *koanf.Koanf, own map[string]any, o others) error {
	that := koanf.New(".")
	if err := that.Load(structs.Provider(o.settings, "koanf"), nil); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(k.Raw())) {
		if _, isOwn := own[name]; !isOwn && that.Exists(name) {
			errs = append(errs, fmt.Errorf("settings: %s is a setting of homeward %s, not of homeward %s; take it out", name, o.that, o.this))
			k.Delete(name)
		}
	}
	return errors.Join(errs...)
}

// undecodable describes an invalid value, and how to write it.
func undecodable(err error, k, allowed *koanf.Koanf, from map[string]string) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range all.Unwrap() {
			errs = append(errs, undecodable(e, k, allowed, from)...)
		}
		return errs
	}
	one, isOne := err.(*mapstructure.DecodeError) //nolint:errorlint // what it wraps is looked at below
	if inner := errors.Unwrap(err); inner != nil {
		// A mistake within a group or a list is reported for its part.
		var deeper *mapstructure.DecodeError
		if !isOne || errors.As(inner, &deeper) {
			return undecodable(inner, k, allowed, from)
		}
	}
	if !isOne {
		return []error{fmt.Errorf("settings: %w", err)}
	}
	name := one.Name()
	if !allowed.Exists(name) { // in a list
		var unparsed *mapstructure.ParseError
		var another *mapstructure.UnconvertibleTypeError
		switch {
		case errors.As(one, &unparsed):
			return []error{fmt.Errorf("settings: %s %s", name, mistaken(unparsed.Value, reflect.Zero(unparsed.Expected.Type()).Interface()))}
		case errors.As(one, &another):
			return []error{fmt.Errorf("settings: %s %s", name, mistaken(another.Value, reflect.Zero(another.Expected.Type()).Interface()))}
		}
		text := errors.Unwrap(one).Error()
		_, given, _ := strings.Cut(text, "has invalid keys: ")
		return []error{fmt.Errorf("settings: %s %s%s", name, strings.Replace(text, "has invalid keys:", "has no setting named", 1), didYouMean(given, inAList(name)))}
	}
	return []error{fmt.Errorf("settings: %s %s%s", name, mistaken(k.Get(name), allowed.Get(name)), by(from, name))}
}

// mistaken returns why a value is invalid for a setting with such a default.
func mistaken(value, byDefault any) string {
	if byDefault, ok := byDefault.(map[string]any); ok {
		inside := append(slices.Sorted(maps.Keys(byDefault)), "name") // the operator's, if the group has none
		return "is a group of settings and no value; write what is in it, as in " + inside[0] + ": …"
	}
	what := fmt.Sprintf("%q", fmt.Sprint(value))
	switch reflect.ValueOf(value).Kind() {
	case reflect.Map, reflect.Slice:
		what = "with more than one value"
	}
	switch kind := reflect.ValueOf(byDefault).Kind(); {
	case reflect.TypeOf(byDefault) == reflect.TypeFor[time.Duration]():
		return what + " is no duration; write a unit, as in 30s"
	case kind >= reflect.Int && kind <= reflect.Int64:
		return what + " is no whole number; write one, as in 16"
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		return what + " is no whole number from 0 on; write one, as in 16"
	case kind == reflect.Float32 || kind == reflect.Float64:
		return what + " is no number; write one, as in 0.5"
	case kind == reflect.Bool:
		return what + " is neither true nor false; write one of them"
	case kind == reflect.Slice:
		return what + " is no list; write one, as in [a, b]"
	default:
		return what + " is no text; write it in quotes"
	}
}

// refuseBareDurations refuses "lease: 30": nobody means 30 ns.
func refuseBareDurations(from, to reflect.Type, data any) (any, error) {
	if k := from.Kind(); to == reflect.TypeFor[time.Duration]() && (k == reflect.Int || k == reflect.Float64) {
		return nil, errors.New("has no unit; write one, as in 30s")
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
	return errors.Join(err, s.Policy.Validate(), mustPass("claim.remember_for", s.Policy.RememberFor), rateMistake(s.Limits), pagesMistake(s.ErrorPages), mustPass("sweep_every", s.SweepEvery), s.Events.validate(s.Policy))
}

func rateMistake(l httpapi.Limits) error {
	perSecond, burst := l.TenantRate, l.TenantBurst
	if perSecond < 0 || burst < 0 || (perSecond > 0) != (burst > 0) {
		return fmt.Errorf("settings: tenant_rate and tenant_burst must both be above 0 or both be 0, are %g and %d", perSecond, burst)
	}
	return nil
}

func pagesMistake(p problem.Pages) error {
	if err := p.Validate(); err != nil {
		return fmt.Errorf("settings: error_pages %w, is %q", err, string(p))
	}
	return nil
}

// mustPass refuses a duration that is not above 0.
func mustPass(name string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("settings: %s must be above 0, is %v", name, d)
	}
	return nil
}
