package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// issuer is a fake identity provider: it logs every browser in at once, as the configured user.
type issuer struct {
	*testing.T
	*httptest.Server
	groups    any
	nonce     string // "" is the requested one
	deny      string
	codes     map[string]url.Values // the parameters that a code was requested with
	requested url.Values            // the last one
	now       func() time.Time
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	keys := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.ES256}}}
	i := &issuer{T: t, codes: map[string]url.Values{}, now: time.Now}
	mux := http.NewServeMux()
	mux.Handle("/", keys)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{oidc.ES256},
		})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		i.requested = q
		back := url.Values{"state": {q.Get("state")}}
		if i.deny != "" {
			back.Set("error", i.deny)
		} else {
			back.Set("code", rand.Text())
			i.codes[back.Get("code")] = q
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		requested, ok := i.codes[r.PostFormValue("code")]
		delete(i.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		id, secret, basic := r.BasicAuth()
		if !ok || requested.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || !basic || id != "console" || secret != "shh" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		nonce := requested.Get("nonce")
		if i.nonce != "" {
			nonce = i.nonce
		}
		claims, err := json.Marshal(map[string]any{
			"iss": i.URL, "aud": "console", "sub": "u-1", "email": "jo@example.com", "nonce": nonce, "groups": i.groups,
			"iat": i.now().Unix(), "exp": i.now().Add(time.Hour).Unix(),
		})
		require.NoError(i, err)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","id_token":%q}`, oidctest.SignIDToken(key, "k", oidc.ES256, string(claims)))
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	keys.SetIssuer(i.URL)
	return i
}

// console serves one with i as its issuer, and a browser.
func (i *issuer) console(change ...func(*OIDCConfig)) (server *httptest.Server, browser *http.Client) {
	i.Helper()
	server = httptest.NewUnstartedServer(nil)
	server.StartTLS()
	i.Cleanup(server.Close)
	c := OIDCConfig{
		Issuer: i.URL, ClientID: "console", ClientSecret: "shh", URL: server.URL + "/", Viewers: []string{"eng"}, Operators: []string{"sre"}, Client: i.Client(),
	}
	for _, f := range change {
		f(&c)
	}
	access, err := NewOIDC(c)
	require.NoError(i, err)
	server.Config.Handler = newTestConsole(i.T, Config{
		Deployment: &deployment{all: threeRegions()}, Queues: &rows{parked: true}, Actions: true, Access: access,
	})
	return server, i.browser()
}

func (i *issuer) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(i, err)
	return &http.Client{Transport: i.Client().Transport, Jar: jar} // both servers have the same test certificate
}

