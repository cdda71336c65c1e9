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
