package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are the settings of a gateway, as files have them. docs/GATEWAY.md explains each. The zero
// value has no upstream, and is none.
type Settings struct {
	// Mode is guard, or shadow: then every request passes, and what guarding would have come to is
	// reported.
	Mode string `koanf:"mode"`
	// Upstream is the base URL of the API: its path begins every path that is sent there.
	Upstream string `koanf:"upstream"`
	// Upstreams are those of the regions that have one of their own, as REGION=URL. A key's requests go
	// to the upstream of its home, whichever region sends them, unless ShareKeys: then each region has
	// its own, and all of them recognise the same repeats.
	Upstreams []string `koanf:"upstreams"`
	ShareKeys bool     `koanf:"upstreams_share_keys"`
	// Tenant is that of routes without one of their own.
	Tenant Tenant `koanf:"tenant"`
	// JWT verifies the tokens of tenants from a claim.
	JWT JWT `koanf:"jwt"`
	// TLS is of the listener for callers; without it they send plain HTTP.
	TLS TLS `koanf:"tls"`
	// TrustedProxies are the addresses, as 10.0.0.0/8, that may name a tenant in a header.
	TrustedProxies []string `koanf:"trusted_proxies"`
	// Routes are the rules of requests by method and path. What matches none of them is guarded as a
	// route of the profile rest is, if it is a POST or PATCH with an Idempotency-Key, and passes otherwise.
	Routes []Route `koanf:"routes"`
}

// Tenant is where a request's tenant comes from.
type Tenant struct {
	// From is fixed, header, claim or certificate; "" is fixed.
	From string `koanf:"from"`
	// Name is the tenant, the header, the claim of the token, or uri, dns or cn of the certificate; ""
	// is the tenant "gateway".
	Name string `koanf:"name"`
}

// JWT are the tokens from which tenants are read.
type JWT struct {
	// Keys is the URL of the issuer's keys (JWKS). Issuer and Audience are what a token must name.
	Keys     string `koanf:"keys"`
	Issuer   string `koanf:"issuer"`
	Audience string `koanf:"audience"`
}

// TLS are files, PEM.
type TLS struct {
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// ClientCA signs the certificates of callers; "": none is asked for.
	ClientCA string `koanf:"client_ca"`
}

// Route is the rules of the requests that Match matches. What it leaves out is its profile's.
type Route struct {
	// Match is POST, PUT, PATCH or DELETE and a path, as net/http's ServeMux has them, without a host:
	// POST /v1/orders/{id}.
	Match string `koanf:"match"`
	// Profile is rest, stripe, adyen or acp; "" is rest. The gateway's own errors speak it.
	Profile     string      `koanf:"profile"`
	Tenant      Tenant      `koanf:"tenant"`
	Key         Key         `koanf:"key"`
	Fingerprint Fingerprint `koanf:"fingerprint"`
	// BodyBytes bounds the request's body; 0 is 1 MiB. Timeout is how long the upstream may take; 0 is
	// [DefaultTimeout].
	BodyBytes int64         `koanf:"body_bytes"`
	Timeout   time.Duration `koanf:"timeout"`
	// Dedupe is the header by which the upstream recognises a repeat for DedupeFor, and answers it as
	// it answered the first; none: by no header, also where the profile has one. 0 is a day.
	// Idempotency-Key gets the caller's key, any other header one of the claim's own.
	Dedupe    string        `koanf:"dedupe"`
	DedupeFor time.Duration `koanf:"dedupe_for"`
	// Recovery is what follows an attempt without a clear reply: repeat, ask or none. "" is the
	// first of these that Dedupe and Ask allow.
	Recovery string `koanf:"recovery"`
	// Credentials are whose the recovery uses: caller, which stores the caller's, or service.
	Credentials string `koanf:"credentials"`
	Ask         Ask    `koanf:"ask"`
	// Replies say what a reply means: the first that fits counts, and then the profile's.
	Replies []Reply `koanf:"replies"`
	// KeepHeaders are headers of replies that are kept beside those that always are.
	KeepHeaders []string `koanf:"keep_headers"`
	// ReplayFor is how long a key keeps a reply of the upstream; 0 is the deployment's claim.replay_for,
	// which is the most.
	ReplayFor time.Duration `koanf:"replay_for"`
	// NeverStore are the members of a body, by the end of their path, with one of which a request is
	// not stored. Empty is [DefaultNeverStore], and [none] none: then anything may be stored.
	NeverStore []string `koanf:"never_store"`
}

