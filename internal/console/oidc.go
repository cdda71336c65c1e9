package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/semaphore"
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
	// Client sends requests to the issuer; nil means one that waits issuerTime at most.
	Client *http.Client
	// Logger records logins and refusals. Default: discard.
	Logger *slog.Logger

	now func() time.Time // for tests
}

const (
	// sessionFor is a working day: then the user authenticates anew.
	sessionFor = 8 * time.Hour
	// idleFor ends the session of an absent user: it is long enough to read one page.
	idleFor = 30 * time.Minute
	// checkFor bounds how long a user looks, or acts, after the issuer has revoked their access.
	// The browser returns from the issuer by itself, but loads its page again.
	checkFor = 10 * time.Minute
	// loginFor bounds a login at the issuer.
	loginFor = 10 * time.Minute
	// maxSessions bounds sessions: no node has more users. A new one evicts the least used.
	maxSessions = 1000
	// maxOfUser bounds the sessions of one user, so that no user evicts others: a browser on
	// each of a few machines.
	maxOfUser = 10
	// issuerTime bounds a request to the issuer.
	issuerTime = 10 * time.Second
	// issuerWait bounds the wait for room to ask the issuer: a person still waits for a page.
	issuerWait = 3 * time.Second
	// maxExchanges bounds the concurrent exchanges of codes at the issuer.
	maxExchanges = 8
	// loginCookies bounds the concurrent logins of one browser, each in a tab, and maxTo the
	// address to return to: together they fit into consoleHeaders of internal/node.
	loginCookies = 16
	maxTo        = 512

	sessionCookie = "homeward-console"
	loginCookie   = "homeward-login"
	// sessionOver is the session cookie of a browser after its session has ended: its next login
	// asks the issuer to authenticate the user anew.
	sessionOver = "over"
)

// OIDC admits users that an OpenID Connect issuer authenticates, by the authorization code flow
// with PKCE. A session ends when its user logs out, after idleFor without a page that the user
// opened, and after sessionFor. Each checkFor the browser goes through the issuer again, which
// reports whether the user is still in a group that has access.
//
// Sessions are in this process's memory, so that the cookie of an ended session admits no
// one, each node requires a login of its own, and a restart another one. A login under
// way is in a cookie of its browser, encrypted with a key of this process: nodes behind
// one address need a balancer that binds a browser to a node anyway. It is safe for
// concurrent use.
type OIDC struct {
	c      OIDCConfig
	secure bool // browsers connect by https
	sealer cipher.AEAD

	asking    *semaphore.Weighted // discovery
	exchanges *semaphore.Weighted

	mu       sync.Mutex
	provider *oidc.Provider // nil before the issuer has answered once
	sessions map[string]*session
}

type session struct {
	who                  Who
	subject              string
	begun, checked, seen time.Time
	// returning: a poll sent the browser through the issuer, so that the next page is not
	// one that the user opened.
	returning bool
}

// over reports whether the user has to authenticate anew.
func (s *session) over(now time.Time) bool {
	return now.Sub(s.begun) >= sessionFor || now.Sub(s.seen) >= idleFor
}

// login is a login under way, as in its cookie.
type login struct {
	State, Nonce, Verifier, To string
	End                        time.Time
}

// errBusy: the issuer is slow, or too many log in at once.
var errBusy = errors.New("too many wait for the identity provider")

// enter waits for room in a limit, at most issuerWait. If it returns nil, the caller must
// release it.
func enter(ctx context.Context, limit *semaphore.Weighted) error {
	ctx, cancel := context.WithTimeout(ctx, issuerWait)
	defer cancel()
	if limit.Acquire(ctx, 1) != nil {
		return errBusy
	}
	return nil
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
		return nil, errors.New("console: name the groups of viewers or operators; without one no user can log in")
	}
	if c.Claim == "" {
		c.Claim = "groups"
	}
	if c.Scopes == nil {
		c.Scopes = []string{"profile", "email"}
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: issuerTime}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.URL = u.Scheme + "://" + u.Host
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &OIDC{
		c: c, secure: u.Scheme == "https", sealer: sealer,
		asking: semaphore.NewWeighted(1), exchanges: semaphore.NewWeighted(maxExchanges), sessions: map[string]*session{},
	}, nil
}

