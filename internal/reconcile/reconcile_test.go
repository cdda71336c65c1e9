package reconcile

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/payment/notice"
	"github.com/homeward-io/homeward/payment/recon"
)

const statementHead = "id,kind,reference,amount,currency,created\n"

// A statement decides about money, so it is fetched by HTTPS, also after a redirect, unless a flag
// allows HTTP.
func TestAStatementIsFetchedByHTTPSOnly(t *testing.T) {
	requests := 0
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Content-Type", "text/csv")
		_, _ = io.WriteString(w, statementHead)
	}))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()
	roots := http.DefaultTransport.(*http.Transport).TLSClientConfig
	http.DefaultTransport.(*http.Transport).TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
	defer func() { http.DefaultTransport.(*http.Transport).TLSClientConfig = roots }()

	for _, statement := range []string{plain.URL, secure.URL} {
		s := Statement{Name: statement}
		fetch := func() error {
			if err := s.Validate(); err != nil {
				return err
			}
			body, _, err := s.open(t.Context(), time.Time{}, time.Time{})
			if err == nil {
				err = body.Close()
			}
			return err
		}
		requests = 0
		require.ErrorContains(t, fetch(), "--allow-http")
		require.Zero(t, requests, statement)
		s.AllowHTTP = true
		require.NoError(t, fetch())
		require.Equal(t, 1, requests)
	}
}

// What opens a statement reaches the host that was named and no other, also after a redirect.
func TestARedirectSendsNoCredentialsToAnotherHost(t *testing.T) {
	var got http.Header
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("Content-Type", "text/csv")
		_, _ = io.WriteString(w, statementHead)
	}))
	defer other.Close()
	named := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "books" || password != "hunter2" || r.URL.Query().Get("token") != "hunter3" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, other.URL+"/signed", http.StatusFound)
	}))
	defer named.Close()
	roots := http.DefaultTransport.(*http.Transport).TLSClientConfig
	http.DefaultTransport.(*http.Transport).TLSClientConfig = named.Client().Transport.(*http.Transport).TLSClientConfig
	defer func() { http.DefaultTransport.(*http.Transport).TLSClientConfig = roots }()

	s := Statement{Name: strings.Replace(named.URL, "https://", "https://books:hunter2@", 1) + "/day?token=hunter3"}
	body, _, err := s.open(t.Context(), time.Time{}, time.Time{})
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.NotEmpty(t, got)
	for name, values := range got {
		require.NotContains(t, strings.Join(values, " "), "hunter", name)
	}
	require.NotContains(t, got, "Authorization")
	require.NotContains(t, got, "Referer")
}

// A panic over one ghost leaves the others to be healed, and one over a comparison
// leaves the daily run at work.
func TestAPanicCostsOneComparison(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.csv")
	require.NoError(t, os.WriteFile(file, []byte(statementHead), 0o600))
	r := &Reconciler{Statement: Statement{Name: file}}
	r.Heal = func(context.Context, notice.Ghost) (notice.Progress, string, error) { panic("no ghost is like this") }
	one := r.treat(t.Context(), recon.Mismatch{Refundable: true})
	require.Equal(t, healPending, one.Healing)
	require.Contains(t, one.HealDetail, "no ghost is like this")

	ctx, stop := context.WithCancel(t.Context())
	rounds := 0
	r.Open = func(context.Context, func(recon.Config) error) error {
		if rounds++; rounds == 3 {
			stop()
		}
		panic("no row is like this")
	}
	var said bytes.Buffer
	r.Repeat(ctx, time.Millisecond, slog.New(slog.NewJSONHandler(&said, nil)))
	require.Equal(t, 3, rounds)
	require.Contains(t, said.String(), "TestAPanicCostsOneComparison", "the stack names the place")
}

// What was booked too near the end of a period to be judged is judged in the next, also where the
// provider states a movement days after it was booked.
func TestPeriodsOverlapByWhatIsNotJudged(t *testing.T) {
	const slack = 4 * time.Hour
	own, err := recon.MappingOf("paypal")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		r   Reconciler
		lag time.Duration
	}{
		"the flag's lag":          {Reconciler{Lag: 48 * time.Hour, Statement: Statement{Format: "adyen"}}, 48 * time.Hour},
		"the format's":            {Reconciler{Statement: Statement{Format: "adyen"}}, 120 * time.Hour},
		"the mapping's":           {Reconciler{Mapping: own}, 24 * time.Hour},
		"that of other formats":   {Reconciler{Statement: Statement{Format: "csv"}}, recon.DefaultLag},
		"that of no known format": {Reconciler{}, recon.DefaultLag},
	} {
		t.Run(name, func(t *testing.T) {
			var periods [][2]time.Time
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var period [2]time.Time
				for i, edge := range []string{"from", "to"} {
					at, err := time.Parse(time.RFC3339, r.URL.Query().Get(edge))
					if err != nil {
						t.Errorf("%s: %v", edge, err)
					}
					period[i] = at
				}
				periods = append(periods, period)
				w.Header().Set("Content-Type", "text/csv")
				_, _ = io.WriteString(w, statementHead)
			}))
			defer srv.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			r := c.r
			r.Slack, r.Statement.Name, r.Statement.AllowHTTP = slack, srv.URL+"?from={from}&to={to}", true
			r.Open = func(context.Context, func(recon.Config) error) error { return nil }
			r.Keep = func(compare func() (*Comparison, error)) (*Comparison, error) {
				found, err := compare()
				if found != nil {
					found.Report = &recon.Report{}
				}
				if len(periods) == 2 {
					stop()
				}
				return found, err
			}
			r.Repeat(ctx, time.Millisecond, slog.New(slog.DiscardHandler))
			require.Len(t, periods, 2)
			// A period judges what was booked from its beginning and the slack up to its end less the lag.
			require.False(t, periods[1][0].Add(slack).After(periods[0][1].Add(-c.lag)), "%v", periods)
		})
	}
}