// Key is where a request's key is.
type Key struct {
	// Header has it, or Member of a JSON body, a JSON pointer.
	Header string `koanf:"header"`
	Member string `koanf:"member"`
	// Missing is pass or refuse.
	Missing string `koanf:"missing"`
	// Scope is tenant, or path: then the same key at another path is another key.
	Scope string `koanf:"scope"`
}

// Fingerprint is what of a request identifies it, beside method, path and query.
type Fingerprint struct {
	// Body is json, form or bytes; "" goes by the Content-Type.
	Body string `koanf:"body"`
	// Without are members of a JSON body's top level, or names of a form, that are left out.
	Without []string `koanf:"without"`
	// Headers belong to it; Host is the host that the caller asked for. Empty is the
	// profile's, and [none] none.
	Headers []string `koanf:"headers"`
}

// Ask is a GET by which the upstream says what became of a request.
type Ask struct {
	// Path is of the upstream, with {key}, {tenant}, the wildcards of the route's pattern, and JSON
	// pointers into the body, as in /v1/orders?reference={/reference}. {key} or a pointer tells requests
	// apart; wildcards alone do for a PUT or a DELETE with Replies. "": it cannot be asked.
	Path string `koanf:"path"`
	// Replies say what an answer means; none: 2xx is done, 404 is released, all else is unknown. What
	// none of them fits is unknown.
	Replies []Reply `koanf:"replies"`
	// Answers: an answer that says done is the reply. Otherwise the reply is a 303 to Path.
	Answers bool `koanf:"answers"`
	// SureAfter is how long a request can take to show, at most: not found twice, so far apart, is a
	// no. 0: not found is never a no.
	SureAfter time.Duration `koanf:"sure_after"`
}

// Reply is what a reply means if it fits.
type Reply struct {
	// Status are statuses, as 404 or 4xx; none: any.
	Status []string `koanf:"status" json:"s,omitempty"`
	// Header or Member, a JSON pointer, is there, and is one of Is, if there are any: text, numbers, true,
	// false or null. Without Is, null is not there, but for the outcome unknown.
	Header string `koanf:"header" json:"h,omitempty"`
	Member string `koanf:"member" json:"m,omitempty"`
	Is     []any  `koanf:"is" json:"i,omitempty"`
	// Outcome is done, refused, released or unknown.
	Outcome string `koanf:"outcome" json:"o"`
	// Repeat: the outcome is believed of an answer to a repeat, too. Done always is.
	Repeat bool `koanf:"repeat" json:"r,omitempty"`
}

// The words of settings.
const (
	fromFixed       = "fixed"
	fromHeader      = "header"
	fromClaim       = "claim"
	fromCertificate = "certificate"

	missingPass   = "pass"
	missingRefuse = "refuse"

	scopeTenant = "tenant"
	scopePath   = "path"

	bodyJSON  = "json"
	bodyForm  = "form"
	bodyBytes = "bytes"

	recoverRepeat = "repeat"
	recoverAsk    = "ask"
	none          = "none" // also of Dedupe

	callers = "caller"
	service = "service"

	done     = "done"
	refused  = "refused"
	released = "released"
	unclear  = "unknown"
)

// DefaultNeverStore are the members with which no request is stored: a card's verification code,
// which nobody may keep, and its number.
func DefaultNeverStore() []string {
	return []string{
		"cvc", "cvc2", "cvv", "cvv2", "cvn", "csc", "cid", "card_cvc", "cardCvc", "card_code", "security_code", "securityCode", "encryptedSecurityCode", "verification_value", "verification_code",
		"card.number", "credit_card.number", "creditCard.number", "payment_method.number", "paymentMethod.number", "card_number", "cardNumber", "pan",
	}
}

// DefaultSettings is a gateway without an upstream.
func DefaultSettings() Settings {
	return Settings{Mode: modeGuard, Upstreams: []string{}, Tenant: Tenant{From: fromFixed}, TrustedProxies: []string{}, Routes: []Route{}}
}