func (i *issuer) read(browser *http.Client, method, url string) (int, string) {
	i.Helper()
	r, err := http.NewRequestWithContext(i.Context(), method, url, nil)
	require.NoError(i, err)
	res, err := browser.Do(r)
	require.NoError(i, err)
	defer func() { require.NoError(i, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	require.NoError(i, err)
	return res.StatusCode, string(text)
}

func TestTheIssuersGroupsSayWhoMayLookAndAct(t *testing.T) {
	i := newIssuer(t)
	for name, c := range map[string]struct {
		groups any
		status int
		act    bool
	}{
		"an operator": {[]string{"all", "sre"}, http.StatusOK, true},
		"a viewer":    {[]string{"eng"}, http.StatusOK, false},
		"one group":   {"eng", http.StatusOK, false},
		"a stranger":  {[]string{"sales"}, http.StatusForbidden, false},
		"no groups":   {nil, http.StatusForbidden, false},
		"odd groups":  {map[string]any{"sre": true}, http.StatusForbidden, false},
	} {
		t.Run(name, func(t *testing.T) {
			i.groups = c.groups
			server, browser := i.console()
			status, body := i.read(browser, http.MethodGet, server.URL+"/queues")
			require.Equal(t, c.status, status, body)
			require.Equal(t, c.act, strings.Contains(body, "Requeue…"))
			if c.status == http.StatusOK {
				require.Contains(t, body, "jo@example.com (u-1)")
				require.Contains(t, body, "Parked for a person", "the page that the user opened")
			}
		})
	}
}

// poll reads a page as its script does, with redirects unfollowed; redirect is where the script
// must go.
func (i *issuer) poll(browser *http.Client, url string) (status int, redirect string) {
	i.Helper()
	r, err := http.NewRequestWithContext(i.Context(), http.MethodGet, url, nil)
	require.NoError(i, err)
	r.Header.Set("Hx-Request", "true")
	res, err := browser.Do(r)
	require.NoError(i, err)
	require.NoError(i, res.Body.Close())
	return res.StatusCode, res.Header.Get("Hx-Redirect")
}

// A session ends at the logout, when it is idle, and after a working day. Then the issuer
// authenticates the user anew.
func TestASessionEnds(t *testing.T) {
	for name, end := range map[string]func(i *issuer, now *time.Time, browser *http.Client, url string){
		"logout": func(i *issuer, _ *time.Time, browser *http.Client, url string) {
			copied := browser.Jar.Cookies(i.at(url))
			status, body := i.read(browser, http.MethodPost, url+"/auth/logout")
			require.Equal(i, http.StatusOK, status)
			require.Contains(i, body, "logged out")
			thief := i.browser()
			thief.Jar.SetCookies(i.at(url), copied)
			thief.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			status, _ = i.read(thief, http.MethodGet, url+"/")
			require.Equal(i, http.StatusSeeOther, status, "a copy of the cookie was accepted")
		},
		"idle": func(i *issuer, now *time.Time, browser *http.Client, url string) {
			for range idleFor / checkFor {
				*now = now.Add(checkFor)
				status, to := i.poll(browser, url+"/queues?a=b")
				require.Equal(i, http.StatusUnauthorized, status)
				if to == "/auth/over" {
					return
				}
				require.Equal(i, "/auth/login?to=%2Fqueues%3Fa%3Db", to, "the browser returns to the page by itself")
				status, _ = i.read(browser, http.MethodGet, url+to)
				require.Equal(i, http.StatusOK, status)
				status, _ = i.poll(browser, url+"/")
				require.Equal(i, http.StatusOK, status)
			}
			require.Fail(i, "the polls of an idle page keep its session")
		},
		"a day": func(i *issuer, now *time.Time, browser *http.Client, url string) {
			for range sessionFor/checkFor - 1 {
				*now = now.Add(checkFor)
				require.NotContains(i, i.login(browser, url+"/"), "prompt")
			}
			*now = now.Add(checkFor)
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			i.groups = "eng"
			now := time.Now()
			i.now = func() time.Time { return now }
			server, browser := i.console(func(c *OIDCConfig) { c.now = i.now })
			require.NotContains(t, i.login(browser, server.URL+"/"), "prompt")
			end(i, &now, browser, server.URL)
			status, to := i.poll(browser, server.URL+"/")
			require.Equal(t, http.StatusUnauthorized, status)
			require.Equal(t, "/auth/over", to, "the poll of a page logged the user in again")
			_, body := i.read(browser, http.MethodGet, server.URL+to)
			require.Contains(t, body, "Your session has ended.")
			status, _ = i.read(browser, http.MethodPost, server.URL+"/queues/requeue")
			require.Equal(t, http.StatusUnauthorized, status)
			require.Equal(t, []string{"login"}, i.login(browser, server.URL+"/")["prompt"])
		})
	}
}

// login opens a page, and returns the request to the issuer; nil: there was none.
func (i *issuer) login(browser *http.Client, url string) url.Values {
	i.Helper()
	i.requested = nil
	status, body := i.read(browser, http.MethodGet, url)
	require.Equal(i, http.StatusOK, status, body)
	return i.requested
}

func (i *issuer) at(text string) *url.URL {
	i.Helper()
	u, err := url.Parse(text)
	require.NoError(i, err)
	return u
}

// After the issuer has removed a user from a group, or deleted the account, the user reads and acts
// for minutes at most.
func TestTheIssuerConfirmsASession(t *testing.T) {
	i := newIssuer(t)
	i.groups = "sre"
	now := time.Now()
	i.now = func() time.Time { return now }
	server, browser := i.console(func(c *OIDCConfig) { c.now = i.now })
	require.NotNil(t, i.login(browser, server.URL+"/queues"))
	require.Nil(t, i.login(browser, server.URL+"/queues"), "the issuer gets no request for each page")

	i.groups = "eng"
	now = now.Add(checkFor)
	status, body := i.read(browser, http.MethodPost, server.URL+"/queues/requeue")
	require.Equal(t, http.StatusUnauthorized, status, body)
	_, body = i.read(browser, http.MethodGet, server.URL+"/queues")
	require.Contains(t, body, "this console only reads", "a former operator")

	i.groups = "sales"
	now = now.Add(checkFor)
	for range 2 {
		status, body = i.read(browser, http.MethodGet, server.URL+"/")
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "in no group that has access")
	}
	i.groups, i.deny = "eng", "login_required"
	status, body = i.read(browser, http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "login_required")
	i.Close()
	status, _ = i.read(browser, http.MethodGet, server.URL+"/static/console.css")
	require.Equal(t, http.StatusOK, status)
}