// Wrap implements [Access].
func (o *OIDC) Wrap(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/login", o.login)
	mux.HandleFunc("GET /auth/callback", o.callback)
	mux.Handle("POST /auth/logout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(o.logout)))
	mux.HandleFunc("GET /auth/over", func(w http.ResponseWriter, _ *http.Request) {
		o.say(w, "Your session has ended.")
	})
	mux.Handle("GET /static/", next) // contains no data
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		poll := r.Header.Get("Hx-Request") == "true"
		who, state := o.look(w, r, poll)
		to := "/auth/login?" + url.Values{"to": {r.URL.RequestURI()}}.Encode()
		switch {
		case state == admitted:
			next.ServeHTTP(w, withWho(r, who))
		case poll:
			if state == over {
				to = "/auth/over" // there is no user who would log in
			}
			w.Header().Set("Hx-Redirect", to)
			http.Error(w, "log in again", http.StatusUnauthorized)
		case r.Method != http.MethodGet:
			http.Error(w, "your session has ended, or the identity provider has to confirm it, and nothing was done; log in again at "+o.c.URL, http.StatusUnauthorized)
		default:
			http.Redirect(w, r, to, http.StatusSeeOther)
		}
	})
	if !o.secure {
		return mux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		onlyHTTPS(w) // behind a proxy that ends TLS, too
		mux.ServeHTTP(w, r)
	})
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

// admission is what a request's session allows.
type admission int

const (
	// stranger has no session here.
	stranger admission = iota
	// unchecked: the issuer has to confirm the session.
	unchecked
	// over: the session has ended.
	over
	admitted
)

// look returns the user of a request, if admitted. A poll is not a sign of a person.
func (o *OIDC) look(w http.ResponseWriter, r *http.Request, poll bool) (Who, admission) {
	id, now := o.read(r, sessionCookie), o.c.now()
	if id == sessionOver {
		return Who{}, over
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.sessions[id]
	switch {
	case !ok:
		return Who{}, stranger
	case s.over(now):
		delete(o.sessions, id)
		http.SetCookie(w, o.cookie(sessionCookie, sessionOver, sessionFor))
		return Who{}, over
	case now.Sub(s.checked) >= checkFor:
		s.returning = poll
		return Who{}, unchecked
	case !poll && !s.returning:
		s.seen = now
	}
	if !poll {
		s.returning = false
	}
	return s.who, admitted
}

// keep adds a session, and evicts the least used if its user, or all, have too many.
func (o *OIDC) keep(id string, one *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var last, ofUser string
	count := 0
	earlier := func(a, b string) bool { return b == "" || o.sessions[a].seen.Before(o.sessions[b].seen) }
	for id, s := range o.sessions {
		if earlier(id, last) {
			last = id
		}
		if s.subject == one.subject {
			count++
			if earlier(id, ofUser) {
				ofUser = id
			}
		}
	}
	switch {
	case count >= maxOfUser:
		delete(o.sessions, ofUser)
	case len(o.sessions) >= maxSessions:
		delete(o.sessions, last)
	}
	o.sessions[id] = one
}

// ask returns the issuer and this console's configuration for it. One caller at a time
// discovers the issuer; the others wait.
func (o *OIDC) ask(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	p := o.discovered()
	if p == nil {
		if err := enter(ctx, o.asking); err != nil {
			return nil, nil, err
		}
		defer o.asking.Release(1)
		if p = o.discovered(); p == nil {
			// Other callers wait for the answer, too, even if this one disconnects.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), issuerTime)
			defer cancel()
			var err error
			if p, err = oidc.NewProvider(oidc.ClientContext(ctx, o.c.Client), o.c.Issuer); err != nil {
				return nil, nil, err
			}
			o.mu.Lock()
			o.provider = p
			o.mu.Unlock()
		}
	}
	return p, &oauth2.Config{
		ClientID: o.c.ClientID, ClientSecret: o.c.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: o.c.URL + "/auth/callback",
		Scopes: append([]string{oidc.ScopeOpenID}, o.c.Scopes...),
	}, nil
}

func (o *OIDC) discovered() *oidc.Provider {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.provider
}

// unanswered answers a request that the issuer decides, while it does not.
func (o *OIDC) unanswered(w http.ResponseWriter, r *http.Request, err error) {
	if !errors.Is(err, errBusy) { // a time-out reports no more than a refusal
		o.c.Logger.ErrorContext(r.Context(), "the console's issuer does not answer", "issuer", o.c.Issuer, "error", err)
	}
	http.Error(w, "the identity provider does not answer; try again in a moment", http.StatusServiceUnavailable)
}

// login redirects a browser to the issuer.
func (o *OIDC) login(w http.ResponseWriter, r *http.Request) {
	_, config, err := o.ask(r.Context())
	if err != nil {
		o.unanswered(w, r, err)
		return
	}
	to := r.URL.Query().Get("to")
	if u, err := url.ParseRequestURI(to); err != nil || to[0] != '/' || u.Path != path.Clean(u.Path) || len(to) > maxTo {
		to = "/"
	}
	// A browser may read /\HOST as another host, and never what follows one: so to is the
	// whole address, and this console's own.
	one := login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: o.c.URL + to, End: o.c.now().Add(loginFor)}
	text, err := json.Marshal(one)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(one.Nonce), oauth2.S256ChallengeOption(one.Verifier)}
	if o.read(r, sessionCookie) == sessionOver {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	http.SetCookie(w, o.cookie(cookieOf(one.State), base64.RawURLEncoding.EncodeToString(o.sealer.Seal(nil, nil, text, nil)), loginFor))
	http.Redirect(w, r, config.AuthCodeURL(one.State, options...), http.StatusSeeOther)
}