// withPlain are the routes of s, and those that are there whatever s says.
func (s *Settings) withPlain() []Route {
	all := slices.Clone(s.Routes)
	for _, match := range plainRoutes {
		if !slices.ContainsFunc(all, func(r Route) bool { return r.Match == match }) {
			all = append(all, Route{Match: match})
		}
	}
	return all
}

// Dedupe sets the header by which the upstream recognises a repeat for requests that no other route
// matches, unless s has one for them. "" changes nothing.
func (s *Settings) Dedupe(header string) {
	if header == "" {
		return
	}
	s.Routes = s.withPlain()
	for i := range s.Routes {
		if r := &s.Routes[i]; slices.Contains(plainRoutes, r.Match) && r.Dedupe == "" && profiles[r.Profile].Dedupe == "" {
			r.Dedupe = header
		}
	}
}

// plainRoutes are there whatever the settings say.
var plainRoutes = []string{"POST /", "PATCH /"}

// Guarded is the upstream, or all of them, for people.
func (s *Settings) Guarded() string {
	if s.Upstream == "" {
		return strings.Join(s.Upstreams, ", ")
	}
	return s.Upstream
}

// ReplayedLonger names the routes whose keys would keep their replies for longer than the deployment's, by
// which pins and tombstones go.
func (s *Settings) ReplayedLonger(most time.Duration) error {
	var errs []error
	for i, r := range s.Routes {
		if r.ReplayFor > most {
			errs = append(errs, fmt.Errorf("settings: gateway.routes[%d] replay_for is %v, longer than claim.replay_for, which is %v; shorten it, or lengthen that at every node", i, r.ReplayFor, most))
		}
	}
	return errors.Join(errs...)
}

// Timeout is the longest that an upstream may take to answer; 0 for no gateway.
func (s *Settings) Timeout() (longest time.Duration) {
	if !s.On() {
		return 0
	}
	for _, r := range s.withPlain() {
		longest = max(longest, or(r.Timeout, DefaultTimeout))
	}
	return longest
}

// On reports whether s has an upstream.
func (s *Settings) On() bool { return s.Upstream != "" || len(s.Upstreams) > 0 }

const (
	day = 24 * time.Hour
	// minReplayFor is longer than the 90 s that a request may run: who waited for it and got nothing
	// retries then.
	minReplayFor = 2 * time.Minute
	// MaxBody is the longest body of a guarded request, in bytes. Nodes send each other 4 MiB at most.
	MaxBody = 3 << 20
)

// profiles are the rules that a route leaves out. Replies are those of every profile, behind its own.
var profiles = map[string]Route{
	"rest": {
		Key: Key{Header: keyHeader, Missing: missingPass}, Fingerprint: Fingerprint{Headers: []string{"Authorization"}},
	},
	// docs.stripe.com/api/idempotent_requests: results are kept for at least 24 h, once execution has
	// begun, and a repeat is answered with them, 4xx and 500 as well. docs.stripe.com/error-low-level:
	// 401, 429 and most 400 precede that layer.
	"stripe": {
		Key: Key{Header: keyHeader, Missing: missingPass}, Fingerprint: Fingerprint{Headers: []string{"Authorization", "Stripe-Account", "Stripe-Context"}},
		Dedupe: keyHeader, DedupeFor: day, KeepHeaders: []string{"Request-Id", "Stripe-Version"},
		Replies: []Reply{
			{Status: []string{"401", "403", "409", "429"}, Header: "Idempotent-Replayed", Is: []any{"true"}, Outcome: unclear},
			{Status: []string{"4xx"}, Header: "Idempotent-Replayed", Is: []any{"true"}, Outcome: refused, Repeat: true},
		},
	},
	// docs.adyen.com/development-resources/api-idempotency: keys of at most 64 characters, for at least
	// 31 days, of which a week is relied on, and in one region's endpoint alone; transient-error says that
	// a repeat is worth while. Error 704 is a request that was processed or is in progress.
	"adyen": {
		Key: Key{Header: keyHeader, Missing: missingPass}, Fingerprint: Fingerprint{Headers: []string{"Authorization", "X-Api-Key"}},
		Dedupe: keyHeader, DedupeFor: 7 * day, KeepHeaders: []string{"Pspreference"},
		Replies: []Reply{
			{Status: []string{"4xx", "5xx"}, Header: "Transient-Error", Is: []any{"true"}, Outcome: unclear},
			{Status: []string{"4xx"}, Member: "/errorCode", Is: []any{"704"}, Outcome: unclear},
		},
	},
	// The agentic commerce protocol, rfcs/rfc.agentic_checkout.md, section 6.
	"acp": {
		Key: Key{Header: keyHeader, Missing: missingRefuse, Scope: scopePath}, Fingerprint: Fingerprint{Body: bodyJSON, Headers: []string{"Authorization"}},
		KeepHeaders: []string{"Request-Id"},
	},
}