// A login returns to this console, whatever the link asks for: a browser cannot read another host
// from the whole address.
func TestALoginComesBackToThisConsole(t *testing.T) {
	i := newIssuer(t)
	i.groups = "sre"
	server, _ := i.console()
	for _, to := range []string{
		"//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "/./\\evil.example", "/.//evil.example", "/../\\evil.example", "/x/../\\evil.example",
		"/./\t\\evil.example", "/\t/evil.example", "\t//evil.example", "/\n/evil.example", "/\r\n/evil.example", "/\x00/evil.example", " //evil.example", "/ /evil.example",
		"/%09/evil.example", "/%5Cevil.example", "/%2F/evil.example", "%2F%2Fevil.example", "/.%2F%5Cevil.example", "/;@evil.example", "@evil.example", ".evil.example", ":80@evil.example",
		"https:evil.example", "https:/evil.example", "https://evil.example", "HTTPS://evil.example", "http:\\\\evil.example", "javascript:alert(1)", "data:text/html,x", "", "/auth/login?to=//evil.example",
		"/" + strings.Repeat("a", 8<<10),
	} {
		browser := i.browser()
		var last string
		browser.CheckRedirect = func(r *http.Request, via []*http.Request) error {
			if via[len(via)-1].URL.Path == "/auth/callback" {
				last = r.Response.Header.Get("Location")
				return http.ErrUseLastResponse
			}
			return nil
		}
		for _, query := range []string{url.Values{"to": {to}}.Encode(), "to=" + strings.NewReplacer(" ", "+", "\n", "%0A", "\r", "%0D", "\x00", "%00", "\t", "%09", "#", "%23").Replace(to)} {
			last = "none"
			_, _ = i.read(browser, http.MethodGet, server.URL+"/auth/login?"+query)
			require.True(t, strings.HasPrefix(last, server.URL+"/"), "to=%q leads to %q", to, last)
		}
	}
	browser := i.browser()
	_, body := i.read(browser, http.MethodGet, server.URL+"/auth/login?to=%2Fqueues%3Fa%3Db%2520c")
	require.Contains(t, body, "Parked for a person", "the page that the user opened")
}

// Browsers use https alone, also if a proxy ends TLS.
func TestBrowsersUseHTTPSOnly(t *testing.T) {
	i := newIssuer(t)
	server, browser := i.console()
	for _, path := range []string{"/auth/over", "/static/console.css", "/nowhere/../x"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		res, err := browser.Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Regexp(t, `^max-age=\d{8}$`, res.Header.Get("Strict-Transport-Security"), path)
	}
	for url, want := range map[string]bool{"https://console.example": true, "http://127.0.0.1:1": false} {
		access, err := NewOIDC(OIDCConfig{Issuer: i.URL, ClientID: "console", ClientSecret: "shh", URL: url, Viewers: []string{"eng"}})
		require.NoError(t, err)
		h := newTestConsole(t, Config{Deployment: &deployment{all: threeRegions()}, Access: access})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/static/console.css", nil))
		require.Equal(t, want, w.Header().Get("Strict-Transport-Security") != "", url)
	}
}