// cookieOf is the name of a login's cookie: tabs that log in at once have their own.
func cookieOf(state string) string {
	return fmt.Sprint(loginCookie, "-", state[0]%loginCookies)
}

// begun returns the login of a state that this browser began.
func (o *OIDC) begun(r *http.Request) (one login, ok bool) {
	state := r.URL.Query().Get("state")
	if state == "" {
		return one, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(o.read(r, cookieOf(state)))
	if err != nil {
		return one, false
	}
	text, err := o.sealer.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(text, &one) != nil {
		return one, false
	}
	return one, one.State == state && o.c.now().Before(one.End)
}

// callback receives a browser from the issuer.
func (o *OIDC) callback(w http.ResponseWriter, r *http.Request) {
	one, ok := o.begun(r)
	if !ok {
		http.Error(w, "this login was not begun here, or too long ago; open "+o.c.URL+" again", http.StatusBadRequest)
		return
	}
	http.SetCookie(w, o.cookie(cookieOf(one.State), "", -time.Second))
	who, subject, err := o.vouched(r, one)
	switch {
	case errors.Is(err, errNoAnswer):
		o.unanswered(w, r, err)
		return
	case err != nil:
		o.c.Logger.WarnContext(r.Context(), "a login to the console was refused", "remote", r.RemoteAddr, "error", err)
		http.Error(w, "access denied: "+oneLine(err), http.StatusForbidden)
		return
	}
	if !o.confirm(r, who, subject) {
		o.c.Logger.InfoContext(r.Context(), "a user logged in to the console", "who", who.Name, "operator", who.Operator)
		id, now := rand.Text()+rand.Text(), o.c.now()
		o.end(r)
		o.keep(id, &session{who: who, subject: subject, begun: now, checked: now, seen: now})
		http.SetCookie(w, o.cookie(sessionCookie, id, sessionFor))
	}
	http.Redirect(w, r, one.To, http.StatusSeeOther)
}

// confirm continues the session of a request with the groups that the issuer reports now; false: it
// is not the session of this user.
func (o *OIDC) confirm(r *http.Request, who Who, subject string) bool {
	id, now := o.read(r, sessionCookie), o.c.now()
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.sessions[id]
	if !ok || s.subject != subject || s.over(now) {
		return false
	}
	s.who, s.checked = who, now
	return true
}

// end ends the session of a request.
func (o *OIDC) end(r *http.Request) {
	id := o.read(r, sessionCookie)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, id)
}

// errNoToken: the issuer's answer lacks the ID token.
var errNoToken = errors.New("the identity provider sent no ID token")

// errNoAnswer: the issuer answered neither yes nor no.
var errNoAnswer = errors.New("the identity provider does not answer")

// vouched verifies the issuer's token, and returns its user, and the issuer's name for
// them. Its error is errNoAnswer if the issuer does not decide.
func (o *OIDC) vouched(r *http.Request, one login) (Who, string, error) {
	if said := r.URL.Query().Get("error"); said != "" {
		return Who{}, "", fmt.Errorf("the identity provider returned the error %.100q", said)
	}
	if err := enter(r.Context(), o.exchanges); err != nil {
		return Who{}, "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	defer o.exchanges.Release(1)
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), o.c.Client), issuerTime)
	defer cancel()
	provider, config, err := o.ask(ctx)
	if err != nil {
		return Who{}, "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	token, err := config.Exchange(ctx, r.URL.Query().Get("code"), oauth2.VerifierOption(one.Verifier))
	if refused := (*oauth2.RetrieveError)(nil); errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError {
		return Who{}, "", fmt.Errorf("the identity provider refused the code: %w", err)
	} else if err != nil {
		return Who{}, "", fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Who{}, "", errNoToken
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: o.c.ClientID, Now: o.c.now}).Verify(ctx, raw)
	if err != nil {
		return Who{}, "", err
	}
	if id.Nonce != one.Nonce {
		return Who{}, "", errors.New("the ID token belongs to another login")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Who{}, "", err
	}
	who, err := o.role(id.Subject, claims)
	return who, id.Subject, err
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

// logout ends the session. The issuer's own continues, but the next login here asks it to
// authenticate the user anew.
func (o *OIDC) logout(w http.ResponseWriter, r *http.Request) {
	o.end(r)
	http.SetCookie(w, o.cookie(sessionCookie, sessionOver, sessionFor))
	o.say(w, "You are logged out of this console.")
}

func (o *OIDC) say(w http.ResponseWriter, what string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, what+" Open "+o.c.URL+" to come back.")
}
