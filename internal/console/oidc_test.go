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
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/stretchr/testify/require"
)

// issuer is an identity provider whose people are made up: it logs in at once whoever
// comes, as whom it is told.
type issuer struct {
	*testing.T
	*httptest.Server
	groups any
	nonce  string // "" is the one that was asked for
	deny   string
	codes  map[string]url.Values // what a code was asked for with
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	known := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.ES256}}}
	i := &issuer{T: t, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.Handle("/", known)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{oidc.ES256},
		})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
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
		asked, ok := i.codes[r.PostFormValue("code")]
		delete(i.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		id, secret, basic := r.BasicAuth()
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || !basic || id != "console" || secret != "shh" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		nonce := asked.Get("nonce")
		if i.nonce != "" {
			nonce = i.nonce
		}
		claims, err := json.Marshal(map[string]any{
			"iss": i.URL, "aud": "console", "sub": "u-1", "email": "jo@example.com", "nonce": nonce, "groups": i.groups,
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		})
		require.NoError(i, err)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"a","token_type":"Bearer","id_token":%q}`, oidctest.SignIDToken(key, "k", oidc.ES256, string(claims)))
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	known.SetIssuer(i.URL)
	return i
}

// console serves one whose people i vouches for, and a browser that looks at it.
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
				require.Contains(t, body, "Parked for a person", "back where they wanted to go")
			}
		})
	}
}

func TestASessionEnds(t *testing.T) {
	i := newIssuer(t)
	i.groups = "eng"
	now := time.Now()
	server, browser := i.console(func(c *OIDCConfig) { c.now = func() time.Time { return now } })
	status, _ := i.read(browser, http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusOK, status)
	i.deny = "login_required"
	status, _ = i.read(browser, http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusOK, status, "the issuer is not asked again")
	now = now.Add(sessionFor)
	status, body := i.read(browser, http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "login_required")

	i.deny = ""
	_, _ = i.read(browser, http.MethodGet, server.URL+"/")
	status, body = i.read(browser, http.MethodPost, server.URL+"/auth/logout")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "logged out")
	i.deny = "login_required"
	status, _ = i.read(browser, http.MethodGet, server.URL+"/")
	require.Equal(t, http.StatusForbidden, status)
}

func TestWithoutASessionNothingIsSaidOrDone(t *testing.T) {
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

// A login that this browser has not begun, an ID token of another login, and a state that
// was used are refused, and nobody is sent to another site by a login.
func TestALoginIsOfTheBrowserThatBeganIt(t *testing.T) {
	i := newIssuer(t)
	i.groups = "sre"
	server, browser := i.console()
	status, _ := i.read(i.browser(), http.MethodGet, server.URL+"/auth/callback?state=x&code=y")
	require.Equal(t, http.StatusBadRequest, status)

	// Somebody sends a victim the end of their own login.
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
	require.Contains(t, body, "<h1>Map</h1>", "and not where the link said")
	status, _ = i.read(browser, http.MethodGet, end)
	require.Equal(t, http.StatusBadRequest, status, "a state is good for once")

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
	all := map[string]session{}
	for n := range 2 * maxSessions {
		keep(all, fmt.Sprint(n), session{end: noon.Add(time.Duration(n) * time.Second)}, func(s session) time.Time { return s.end })
	}
	require.Len(t, all, maxSessions)
	require.Contains(t, all, fmt.Sprint(2*maxSessions-1))
	require.NotContains(t, all, "0")
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
