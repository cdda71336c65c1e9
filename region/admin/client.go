package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/region"
)

// oneLine returns err in one line.
func oneLine(err error) string {
	text := err.Error()
	if wire, ok := errors.AsType[*connect.Error](err); ok {
		text = wire.Message()
	}
	return strings.Join(strings.Fields(text), " ")
}

// Client calls one node's [Server]. Its errors are one line, and wrap
// [region.ErrNoAnswer] if another node may answer instead. It is safe for concurrent use.
type Client struct {
	addr string
	http *http.Client
	tls  bool
}

// NewClient returns a client of the node with its RPC listener at addr, a host:port. t holds an
// operator's certificate; nil means none. The caller must call Close. The deployment of the first
// answer is the client's: it takes no answer of another, and a node of another refuses it.
func NewClient(addr string, t *region.TLS) (*Client, error) {
	return newClient(addr, region.NewClient(region.NewTransport(t).Patient(), uuid.Nil), t != nil)
}

// At returns a client of another node of the same deployment, over the same connections.
func (c *Client) At(addr string) (*Client, error) { return newClient(addr, c.http, c.tls) }

func newClient(addr string, c *http.Client, tls bool) (*Client, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%q is not the address of a node's RPC listener; write HOST:PORT", addr)
	}
	return &Client{addr: addr, http: c, tls: tls}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Overview returns the state of the deployment in the node's view.
func (c *Client) Overview(ctx context.Context, q Question) (*Overview, error) {
	o, err := call[Question, Overview](ctx, c.http, "", baseOf(c.addr, c.tls), pathOverview, &q)
	if err != nil {
		return nil, c.failed(err)
	}
	return o, nil
}

// SetStatus sets a region's status and returns the version of the topology in which it
// has it. Setting the present status changes nothing. After an error the status may be
// set or not; setting it again is safe, at any node.
func (c *Client) SetStatus(ctx context.Context, name string, status region.Status) (epoch uint64, err error) {
	set, err := call[statusRequest, statusAnswer](ctx, c.http, "", baseOf(c.addr, c.tls), pathSetStatus, &statusRequest{name, &status})
	if err != nil {
		return 0, c.failed(err)
	}
	return set.Epoch, nil
}

// failed returns, in one line, the node's error, or that the node did not answer. A node of
// another deployment is no reason to ask the next one: a person chose its address.
func (c *Client) failed(err error) error {
	if other, met := errors.AsType[*region.OtherDeploymentError](err); met {
		return fmt.Errorf("the request was not sent to the node at %s: %w", c.addr, other)
	}
	if connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeUnimplemented {
		return fmt.Errorf("the node at %s answered: %s", c.addr, oneLine(err))
	}
	return &silentError{fmt.Sprintf("no node answers at %s: %s", c.addr, oneLine(err))}
}

// silentError is [region.ErrNoAnswer] with a text for people.
type silentError struct{ text string }

func (e *silentError) Error() string { return e.text }
func (e *silentError) Unwrap() error { return region.ErrNoAnswer }
