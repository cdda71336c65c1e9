package region

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/google/uuid"
)

// deploymentHeader names the sender's deployment in each request of a node, and in each
// answer. TLS cannot tell: secrets are copied, and the id is a row.
const deploymentHeader = "Homeward-Deployment"

// OtherDeploymentError: a node is of another deployment. Its answer is discarded, and nothing ran
// for it.
type OtherDeploymentError struct {
	// Own is this end's deployment, and Other that of the other end; [uuid.Nil] if it
	// names none.
	Own, Other uuid.UUID
}

// otherEnd begins the text of an [OtherDeploymentError].
const otherEnd = "region: the other end"

func (e *OtherDeploymentError) Error() string {
	if e.Other == uuid.Nil {
		return fmt.Sprintf(otherEnd+" names no deployment, and this end is of %v; it is no node, or one of another version", e.Own)
	}
	return fmt.Sprintf(otherEnd+" is of the deployment %v, and this end of %v; give each deployment secrets and addresses of its own", e.Other, e.Own)
}

// sameDeployment returns an error if other is another deployment than own, or none.
func sameDeployment(own, other uuid.UUID) error {
	if own == other {
		return nil
	}
	return &OtherDeploymentError{own, other}
}

// deploymentIn returns the deployment that a header names.
func deploymentIn(h http.Header) uuid.UUID {
	id, err := uuid.Parse(h.Get(deploymentHeader))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// OfDeployment serves next to callers of the deployment own alone, and names own in each
// answer. With tools it also serves callers that name none: operators' tools have no
// deployment of their own, and are admitted by their certificates. It logs the host of a
// refused caller once an hour.
func OfDeployment(next http.Handler, own uuid.UUID, tools bool, log *slog.Logger) http.Handler {
	refusal := connect.NewErrorWriter()
	var seen strangers
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(deploymentHeader, own.String())
		other := deploymentIn(r.Header)
		err := sameDeployment(own, other)
		switch {
		case err == nil, tools && other == uuid.Nil:
			next.ServeHTTP(w, r)
			return
		case refusal.IsSupported(r):
			_ = refusal.Write(w, r, connect.NewError(connect.CodePermissionDenied, err)) // the caller may have disconnected
		default:
			http.Error(w, err.Error(), http.StatusForbidden)
		}
		host, _, _ := net.SplitHostPort(r.RemoteAddr) // net/http sets it
		if seen.first(stranger{other, host}, time.Now()) {
			log.WarnContext(r.Context(), "a request of another deployment was refused", "path", r.URL.Path, "remote", r.RemoteAddr, "error", err)
		}
	})
}

// NewClient returns a client of the nodes of a deployment over t, usually a [Transport]. It
// fails with an *[OtherDeploymentError] if another deployment answers. own is [uuid.Nil] for
// an operator's tool, whose deployment is that of the first answer. The client follows no
// redirect, since a node never redirects.
func NewClient(t http.RoundTripper, own uuid.UUID) *http.Client {
	of := &ofDeployment{next: t}
	of.own.Store(&own)
	return &http.Client{Transport: of, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// ofDeployment names its deployment in each request, and takes no answer of another.
type ofDeployment struct {
	next http.RoundTripper
	own  atomic.Pointer[uuid.UUID] // Nil: a tool that has had no answer
}

func (d *ofDeployment) RoundTrip(r *http.Request) (*http.Response, error) {
	own := d.own.Load()
	if *own != uuid.Nil {
		r = r.Clone(r.Context()) // a RoundTripper does not change its request
		r.Header.Set(deploymentHeader, own.String())
	}
	resp, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	other := deploymentIn(resp.Header)
	if *own == uuid.Nil && (other == uuid.Nil || d.own.CompareAndSwap(own, &other)) {
		return resp, nil
	}
	if err := sameDeployment(*d.own.Load(), other); err != nil {
		_ = resp.Body.Close() // nothing of it is read
		return nil, fmt.Errorf("%w (HTTP status %d)", err, resp.StatusCode)
	}
	return resp, nil
}

// CloseIdleConnections implements http.Client.CloseIdleConnections.
func (d *ofDeployment) CloseIdleConnections() {
	if c, ok := d.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