// replies are how replies are read that no other rule fits. What does not say that the upstream did
// nothing is unknown: 408 arrived in part, 409 conflicts with what may be the request itself under
// way, 425 may be replayed. 401, 403 and 429 say nothing about the request itself.
var replies = []Reply{
	{Status: []string{"1xx", "408", "409", "425", "5xx"}, Outcome: unclear},
	{Status: []string{"401", "403", "429"}, Outcome: released},
	{Status: []string{"4xx"}, Outcome: refused},
	{Status: []string{"2xx", "3xx"}, Outcome: done},
}

// askReplies are how the answers of a look-up are read that names one request.
var askReplies = []Reply{{Status: []string{"2xx"}, Outcome: done}, {Status: []string{"404"}, Outcome: released}}

// complete fills in what the route leaves out.
func (r Route) complete(s *Settings) Route {
	if r.Profile == "" {
		r.Profile = "rest"
	}
	p := profiles[r.Profile]
	if r.Tenant == (Tenant{}) {
		r.Tenant = s.Tenant
	}
	if r.Tenant.From == "" {
		r.Tenant.From = fromFixed
	}
	if r.Tenant.Name == "" && r.Tenant.From == fromFixed {
		r.Tenant.Name = DefaultTenant
	}
	if r.Key.Header == "" && r.Key.Member == "" {
		r.Key.Header = p.Key.Header
	}
	r.Key.Missing = or(r.Key.Missing, p.Key.Missing)
	r.Key.Scope = or(r.Key.Scope, p.Key.Scope, scopeTenant)
	r.Fingerprint.Body = or(r.Fingerprint.Body, p.Fingerprint.Body)
	switch {
	case slices.Equal(r.Fingerprint.Headers, []string{none}):
		r.Fingerprint.Headers = nil
	case len(r.Fingerprint.Headers) == 0:
		if r.Fingerprint.Headers = p.Fingerprint.Headers; r.Tenant.From != fromFixed {
			// The tenant says who called, and a token may be renewed between two tries.
			r.Fingerprint.Headers = without(r.Fingerprint.Headers, "Authorization", "X-Api-Key")
		}
	}
	switch {
	case r.Dedupe == none:
		r.Dedupe = ""
	case r.Dedupe == "":
		r.Dedupe, r.DedupeFor = p.Dedupe, or(r.DedupeFor, p.DedupeFor)
	}
	r.Dedupe, r.DedupeFor = http.CanonicalHeaderKey(r.Dedupe), or(r.DedupeFor, day)
	if r.Recovery == "" {
		switch {
		case r.Dedupe != "":
			r.Recovery = recoverRepeat
		case r.Ask.Path != "":
			r.Recovery = recoverAsk
		default:
			r.Recovery = none
		}
	}
	r.Credentials = or(r.Credentials, callers)
	if r.Ask.Path != "" && len(r.Ask.Replies) == 0 {
		r.Ask.Replies = askReplies
	}
	r.Replies, r.Ask.Replies = spelled(r.Replies), spelled(r.Ask.Replies)
	r.BodyBytes, r.Timeout = or(r.BodyBytes, 1<<20), or(r.Timeout, DefaultTimeout)
	r.KeepHeaders = slices.Concat(p.KeepHeaders, r.KeepHeaders)
	switch {
	case slices.Equal(r.NeverStore, []string{none}):
		r.NeverStore = nil
	case len(r.NeverStore) == 0:
		r.NeverStore = DefaultNeverStore()
	}
	return r
}

