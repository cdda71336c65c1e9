package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/homeward-io/homeward/internal/console"
	"github.com/homeward-io/homeward/region"
)

// ConsoleSettings configure the console for operators' browsers, and their
// authentication.
type ConsoleSettings struct {
	// Listen is host:port; "": there is no console.
	Listen string `koanf:"listen"`
	// Cert and Key are files, PEM, of a certificate that browsers accept; "" shows them
	// the node's own.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// Actions lets operators act; otherwise every page is read-only.
	Actions bool `koanf:"actions"`
	// TraceURL is the URL of a trace, with {trace} for its id; "": none.
	TraceURL string `koanf:"trace_url"`
	// OIDC authenticates people; without an issuer they present an operator's
	// certificate.
	OIDC OIDCSettings `koanf:"oidc"`
}

// OIDCSettings are an OpenID Connect issuer; see [console.OIDCConfig].
type OIDCSettings struct {
	Issuer    string   `koanf:"issuer"`
	ClientID  string   `koanf:"client_id"`
	URL       string   `koanf:"url"`
	Scopes    []string `koanf:"scopes"`
	Claim     string   `koanf:"claim"`
	Viewers   []string `koanf:"viewers"`
	Operators []string `koanf:"operators"`
}

// OIDCSecret is the variable of the console's client secret at the issuer; see
// [Secret].
const OIDCSecret = "HOMEWARD_OIDC_SECRET"

func defaultConsole() ConsoleSettings {
	return ConsoleSettings{OIDC: OIDCSettings{Scopes: []string{"profile", "email"}, Claim: "groups", Viewers: []string{}, Operators: []string{}}}
}

// validate checks the settings and not the files, which may be on another machine.
func (c ConsoleSettings) validate(t TLSSettings) error {
	if c.Listen == "" {
		return nil
	}
	errs := []error{addressMistake(ConsoleListen, c.Listen, 0)}
	if (c.Cert == "") != (c.Key == "") {
		errs = append(errs, errors.New("settings: console.cert and console.key go together; name both, or none"))
	}
	if c.TraceURL != "" {
		if u, err := url.Parse(c.TraceURL); err != nil || u.Scheme != "https" && u.Scheme != "http" || !strings.Contains(c.TraceURL, "{trace}") {
			errs = append(errs, fmt.Errorf("settings: console.trace_url %q is not the URL of a trace viewer; write https://… with {trace} for its id", c.TraceURL))
		}
	}
	if c.OIDC.Issuer == "" {
		if !t.on() {
			errs = append(errs, errors.New("settings: console.listen is set without a way to log in; set console.oidc.issuer, or tls.cert, tls.key and tls.ca for operators' certificates"))
		}
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, c.OIDC.validate(), c.overTheWire())...)
}

// overTheWire refuses sessions that an eavesdropper could take over.
func (c ConsoleSettings) overTheWire() error {
	if c.Cert == "" && !onLoopback(c.Listen) {
		return fmt.Errorf("settings: console.listen %s is open to other machines in clear text; set console.cert and console.key, or listen on 127.0.0.1 behind a proxy that ends TLS", c.Listen)
	}
	return nil
}

func (o OIDCSettings) validate() error {
	_, err := console.NewOIDC(o.config("set"))
	mistakes := []error{}
	if err != nil {
		mistakes = append(mistakes, fmt.Errorf("settings: console.oidc: %s", strings.TrimPrefix(err.Error(), "console: ")))
	}
	for _, one := range []struct{ name, value string }{{"issuer", o.Issuer}, {"url", o.URL}} {
		u, err := url.Parse(one.value)
		if err == nil && u.Scheme != "https" && !onLoopback(u.Host) && !onLoopback(u.Host+":80") {
			mistakes = append(mistakes, fmt.Errorf("settings: console.oidc.%s %q must be https://…: anybody on the network path could log in as anybody", one.name, one.value))
		}
	}
	return errors.Join(mistakes...)
}

func (o OIDCSettings) config(secret string) console.OIDCConfig {
	return console.OIDCConfig{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, URL: o.URL, Scopes: o.Scopes, Claim: o.Claim, Viewers: o.Viewers, Operators: o.Operators,
	}
}

// checkFiles reads the console's own certificate. An error names it as the console's: it is easily
// taken for the node's, which is under tls.
func (c ConsoleSettings) checkFiles() error {
	if c.Listen == "" || c.Cert == "" {
		return nil
	}
	const hint = "console.cert is a server's certificate in PEM that names the console's host, from a CA that browsers trust, and console.key its key; the node's certificate (tls.cert) names no host"
	if err := errors.Join(fileMistake("console.cert", c.Cert, hint), fileMistake("console.key", c.Key, hint)); err != nil {
		return err
	}
	if _, err := tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
		return fmt.Errorf("settings: console.cert %s with console.key %s: %w; %s", c.Cert, c.Key, err, hint)
	}
	return nil
}

// open returns the console of a node with the certificates certs; nil if there is none.
func (c ConsoleSettings) open(certs *region.TLS, secret string, log *slog.Logger) (*Console, error) {
	if c.Listen == "" {
		return nil, nil
	}
	out := &Console{Listen: c.Listen, Actions: c.Actions, TraceURL: c.TraceURL}
	if err := c.checkFiles(); err != nil {
		return nil, err
	}
	if c.Cert != "" {
		shown, err := region.NewServerCertificate(c.Cert, c.Key, log)
		if err != nil {
			return nil, fmt.Errorf("settings: console.cert: %w", err)
		}
		out.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: shown.Get}
	}
	if c.OIDC.Issuer == "" {
		out.Access, out.Certs = console.Certificates{}, certs
		return out, nil
	}
	config := c.OIDC.config(secret)
	config.Logger = log
	access, err := console.NewOIDC(config)
	out.Access = access
	return out, err
}
