package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/fault"
	"github.com/homeward-io/homeward/internal/runs"
	"github.com/homeward-io/homeward/region/admin"
)

// Deployment is the console's source for regions and nodes. *admin.Server implements
// it.
type Deployment interface {
	Look(ctx context.Context, q admin.Question) *admin.Overview
}

// Config configures a console. Deployment and Access are required; a page whose source
// is nil is left out.
type Config struct {
	Deployment Deployment
	// Access decides who may look, and who may act.
	Access Access
	// Queues are the waiting rows, and the unknown outcomes.
	Queues Rows
	// History reads the history of one key or object.
	History History
	// Money lists ghosts to refund; Queues must be set with it.
	Money Money
	// Runs has the reports of drills, drains and verifications; nil: no bucket is
	// configured.
	Runs Runs
	// TraceURL is the URL of a trace, with {trace} for its id; "": none.
	TraceURL string
	// Region and Node identify this console's node, for the audit.
	Region, Node string
	// Actions lets operators act; otherwise every page is read-only.
	Actions bool
	// Hint is an example request, line by line. Pages show it until as many requests have
	// arrived. nil: none.
	Hint func() []string
	// Logger records actions, and refused callers. Default: discard.
	Logger *slog.Logger
	// Now; nil means time.Now.
	Now func() time.Time
}

// pageTime bounds the reads for one page; a person reloads after that.
const pageTime = 10 * time.Second

type console struct {
	Config
	watch *shared[*admin.Overview]
	// drills are runs of drills, drains and shadows of gateways, proofs those of comparisons and
	// verifications.
	drills, proofs *shared[[]runView]
	suspense       *shared[*suspenseView]
	pages          *template.Template
	nav            []navItem
}

type navItem struct{ Path, Title string }

// page is the data of the layout around a page's own Body.
type page struct {
	Title string
	// Path is the page's own, at which it polls for updates.
	Path string
	// Refresh is the polling interval, as htmx spells it; "": never.
	Refresh string
	Nav     []navItem
	At      string // in Nav
	Who     Who
	MayAct  bool
	Query   string // in the search field
	// Test: the page shows what test tenants have, and not what live ones have.
	Test    bool
	Search  bool
	Trouble []string
	Now     time.Time
	Body    any
	// Hint is an example request, until the page is loaded again.
	Hint []string

	content string // the template of Body
}

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// New returns the console. It runs nothing in the background and is safe for concurrent
// use.
func New(c Config) (http.Handler, error) {
	if c.Deployment == nil || c.Access == nil {
		return nil, errors.New("console: Config.Deployment and Config.Access must be set")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	pages, err := template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	s := &console{Config: c, watch: newWatch(c.Deployment, c.Now), pages: pages}
	s.drills = newShared(c.Now, runsFor, s.listRuns(runs.Drill, runs.Drain, runs.Shadow))
	s.proofs = newShared(c.Now, runsFor, s.listRuns(runs.Reconcile, runs.Verify))
	s.suspense = newShared(c.Now, suspenseFor, s.readSuspense)
	mux := http.NewServeMux()
	s.mount(mux)
	return s.secured(c.Access.Wrap(mux)), nil
}

// view reads the data of a page.
type view func(r *http.Request, p *page) error

func (s *console) mount(mux *http.ServeMux) {
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) // it is embedded
	}
	files := http.FileServerFS(static)
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=300")
		if r.PathValue("file") == "land.svg" {
			w.Header().Set("Content-Type", "image/svg+xml")
			_, _ = w.Write(landSVG()) // the client may have disconnected
			return
		}
		http.StripPrefix("/static", files).ServeHTTP(w, r)
	})
	add := func(at, short, title, content, refresh string, v view) {
		s.nav = append(s.nav, navItem{at, short})
		s.get(mux, at, title, content, refresh, v)
	}
	add("/", "Map", "Map", "map", "every 2s", s.mapPage)
	if s.Queues != nil {
		add("/unknown", "Unknown", "Unknown outcomes", "unknown", "every 5s", s.unknownPage)
		add("/queues", "Queues", "Queues", "queues", "every 10s", s.queuesPage)
		s.get(mux, "/queues/requeue", "Requeue a row", "requeue", "", s.confirmPage)
		mux.Handle("POST /queues/requeue", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.requeue)))
	}
	if s.Money != nil {
		add("/suspense", "Suspense", "Ghosts and suspense", "suspense", "every 20s", s.suspensePage)
	}
	add("/drills", "Drills", "Drains and drills", "drills", "every 3s", s.drillsPage)
	add("/reconciliation", "Reconciliation", "Reconciliation and proofs", "reconciliation", "every 20s", s.reconciliationPage)
	s.get(mux, "/run", "One run", "run", "", s.runPage)
	if s.History != nil {
		s.get(mux, "/key", "One key", "key", "", s.keyPage)
	}
	add("/tenants", "Tenants", "Tenants", "tenants", "every 10s", s.tenantsPage)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.show(w, r, http.StatusNotFound, &page{Title: "There is no such page", content: "nothing"})
	})
}