func or[T comparable](values ...T) (first T) {
	for _, v := range values {
		if v != first {
			return v
		}
	}
	return first
}

func without(all []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
}

// Validate names every mistake, one to a line, each with the setting below gateway that has it.
func (s *Settings) Validate() error {
	var errs []error
	mistake := func(setting, format string, args ...any) {
		errs = append(errs, fmt.Errorf("settings: gateway."+setting+" "+format, args...))
	}
	if s.Upstream != "" {
		if _, err := ReadUpstream(s.Upstream); err != nil {
			mistake("upstream", "%q: %w", hidden(s.Upstream), err)
		}
	}
	if s.Mode != modeGuard && s.Mode != modeShadow && s.Mode != "" {
		mistake("mode", "%q is not known; write guard, or shadow, which lets every request pass and reports what guarding would have come to", s.Mode)
	}
	for i, text := range s.Upstreams {
		region, at, ok := strings.Cut(text, "=")
		if _, err := ReadUpstream(at); !ok || region == "" || err != nil {
			mistake(fmt.Sprintf("upstreams[%d]", i), "%q: write REGION=URL, as in us-east1=http://10.0.0.1:9000", hidden(text))
		}
	}
	if s.ShareKeys && len(s.Upstreams) == 0 {
		mistake("upstreams_share_keys", "is set without upstreams; name those of the regions, or leave it out")
	}
	if !s.On() {
		plain := DefaultSettings()
		if len(s.Routes) > 0 || s.TLS != plain.TLS || s.JWT != plain.JWT || len(s.TrustedProxies) > 0 || s.Tenant != plain.Tenant {
			mistake("upstream", "is missing, so that the node is no gateway; name the API to guard, or take gateway out")
		}
	}
	for i, text := range s.TrustedProxies {
		if _, err := netip.ParsePrefix(text); err != nil {
			mistake(fmt.Sprintf("trusted_proxies[%d]", i), "%q is not a range of addresses; write one, as in 10.0.0.0/8 or 10.0.0.7/32", text)
		}
	}
	if t := s.TLS; (t.Cert == "") != (t.Key == "") || t.ClientCA != "" && t.Cert == "" {
		mistake("tls", "is not whole; name cert and key, and client_ca as well if callers show certificates")
	}
	if j := s.JWT; j != (JWT{}) {
		if u, err := url.Parse(j.Keys); err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) || j.Issuer == "" || j.Audience == "" {
			mistake("jwt", "needs keys, the https:// URL of the issuer's keys (JWKS), and the issuer and audience that tokens must name")
		}
	}
	if err := s.tenantMistake(s.Tenant); err != nil {
		mistake("tenant", "%w", err)
	}
	for i := range s.Routes {
		for _, err := range s.routeMistakes(&s.Routes[i]) {
			mistake(fmt.Sprintf("routes[%d]", i), "%w", err)
		}
	}
	if len(errs) == 0 {
		if _, err := newMatcher(s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hidden is the text of a URL without its password.
func hidden(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

func (s *Settings) tenantMistake(t Tenant) error {
	switch t.From {
	case "", fromFixed:
		if t.Name != "" && !tenantForm.MatchString(t.Name) {
			return fmt.Errorf("name %q is not a tenant; write 1 to 63 characters of a-z, A-Z, 0-9, '.', '_' and '-', the first a letter or digit", t.Name)
		}
	case fromHeader:
		switch {
		case !isHeader(t.Name) || t.Name == "":
			return fmt.Errorf("name %q is not a header; write the one that names the tenant, as in X-Tenant", t.Name)
		case s.TLS.ClientCA == "" && len(s.TrustedProxies) == 0:
			return errors.New("from header lets any caller be any tenant; set gateway.tls.client_ca, so that callers show a certificate, or gateway.trusted_proxies to the addresses of the proxies that set the header")
		}
	case fromClaim:
		switch {
		case t.Name == "":
			return errors.New("name is missing; write the claim of the token that names the tenant, as in sub")
		case s.JWT == JWT{}:
			return errors.New("from claim needs gateway.jwt, by which tokens are verified: keys, issuer and audience")
		}
	case fromCertificate:
		switch {
		case !slices.Contains([]string{"uri", "dns", "cn"}, t.Name):
			return fmt.Errorf("name %q is not a part of a certificate; write uri, dns or cn", t.Name)
		case s.TLS.ClientCA == "":
			return errors.New("from certificate needs gateway.tls.client_ca, which signs the certificates of callers")
		}
	default:
		return fmt.Errorf("from %q is not known; write fixed, header, claim or certificate", t.From)
	}
	return nil
}

func (s *Settings) routeMistakes(r *Route) (errs []error) {
	mistake := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	oneOf := func(name, value string, words ...string) {
		if value != "" && !slices.Contains(words, value) {
			mistake("%s %q is not known; write %s", name, value, strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
		}
	}
	switch method, at, _ := strings.Cut(r.Match, " "); {
	case !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method):
		mistake("match %q is not a method and a path of requests that change something; write POST, PUT, PATCH or DELETE, as in POST /v1/orders/{id}", r.Match)
	case !strings.HasPrefix(at, "/"): // the mux takes it for a host, which no request has to name
		mistake("match %q has no path after its method that begins with /; write one as in POST /v1/orders/{id}", r.Match)
	case strings.ContainsAny(at, "?#"): // the mux takes them for letters of the path
		mistake("match %q fits no request, as patterns have no query and no fragment; write the path alone, as in POST /v1/orders/{id}", r.Match)
	}
	oneOf("profile", r.Profile, "rest", "stripe", "adyen", "acp")
	oneOf("key.missing", r.Key.Missing, missingPass, missingRefuse)
	oneOf("key.scope", r.Key.Scope, scopeTenant, scopePath)
	oneOf("fingerprint.body", r.Fingerprint.Body, bodyJSON, bodyForm, bodyBytes)
	oneOf("recovery", r.Recovery, recoverRepeat, recoverAsk, none)
	oneOf("credentials", r.Credentials, callers, service)
	if r.Tenant != (Tenant{}) {
		if err := s.tenantMistake(r.Tenant); err != nil {
			mistake("tenant.%w", err)
		}
	}
	switch {
	case r.Key.Header != "" && r.Key.Member != "":
		mistake("key has a header and a member; name one of them")
	case r.Key.Header != "" && !isHeader(r.Key.Header):
		mistake("key.header %q is not a header; write one as in Idempotency-Key", r.Key.Header)
	case r.Key.Member != "" && !isPointer(r.Key.Member):
		mistake("key.member %q is not a JSON pointer; write one as in /reference", r.Key.Member)
	}
	for _, name := range r.Fingerprint.Headers {
		if !isHeader(name) {
			mistake("fingerprint.headers %q is not a header; write one as in Authorization", name)
		}
	}
	for _, list := range []struct {
		setting string
		names   []string
	}{{"fingerprint.headers", r.Fingerprint.Headers}, {"never_store", r.NeverStore}} {
		if len(list.names) > 1 && slices.Contains(list.names, none) {
			mistake("%s has none beside others; write [none] alone, or take it out", list.setting)
		}
	}
	for _, name := range r.Fingerprint.Without {
		switch {
		case name == "" || isPointer(name):
			mistake("fingerprint.without %q is not a member of the body's top level; write its bare name, as in sent_at", name)
		case strings.Contains(name, ".") && r.Fingerprint.Body != bodyForm: // forms have such names
			mistake("fingerprint.without %q is not a member of the body's top level; write the name of one, as in sent_at, or body: form if it is a field of a form", name)
		}
	}
	if r.BodyBytes < 0 || r.BodyBytes > MaxBody {
		mistake("body_bytes must be from 1 to %d, is %d", MaxBody, r.BodyBytes)
	}
	if r.Credentials == service && r.BodyBytes > MaxBody/2 {
		mistake("body_bytes must be at most %d where the credentials are the service's, as nodes send each other two copies, is %d", MaxBody/2, r.BodyBytes)
	}
	if r.Timeout < 0 || r.Timeout > maxTimeout {
		// A longer one outlasts the time that callers wait.
		mistake("timeout must be above 0 and at most %v, is %v", maxTimeout, r.Timeout)
	}
	if r.ReplayFor < 0 || r.ReplayFor > 0 && r.ReplayFor < minReplayFor {
		mistake("replay_for must be at least %v, as a caller may wait for the reply for that long, is %v", minReplayFor, r.ReplayFor)
	}
	if r.DedupeFor < 0 || r.DedupeFor > 0 && r.DedupeFor <= dedupeMargin {
		mistake("dedupe_for must be above %v, which is kept for differences of clocks, is %v", dedupeMargin, r.DedupeFor)
	}
	if err := CheckDedupe(r.Dedupe); err != nil {
		mistake("dedupe %w", err)
	}
	for _, name := range r.KeepHeaders {
		if err := checkKept(name); err != nil {
			mistake("keep_headers %w", err)
		}
	}
	errs = append(errs, replyMistakes("replies", r.Replies)...)
	errs = append(errs, replyMistakes("ask.replies", r.Ask.Replies)...)
	full := r.complete(s)
	if full.Fingerprint.Body == bodyBytes && len(r.Fingerprint.Without) > 0 {
		mistake("fingerprint.without leaves nothing out of a body that is compared by its bytes; write body: json or form, or take it out")
	}
	if r.DedupeFor > 0 && full.Dedupe == "" {
		mistake("dedupe_for says nothing without dedupe, the header by which the upstream recognises a repeat; name it, or take dedupe_for out")
	}
	switch {
	case r.Recovery == recoverRepeat && full.Dedupe == "":
		mistake("recovery repeat needs dedupe, the header by which the upstream recognises a repeat; name it, or write ask or none")
	case r.Recovery == recoverAsk && r.Ask.Path == "":
		mistake("recovery ask needs ask.path, the look-up that says what became of a request; name it, or write none")
	}
	if r.Ask.Path == "" {
		if len(r.Ask.Replies) > 0 || r.Ask.Answers || r.Ask.SureAfter != 0 {
			mistake("ask has no path; write one, as in /v1/orders?reference={key}")
		}
		return errs
	}
	if _, err := newTemplate(r.Ask.Path, r.Match, len(r.Ask.Replies) > 0); err != nil {
		mistake("ask.path %w", err)
	}
	switch {
	case r.Credentials != service || !r.Ask.Answers:
	case full.Tenant.From == fromFixed:
		mistake("ask.answers gives any caller what the service may read, as all callers are one tenant; leave answers out, and the reply is a 303 to the look-up, or tell tenants apart and name {tenant} in ask.path")
	case !strings.Contains(r.Ask.Path, "{tenant}"):
		mistake("ask.answers gives a tenant what the service may read, also of another tenant; name {tenant} in ask.path, or leave answers out")
	}
	for _, m := range nameForm.FindAllStringSubmatch(r.Ask.Path, -1) {
		if top, _, _ := strings.Cut(strings.TrimPrefix(m[1], "/"), "/"); isPointer(m[1]) && slices.Contains(r.Fingerprint.Without, top) {
			mistake("ask.path has {%s}, which fingerprint.without lets differ between a request and its retry; take it out of one of them", m[1])
		}
	}
	for _, m := range nameForm.FindAllStringSubmatch(r.Ask.Path, -1) {
		if isPointer(m[1]) && full.never(nameParts(strings.ReplaceAll(m[1], "/", "."))) {
			mistake("ask.path has {%s}, which never_store keeps from the store; name another member", m[1])
		}
	}
	if strings.Contains(r.Ask.Path, "?") && len(r.Ask.Replies) == 0 {
		mistake("ask.path is a search, which finds nothing with 200; say in ask.replies how its answers are read, as in {status: 2xx, member: /data/0, outcome: done}")
	}
	if i := slices.IndexFunc(r.Ask.Replies, func(one Reply) bool { return one.Outcome == released }); i >= 0 && r.Ask.SureAfter == 0 {
		mistake("ask.replies[%d] says released, which is never believed without ask.sure_after; write how long a request can take to show, as in 2m, or take the rule out", i)
	}
	if r.Ask.SureAfter < 0 {
		mistake("ask.sure_after must not be below 0, is %v", r.Ask.SureAfter)
	}
	return errs
}

var statusForm = regexp.MustCompile(`^([1-5]xx|[1-5][0-9][0-9])$`)

func replyMistakes(setting string, all []Reply) (errs []error) {
	for i, r := range all {
		mistake := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf(setting+"["+strconv.Itoa(i)+"] "+format, args...))
		}
		for _, s := range r.Status {
			if !statusForm.MatchString(s) {
				mistake("status %q is not a status; write one as in 404 or 4xx", s)
			}
		}
		for _, is := range r.Is {
			if _, ok := text(is); !ok {
				mistake("is %v is no text, number, true, false or null; write text in quotes", is)
			}
		}
		switch {
		case !slices.Contains([]string{done, refused, released, unclear}, r.Outcome):
			mistake("outcome %q is not known; write done, refused, released or unknown", r.Outcome)
		case r.Header != "" && r.Member != "":
			mistake("has a header and a member; name one of them, and write another rule for the other")
		case r.Header != "" && !isHeader(r.Header):
			mistake("header %q is not a header; write one as in Location", r.Header)
		case r.Member != "" && !isPointer(r.Member):
			mistake("member %q is not a JSON pointer; write one as in /status", r.Member)
		case len(r.Is) > 0 && r.Header == "" && r.Member == "":
			mistake("is says nothing without a header or a member; name one")
		case len(r.Status) == 0 && r.Header == "" && r.Member == "":
			mistake("fits every reply; name a status, a header or a member")
		default:
			if j := slices.IndexFunc(all[:i], func(first Reply) bool { return first.hides(&r) }); j >= 0 {
				mistake("never counts, as %s[%d] fits all that it fits and comes first; write it before that one, or take it out", setting, j)
			}
		}
	}
	return errs
}

// hides reports whether r fits every reply that later fits, by its status alone.
func (r *Reply) hides(later *Reply) bool {
	if r.Header != "" || r.Member != "" || len(r.Status) == 0 || len(later.Status) == 0 {
		return false
	}
	for _, s := range later.Status {
		if !slices.ContainsFunc(r.Status, func(first string) bool { return first == s || strings.HasSuffix(first, "xx") && first[:1] == s[:1] }) {
			return false
		}
	}
	return true
}

func isHeader(name string) bool {
	return textproto.TrimString(name) == name && headerForm.MatchString(name)
}

var (
	headerForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,48}$") // an operation has room for as many
	dedupeForm = regexp.MustCompile(`^[A-Za-z0-9-]{0,48}$`)
	tenantForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
)

