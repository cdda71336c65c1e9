package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/homeward-io/homeward/payment/recon"
)

const (
	// fetchTime bounds a download: a million lines are some 100 MB, at 1 Mbit/s a
	// quarter of an hour.
	fetchTime = 30 * time.Minute
	// headTime is how long a provider may take to begin its answer.
	headTime = 2 * time.Minute
)

// Statement is the source of a statement.
type Statement struct {
	// Name is a file, - for Stdin, or a URL, in which {from} and {to} stand for the
	// period.
	Name      string
	Format    string // as of recon.Format; "": by its name or its Content-Type
	AllowHTTP bool
	Stdin     io.Reader
}

// IsURL reports whether it is fetched.
func (s Statement) IsURL() bool {
	scheme, _, found := strings.Cut(strings.ToLower(s.Name), "://")
	return found && (scheme == "http" || scheme == "https")
}

// Validate refuses a source over plain HTTP, which an attacker on the path could
// change.
func (s Statement) Validate() error {
	if strings.HasPrefix(strings.ToLower(s.Name), "http://") && !s.AllowHTTP {
		return fmt.Errorf("--statement: %s is fetched without encryption, so anybody on the network path could forge the statement; use https, or add --allow-http if that is intended", s.display())
	}
	return nil
}

// open opens the statement of a period.
func (s Statement) open(ctx context.Context, from, to time.Time) (io.ReadCloser, recon.Format, error) {
	format, ok := recon.Format(s.Format), s.Format != ""
	if s.IsURL() {
		return s.download(ctx, from, to, format)
	}
	if !ok {
		if format, ok = recon.FormatOf(s.Name); !ok {
			return nil, "", fmt.Errorf("the name of %s does not show its format; add --format csv or --format jsonl", s.Name)
		}
	}
	if s.Name == "-" {
		return io.NopCloser(s.Stdin), format, nil
	}
	f, err := os.Open(s.Name)
	if err != nil {
		return nil, "", fmt.Errorf("the statement cannot be read: %w", err)
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, "", errors.Join(fmt.Errorf("the statement cannot be read: %s is a directory", s.Name), err, f.Close())
	}
	return f, format, nil
}

// download streams the statement; it is never in memory as a whole.
func (s Statement) download(ctx context.Context, from, to time.Time, format recon.Format) (_ io.ReadCloser, _ recon.Format, err error) {
	at := func(t time.Time) string { return url.QueryEscape(t.UTC().Format(time.RFC3339Nano)) }
	where := strings.NewReplacer("{from}", at(from), "{to}", at(to)).Replace(s.Name)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, "", errors.New("--statement is not a valid URL")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headTime
	client := &http.Client{Transport: transport, Timeout: fetchTime, CheckRedirect: s.follow}
	defer func() {
		if err != nil {
			transport.CloseIdleConnections()
		}
	}()
	res, err := client.Do(req) //nolint:bodyclose // whoever reads the download closes it
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) { // its text has the URL, and that may have a password
			err = inner.Err
		}
		return nil, "", fmt.Errorf("the statement cannot be fetched from %s: %w", s.display(), err)
	}
	body := &download{res.Body, transport}
	if res.StatusCode != http.StatusOK {
		return nil, "", errors.Join(fmt.Errorf("the statement cannot be fetched: %s answered %s", s.display(), res.Status), body.Close())
	}
	if format == "" {
		var ok bool
		if format, ok = formatOfType(res.Header.Get("Content-Type")); !ok {
			if format, ok = recon.FormatOf(req.URL.Path); !ok {
				return nil, "", errors.Join(fmt.Errorf("%s does not name the format of its statement; add --format csv or --format jsonl", s.display()), body.Close())
			}
		}
	}
	return body, format, nil
}

// errClearRedirect: an https URL must not be redirected to plain HTTP.
var errClearRedirect = errors.New("it redirects to http, without encryption; have it redirect to https, or add --allow-http if that is intended")

// follow decides about a redirect. Go sends user and password to the named host alone; the
// parameters of the URL, which may be secrets, would go to the next one as its referrer.
func (s Statement) follow(req *http.Request, via []*http.Request) error {
	const most = 10 // as http.Client's own
	req.Header.Del("Referer")
	switch {
	case req.URL.Scheme != "https" && !s.AllowHTTP:
		return errClearRedirect
	case len(via) >= most:
		return fmt.Errorf("it redirects more than %d times", most)
	}
	return nil
}

// download is a body that closes its connection.
type download struct {
	io.ReadCloser
	transport *http.Transport
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.transport.CloseIdleConnections()
	return err
}

func formatOfType(contentType string) (recon.Format, bool) {
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "text/csv":
		return recon.CSV, true
	case "application/x-ndjson", "application/jsonl", "application/json-lines":
		return recon.JSONLines, true
	default:
		return "", false
	}
}

// display is its name without possible secrets: of a URL, the host.
func (s Statement) display() string {
	if !s.IsURL() {
		return s.Name
	}
	u, err := url.Parse(s.Name)
	if err != nil {
		return "its URL"
	}
	return u.Host
}
