package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDCConfig configures an [OIDC]. All but Scopes, Claim, Client and Logger are
// required; of Viewers and Operators one is.
type OIDCConfig struct {
	// Issuer is the identity provider's URL, as in its discovery document.
	Issuer string
	// ClientID and ClientSecret identify this console to the issuer. Register the
	// redirect address URL/auth/callback there.
	ClientID, ClientSecret string
	// URL is the console's address for browsers: https://HOST, without a path.
	URL string
	// Scopes are requested beside openid: those that make the issuer include Claim in
	// the ID token. Default: profile and email.
	Scopes []string
	// Claim of the ID token lists the groups of a user. Default: groups.
	Claim string
	// Viewers and Operators are groups: members of Viewers may look, members of
	// Operators may act as well.
	Viewers, Operators []string
	// Client sends requests to the issuer; nil means http.DefaultClient.
	Client *http.Client
	// Logger records who logged in, and who was refused. Default: discard.
	Logger *slog.Logger

	now func() time.Time // a test's
}

const (
	// sessionFor is a working day: then the issuer decides again whether the user may
	// look.
	sessionFor = 8 * time.Hour
	// loginFor bounds a login at the issuer.
	loginFor = 10 * time.Minute
	// maxSessions bounds sessions, and logins in progress: no node has more users. A
	// new one evicts the oldest.
	maxSessions = 1000
	// issuerTime bounds a request to the issuer.
	issuerTime = 10 * time.Second

	sessionCookie = "homeward-console"
	loginCookie   = "homeward-login"
)

// OIDC admits users that an OpenID Connect issuer authenticates, by the authorization
// code flow with PKCE. Sessions are in this process's memory, so each node requires a
// login of its own, and a restart another one. It is safe for concurrent use.
type OIDC struct {
	c      OIDCConfig
	secure bool // browsers come by https

	mu       sync.Mutex
	provider *oidc.Provider // nil before the issuer has answered once
	sessions map[string]session
	logins   map[string]login
}

type session struct {
	who Who
	end time.Time
}

// login is one that is under way, under its state.
type login struct {
	nonce, verifier, to string
	end                 time.Time
}

// NewOIDC contacts no issuer: a node starts without it.
func NewOIDC(c OIDCConfig) (*OIDC, error) {
	u, err := url.Parse(c.URL)
	switch {
	case c.Issuer == "" || c.ClientID == "" || c.ClientSecret == "":
		return nil, errors.New("console: an issuer, a client id and a client secret are required")
	case err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("console: %q is not the URL of a console; write https://HOST", c.URL)
	case len(c.Viewers)+len(c.Operators) == 0:
		return nil, errors.New("console: name the groups of viewers or operators; without one nobody can log in")
	}
	if c.Claim == "" {
		c.Claim = "groups"
	}
	if c.Scopes == nil {
		c.Scopes = []string{"profile", "email"}
	}
	if c.Client == nil {
		c.Client = http.DefaultClient
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.URL = u.Scheme + "://" + u.Host
	return &OIDC{c: c, secure: u.Scheme == "https", sessions: map[string]session{}, logins: map[string]login{}}, nil
}

// Wrap implements [Access].
func (o *OIDC) Wrap(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/login", o.login)
	mux.HandleFunc("GET /auth/callback", o.callback)
	mux.Handle("POST /auth/logout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(o.logout)))
	mux.Handle("GET /static/", next) // contains nothing about anybody
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if who, ok := o.who(r); ok {
			next.ServeHTTP(w, withWho(r, who))
			return
		}
		to := "/auth/login?" + url.Values{"to": {r.URL.RequestURI()}}.Encode()
		switch {
		case r.Header.Get("Hx-Request") == "true":
			w.Header().Set("Hx-Redirect", "/auth/login")
			http.Error(w, "log in again", http.StatusUnauthorized)
		case r.Method != http.MethodGet:
			http.Error(w, "your session has ended, and nothing was done; log in again at "+o.c.URL, http.StatusUnauthorized)
		default:
			http.Redirect(w, r, to, http.StatusSeeOther)
		}
	})
	return mux
}

// cookie sets the common attributes. With https its name binds it to this host.
func (o *OIDC) cookie(name, value string, age time.Duration) *http.Cookie {
	if o.secure {
		name = "__Host-" + name
	}
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(age.Seconds()), Secure: o.secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

func (o *OIDC) read(r *http.Request, name string) string {
	c, err := r.Cookie(o.cookie(name, "", 0).Name)
	if err != nil {
		return ""
	}
	return c.Value
}

func (o *OIDC) who(r *http.Request) (Who, bool) {
	id := o.read(r, sessionCookie)
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.sessions[id]
	if !ok || id == "" || !o.c.now().Before(s.end) {
		delete(o.sessions, id)
		return Who{}, false
	}
	return s.who, true
}

// keep adds an entry to all, and evicts the oldest if there are too many.
func keep[T any](all map[string]T, id string, one T, end func(T) time.Time) {
	if len(all) >= maxSessions {
		oldest := ""
		for id, t := range all {
			if oldest == "" || end(t).Before(end(all[oldest])) {
				oldest = id
			}
		}
		delete(all, oldest)
	}
	all[id] = one
}

// ask returns the issuer and this console's configuration for it.
func (o *OIDC) ask(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	o.mu.Lock()
	p := o.provider
	o.mu.Unlock()
	if p == nil {
		var err error
		// Its keys are fetched again when they change: not within this request's time.
		if p, err = oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.c.Client), o.c.Issuer); err != nil {
			return nil, nil, err
		}
		o.mu.Lock()
		o.provider = p
		o.mu.Unlock()
	}
	return p, &oauth2.Config{
		ClientID: o.c.ClientID, ClientSecret: o.c.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: o.c.URL + "/auth/callback",
		Scopes: append([]string{oidc.ScopeOpenID}, o.c.Scopes...),
	}, nil
}