// isPointer reports whether p is a JSON pointer (RFC 6901) to a member.
func isPointer(p string) bool { return strings.HasPrefix(p, "/") }

// framing are headers that say how a message is framed or routed, or what its body is: one that
// carried a key instead would be another request, or none.
var framing = []string{
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect",
	"Proxy-Authenticate", "Proxy-Authorization", "Content-Type", "Content-Encoding", "Authorization", "Cookie", "User-Agent", "Date",
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
}

// CheckDedupe returns what is wrong with a header by which an upstream is to recognise repeats, in words
// that follow a setting's name.
func CheckDedupe(name string) error {
	switch {
	case name == none:
		return nil
	case !dedupeForm.MatchString(name):
		return fmt.Errorf("%q is not the name of a header by which an upstream recognises repeats; write one as in Idempotency-Key", name)
	case slices.Contains(framing, http.CanonicalHeaderKey(name)):
		return fmt.Errorf("%s has a meaning of its own in every request, and cannot say which one is repeated; write one as in Idempotency-Key", http.CanonicalHeaderKey(name))
	}
	return nil
}

// exchange are headers of one exchange, and of one caller: no retry may get them.
var exchange = []string{"Set-Cookie", "Set-Cookie2", "Date", "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Proxy-Authenticate", "Age"}

func checkKept(name string) error {
	if !isHeader(name) {
		return fmt.Errorf("%q is not a header; write one as in X-Order-Id", name)
	}
	if slices.Contains(exchange, http.CanonicalHeaderKey(name)) || strings.HasPrefix(http.CanonicalHeaderKey(name), "Homeward-") {
		return fmt.Errorf("%s belongs to one exchange, and is never given to a retry; take it out", http.CanonicalHeaderKey(name))
	}
	return nil
}