// slow is an issuer's network: a request for path waits until its context ends.
type slow struct {
	path     string
	inFlight atomic.Int32
	most     atomic.Int32
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if now := s.inFlight.Add(1); now > s.most.Load() {
		s.most.Store(now)
	}
	defer s.inFlight.Add(-1)
	if strings.HasSuffix(r.URL.Path, s.path) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	const discovery = `{"issuer":"https://id.example","authorization_endpoint":"https://id.example/authorize","token_endpoint":"https://id.example/token","jwks_uri":"https://id.example/keys"}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(discovery)), Request: r}, nil
}

// With a slow issuer, strangers cause few requests to it, and all end in time.
func TestASlowIssuerHoldsLittle(t *testing.T) {
	const strangers = 200
	for path, most := range map[string]int32{"/openid-configuration": 1, "/token": 8} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := &slow{path: path}
				access, err := NewOIDC(OIDCConfig{
					Issuer: "https://id.example", ClientID: "console", ClientSecret: "shh", URL: "https://console.example", Viewers: []string{"eng"},
					Client: &http.Client{Transport: network},
				})
				require.NoError(t, err)
				h := access.Wrap(http.NotFoundHandler())
				var done sync.WaitGroup
				var refused atomic.Int32
				for range strangers {
					done.Go(func() {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/auth/login", nil))
						if w.Code == http.StatusSeeOther {
							to, err := url.Parse(w.Header().Get("Location"))
							if !assert.NoError(t, err) { //nolint:testifylint // not the test's goroutine
								return
							}
							r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/auth/callback?code=x&state="+to.Query().Get("state"), nil)
							for _, c := range w.Result().Cookies() {
								r.AddCookie(c)
							}
							w = httptest.NewRecorder()
							h.ServeHTTP(w, r)
						}
						if w.Code == http.StatusServiceUnavailable {
							refused.Add(1)
						}
					})
				}
				synctest.Wait()
				require.LessOrEqual(t, network.most.Load(), most)
				done.Wait()
				require.Equal(t, int32(strangers), refused.Load(), "all get an answer in time, and an unknown is no refusal")
				require.LessOrEqual(t, network.most.Load(), most)
			})
		})
	}
}

// A stranger who begins logins without end evicts neither a login under way nor a session.
func TestStrangersEvictNoUser(t *testing.T) {
	i := newIssuer(t)
	i.groups = "eng"
	server, browser := i.console()
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/auth/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	res, err := browser.Do(i.get(server.URL + "/auth/login"))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	end := res.Header.Get("Location")
	stranger := i.browser()
	stranger.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for range 1001 {
		status, _ := i.read(stranger, http.MethodGet, server.URL+"/auth/login")
		require.Equal(t, http.StatusSeeOther, status)
	}
	require.LessOrEqual(t, len(stranger.Jar.Cookies(i.at(server.URL))), 16, "too many cookies")
	browser.CheckRedirect = nil
	status, body := i.read(browser, http.MethodGet, end)
	require.Equal(t, http.StatusOK, status, body)
}

// Two tabs log in at once, since their polls end at the same time.
func TestTwoTabsLogInAtOnce(t *testing.T) {
	i := newIssuer(t)
	i.groups = "eng"
	server, browser := i.console()
	begin := *browser
	begin.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	tabs := map[string]string{}
	for tries := 0; len(tabs) < 2; tries++ {
		require.Less(t, tries, 1000, "each login replaces the one before")
		res, err := begin.Do(i.get(server.URL + "/auth/login"))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		tabs[res.Cookies()[0].Name] = res.Header.Get("Location")
	}
	for _, to := range tabs {
		status, body := i.read(browser, http.MethodGet, to)
		require.Equal(t, http.StatusOK, status, body)
	}
}

func (i *issuer) get(url string) *http.Request {
	i.Helper()
	r, err := http.NewRequestWithContext(i.Context(), http.MethodGet, url, nil)
	require.NoError(i, err)
	return r
}

func TestWithoutASessionNothingIsShownOrDone(t *testing.T) {
	i := newIssuer(t)
	server, browser := i.console()
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/", "/queues", "/key?q=order-1", "/nowhere"} {
		status, body := i.read(browser, http.MethodGet, server.URL+path)
		require.Equal(t, http.StatusSeeOther, status, path)
		require.NotContains(t, body, "europe-west1")
	}
	status, _ := i.read(browser, http.MethodPost, server.URL+"/queues/requeue")
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = i.read(browser, http.MethodGet, server.URL+"/static/console.css")
	require.Equal(t, http.StatusOK, status)
}

// The console refuses a login that this browser has not begun, an ID token of another login, and a
// used state. No login redirects to another site.
func TestALoginIsOfTheBrowserThatBeganIt(t *testing.T) {
	i := newIssuer(t)
	i.groups = "sre"
	server, browser := i.console()
	status, _ := i.read(i.browser(), http.MethodGet, server.URL+"/auth/callback?state=x&code=y")
	require.Equal(t, http.StatusBadRequest, status)

	// An attacker sends a victim the end of the attacker's own login.
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/auth/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/auth/login?to=//evil.example", nil)
	require.NoError(t, err)
	res, err := browser.Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	end := res.Header.Get("Location")
	require.Contains(t, end, server.URL+"/auth/callback?")
	status, _ = i.read(i.browser(), http.MethodGet, end)
	require.Equal(t, http.StatusBadRequest, status)
	browser.CheckRedirect = nil
	status, body := i.read(browser, http.MethodGet, end)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "<h1>Map</h1>", "and not where the link pointed")
	status, _ = i.read(browser, http.MethodGet, end)
	require.Equal(t, http.StatusBadRequest, status, "a state was accepted twice")

	i.nonce = "another"
	status, body = i.read(i.browser(), http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "belongs to another login")
}

func TestAnIssuerThatIsDownKeepsPeopleOut(t *testing.T) {
	i := newIssuer(t)
	server, browser := i.console()
	i.Close()
	status, body := i.read(browser, http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "does not answer")
}

func TestSessionsAreBounded(t *testing.T) {
	o := &OIDC{sessions: map[string]*session{}}
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	o.keep("first", &session{subject: "victim", seen: at(0)})
	for n := range 2 * maxSessions {
		o.keep(fmt.Sprint("same", n), &session{subject: "attacker", seen: at(1 + n)})
	}
	require.Len(t, o.sessions, 1+maxOfUser, "one user evicts none but their own")
	require.Contains(t, o.sessions, "first")
	for n := range 2 * maxSessions {
		o.keep(fmt.Sprint(n), &session{subject: fmt.Sprint(n), seen: at(n)})
	}
	require.Len(t, o.sessions, maxSessions)
	require.Contains(t, o.sessions, fmt.Sprint(2*maxSessions-1))
	require.NotContains(t, o.sessions, "0")
}

func TestAnIssuerIsNamedWhole(t *testing.T) {
	good := OIDCConfig{Issuer: "https://id.example", ClientID: "c", ClientSecret: "s", URL: "https://console.example", Viewers: []string{"eng"}}
	_, err := NewOIDC(good)
	require.NoError(t, err)
	for _, spoil := range []func(*OIDCConfig){
		func(c *OIDCConfig) { c.Issuer = "" },
		func(c *OIDCConfig) { c.ClientSecret = "" },
		func(c *OIDCConfig) { c.URL = "console.example" },
		func(c *OIDCConfig) { c.URL = "https://console.example/there" },
		func(c *OIDCConfig) { c.Viewers = nil },
	} {
		bad := good
		spoil(&bad)
		_, err := NewOIDC(bad)
		require.ErrorContains(t, err, "console: ")
	}
}
