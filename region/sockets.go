package region

import (
	"context"
	"net"

	"github.com/hashicorp/memberlist"
)

// Sockets is a network that replaces the machine's: where a node listens, from which it dials, and
// through which it gossips. Tests of whole clusters simulate one. It is safe for concurrent use.
type Sockets interface {
	Listen(network, addr string) (net.Listener, error)
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// Gossip opens the transport of the member that listens at host and port.
	Gossip(host string, port int) (memberlist.Transport, error)
}