func (s *console) get(mux *http.ServeMux, at, title, content, refresh string, v view) {
	pattern := "GET " + at
	if at == "/" {
		pattern = "GET /{$}"
	}
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTime)
		defer cancel()
		p := &page{Title: title, At: at, Refresh: refresh, Test: side(w, r), content: content}
		err := func() (err error) {
			defer fault.Recover(&err)
			return v(r.WithContext(ctx), p)
		}()
		status := http.StatusOK
		if wrong := (*pageError)(nil); errors.As(err, &wrong) {
			status, p.content, p.Body = wrong.status, "nothing", wrong.text
		} else if err != nil {
			s.Logger.ErrorContext(ctx, "the console could not load a page", "page", at, "error", err)
			status, p.content, p.Body = http.StatusServiceUnavailable, "nothing", "What this page shows cannot be read now: "+oneLine(err)+". Load it again in a moment."
		}
		s.show(w, r, status, p)
	})
}

// sideCookie remembers which side of the tenants a browser looks at.
const sideCookie = "homeward_side"

const sideTest = "test"

// side reports whether r asks for the test side, in its query or, from an earlier page, in its cookie.
func side(w http.ResponseWriter, r *http.Request) bool {
	if to := r.URL.Query().Get("side"); to != "" {
		http.SetCookie(w, &http.Cookie{Name: sideCookie, Value: to, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
		return to == sideTest
	}
	c, err := r.Cookie(sideCookie)
	return err == nil && c.Value == sideTest
}

// shows reports whether p shows what a tenant has.
func (p *page) shows(tenant string) bool { return claim.Livemode(tenant) != p.Test }

// ofSide keeps those of all that p shows, in a slice of its own.
func ofSide[T any](p *page, all []T, tenant func(*T) string) (some []T) {
	for i := range all {
		if p.shows(tenant(&all[i])) {
			some = append(some, all[i])
		}
	}
	return some
}

// pageError is an error page with what to do.
type pageError struct {
	status int
	text   string
}

func (e *pageError) Error() string { return e.text }

// show renders p, or only its content if htmx polls.
func (s *console) show(w http.ResponseWriter, r *http.Request, status int, p *page) {
	p.Nav, p.Who, p.Now, p.Path = s.nav, whoOf(r.Context()), s.Now().UTC(), r.URL.RequestURI()
	p.MayAct, p.Search = s.Actions && p.Who.Operator, s.History != nil
	name := "layout"
	if r.Header.Get("Hx-Request") == "true" {
		name = "live"
	}
	var content, whole bytes.Buffer
	if err := s.pages.ExecuteTemplate(&content, p.content, p); err != nil {
		s.broken(w, r, err)
		return
	}
	rendered := rendered{p, template.HTML(content.String())} //nolint:gosec // a template has escaped it
	if err := s.pages.ExecuteTemplate(&whole, name, rendered); err != nil {
		s.broken(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "HX-Request")
	w.WriteHeader(status)
	_, _ = w.Write(whole.Bytes()) // the client may have disconnected
}

// rendered is a page with HTML as its content already.
type rendered struct {
	*page
	Content template.HTML
}

func (s *console) broken(w http.ResponseWriter, r *http.Request, err error) {
	s.Logger.ErrorContext(r.Context(), "the console could not render a page", "path", r.URL.Path, "error", err)
	http.Error(w, "this page could not be rendered; the log says why", http.StatusInternalServerError)
}

// policy restricts a page to resources of this listener.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// onlyHTTPS makes a browser use https alone for a year, whatever a link says: it never sends its
// cookies in clear text.
func onlyHTTPS(w http.ResponseWriter) {
	w.Header().Set("Strict-Transport-Security", "max-age=31536000")
}

// secured sets the headers of every response.
func (s *console) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.TLS != nil {
			onlyHTTPS(w)
		}
		if r.URL.Path != path.Clean(r.URL.Path) {
			http.NotFound(w, r) // ServeMux would redirect
			return
		}
		next.ServeHTTP(w, r)
	})
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