// login redirects a browser to the issuer.
func (o *OIDC) login(w http.ResponseWriter, r *http.Request) {
	_, config, err := o.ask(r.Context())
	if err != nil {
		o.c.Logger.ErrorContext(r.Context(), "the console's issuer does not answer", "issuer", o.c.Issuer, "error", err)
		http.Error(w, "the identity provider does not answer; try again in a moment", http.StatusServiceUnavailable)
		return
	}
	to := r.URL.Query().Get("to")
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, "/\\") {
		to = "/"
	}
	state := rand.Text()
	one := login{nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), to: to, end: o.c.now().Add(loginFor)}
	o.mu.Lock()
	keep(o.logins, state, one, func(l login) time.Time { return l.end })
	o.mu.Unlock()
	http.SetCookie(w, o.cookie(loginCookie, state, loginFor))
	http.Redirect(w, r, config.AuthCodeURL(state, oidc.Nonce(one.nonce), oauth2.S256ChallengeOption(one.verifier)), http.StatusSeeOther)
}

// begun takes the login of a state that this browser began, once.
func (o *OIDC) begun(r *http.Request) (login, bool) {
	state := r.URL.Query().Get("state")
	if state == "" || state != o.read(r, loginCookie) {
		return login{}, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	one, ok := o.logins[state]
	delete(o.logins, state)
	return one, ok && o.c.now().Before(one.end)
}

// callback receives a browser from the issuer.
func (o *OIDC) callback(w http.ResponseWriter, r *http.Request) {
	one, ok := o.begun(r)
	if !ok {
		http.Error(w, "this login was not begun here, or too long ago; open "+o.c.URL+" again", http.StatusBadRequest)
		return
	}
	who, err := o.vouched(r, one)
	if err != nil {
		o.c.Logger.WarnContext(r.Context(), "a login to the console was refused", "remote", r.RemoteAddr, "error", err)
		http.Error(w, "you were not let in: "+oneLine(err), http.StatusForbidden)
		return
	}
	id := rand.Text() + rand.Text()
	o.mu.Lock()
	keep(o.sessions, id, session{who, o.c.now().Add(sessionFor)}, func(s session) time.Time { return s.end })
	o.mu.Unlock()
	o.c.Logger.InfoContext(r.Context(), "a user logged in to the console", "who", who.Name, "operator", who.Operator)
	http.SetCookie(w, o.cookie(loginCookie, "", -time.Second))
	http.SetCookie(w, o.cookie(sessionCookie, id, sessionFor))
	http.Redirect(w, r, one.to, http.StatusSeeOther)
}

// errNoToken: the issuer's answer lacks the ID token.
var errNoToken = errors.New("the identity provider sent no ID token")

// vouched verifies the issuer's token, and returns its user.
func (o *OIDC) vouched(r *http.Request, one login) (Who, error) {
	if said := r.URL.Query().Get("error"); said != "" {
		return Who{}, fmt.Errorf("the identity provider returned the error %.100q", said)
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), o.c.Client), issuerTime)
	defer cancel()
	provider, config, err := o.ask(ctx)
	if err != nil {
		return Who{}, errors.New("the identity provider does not answer")
	}
	token, err := config.Exchange(ctx, r.URL.Query().Get("code"), oauth2.VerifierOption(one.verifier))
	if err != nil {
		return Who{}, fmt.Errorf("the identity provider refused the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Who{}, errNoToken
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: o.c.ClientID, Now: o.c.now}).Verify(ctx, raw)
	if err != nil {
		return Who{}, err
	}
	if id.Nonce != one.nonce {
		return Who{}, errors.New("the ID token belongs to another login")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Who{}, err
	}
	return o.role(id.Subject, claims)
}

// role returns what a user's groups allow.
func (o *OIDC) role(subject string, claims map[string]any) (Who, error) {
	who := Who{Name: subject, Logout: "/auth/logout"}
	for _, name := range []string{"email", "preferred_username", "name"} {
		if text, ok := claims[name].(string); ok && text != "" {
			who.Name = text + " (" + subject + ")"
			break
		}
	}
	groups := texts(claims[o.c.Claim])
	in := func(some []string) bool {
		return slices.ContainsFunc(some, func(g string) bool { return slices.Contains(groups, g) })
	}
	switch {
	case in(o.c.Operators):
		who.Operator = true
	case !in(o.c.Viewers):
		return Who{}, fmt.Errorf("%s is in no group that has access (claim %s); ask for membership", who.Name, o.c.Claim)
	}
	return who, nil
}

// texts returns the strings of a claim, which is one or a list.
func texts(claim any) (all []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []any:
		for _, one := range c {
			if text, ok := one.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// logout ends the session here. The issuer's own continues.
func (o *OIDC) logout(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	delete(o.sessions, o.read(r, sessionCookie))
	o.mu.Unlock()
	http.SetCookie(w, o.cookie(sessionCookie, "", -time.Second))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "You are logged out of this console. Open "+o.c.URL+" to come back.")
}
