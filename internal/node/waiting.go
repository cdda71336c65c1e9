package node

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/gateway"
	"github.com/homeward-io/homeward/internal/httpapi"
	"github.com/homeward-io/homeward/internal/parts"
	"github.com/homeward-io/homeward/payment"
)

const (
	// waitEvery is the pause between two tries to open a database that cannot be reached.
	waitEvery = 2 * time.Second
	// sayEvery is how often a node that waits logs the reason.
	sayEvery = time.Minute
)

// openMeans opens what the node acts with. While the database cannot be reached it waits: the
// process is live and not ready, and answers requests as one whose database is down. A mistake such
// as a wrong password ends the process.
func (s *Server) openMeans(ctx context.Context) (_ parts.Stop, err error) {
	open := func() error {
		trying, cancel := context.WithTimeout(ctx, StartTime)
		defer cancel()
		s.means, err = openMeans(trying, s.settings, s.secrets, s.meters, s.log)
		return err
	}
	if waitsFor(open()) && ctx.Err() == nil {
		if err := s.wait(ctx, open); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return parts.Closing(s.means.close), nil
}

// waitsFor reports whether a database that could not be opened may come yet.
func waitsFor(err error) bool { return errors.Is(err, claim.ErrUnavailable) }

// wait serves the API without a database until open has an answer that stays.
func (s *Server) wait(ctx context.Context, open func() error) error {
	stop, err := s.serveWaiting()
	if err != nil {
		return err
	}
	var said time.Time
	for err = open(); waitsFor(err); err = open() {
		if ctx.Err() == nil && time.Since(said) >= sayEvery {
			s.log.Warn("waiting for the database; this node is live and not ready", "error", err)
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("stopped while it waited for its database, before it served: %w", err), stop(context.WithoutCancel(ctx)))
		case <-time.After(waitEvery):
		}
	}
	// Closed before the node listens on the same address.
	return stop(ctx)
}

// serveWaiting serves an API on which everything is refused but what says that the process is live.
func (s *Server) serveWaiting() (_ parts.Stop, err error) {
	limits := s.settings.Limits
	of := httpapi.Config{
		Tenants: noStore{}, Router: noStore{}, List: noStore{}.List, Notices: noStore{}, Region: s.settings.Node.Region, RegionCode: 1, // which no request gets to
		Limits: limits, ErrorPages: s.settings.ErrorPages, Meters: s.meters, Logger: s.log,
		Ready: func(context.Context, bool) error { return errors.New("this node waits for its database") },
	}
	var through *gateway.Gateway
	var shown *tls.Config
	var api http.Handler
	if s.settings.Gateway.On() {
		var c *gateway.Config
		if c, shown, err = OpenGateway(s.settings.Gateway, s.secrets.Gateway, s.log); err != nil {
			return nil, err
		}
		c.Region, c.Logger = s.settings.Node.Region, s.log
		if through, err = gateway.New(*c); err != nil {
			return nil, err
		}
		api, err = httpapi.NewWaitingGateway(of, through)
	} else {
		api, err = httpapi.New(of)
	}
	if err != nil {
		return nil, err
	}
	l, err := listen("api.listen", s.settings.API.Listen)
	if err != nil {
		return nil, err
	}
	server := httpapi.NewServer(s.settings.API.Listen, api, limits, s.log)
	if through != nil {
		speakAsGateway(server, shown)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := serveOn(server, l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("listener failed", "listener", "api", "error", err)
		}
	}()
	return func(context.Context) error {
		defer through.Close()
		err := server.Close()
		<-done
		return err
	}, nil
}

// noStore is the store of a node that waits for it. No request gets past its tenant, and no
// notice past its header.
type noStore struct {
	httpapi.Router
	httpapi.Notices
}

var errWaiting = fmt.Errorf("%w: the node waits for its database", claim.ErrUnavailable)

func (noStore) TenantByAPIKey(context.Context, claim.APIKeyHash) (claim.Tenant, bool, error) {
	return claim.Tenant{}, false, errWaiting
}

func (noStore) List(context.Context, payment.List) ([]json.RawMessage, bool, error) {
	return nil, false, errWaiting
}

func (noStore) Expects(string, http.Header) error { return errWaiting }
