package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/homeward-io/homeward/internal/parts"
)

// ListenError reports an address that cannot be listened on, usually because another
// process does.
type ListenError struct {
	// Setting names the address's setting.
	Setting, Addr string
	// Err is the system's: net.OpError's cause, or what is left of it.
	Err error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s %s: %v; choose another address or stop what uses it", e.Setting, e.Addr, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// RPCListen is the setting that a [ListenError] of an RPC listener names.
const RPCListen = "rpc.listen"

func listen(setting, addr string) (net.Listener, error) { return listenOn(net.Listen, setting, addr) }

func (c *Config) listen(setting, addr string) (net.Listener, error) {
	if c.Sockets != nil {
		return listenOn(c.Sockets.Listen, setting, addr)
	}
	return listen(setting, addr)
}

func listenOn(open func(network, addr string) (net.Listener, error), setting, addr string) (net.Listener, error) {
	l, err := open("tcp", addr)
	if err != nil {
		return nil, listenError(setting, addr, err)
	}
	return l, nil
}

// listenError contains the address once: the system's error has it, too.
func listenError(setting, addr string, err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	return &ListenError{setting, addr, err}
}

// listen opens the listeners of all servers. At the end it closes those without a
// server; a server closes its own.
func (n *Node) listen(context.Context) (parts.Stop, error) {
	var err error
	if n.rpcListener, err = n.c.listen(RPCListen, n.c.RPCListen); err != nil {
		return nil, err
	}
	if n.apiListener, err = n.c.listen("api.listen", n.c.APIListen); err != nil {
		return nil, errors.Join(err, n.rpcListener.Close())
	}
	if n.c.Console != nil {
		if n.conListener, err = n.c.listen(ConsoleListen, n.c.Console.Listen); err != nil {
			return nil, errors.Join(err, n.rpcListener.Close(), n.apiListener.Close())
		}
	}
	return func(context.Context) error {
		var errs []error
		for _, l := range []net.Listener{n.rpcListener, n.apiListener, n.conListener} {
			if l == nil {
				continue
			}
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}, nil
}

func (n *Node) serve(what string, s *http.Server, l net.Listener) {
	if s.ErrorLog == nil { // else standard error's, and it waits for the reader of that
		s.ErrorLog = slog.NewLogLogger(n.log.Handler(), slog.LevelDebug)
	}
	n.background.run(func(context.Context) {
		if err := serveOn(s, l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("listener failed", "listener", what, "error", err)
		}
	})
}

// serveOn serves until the server is closed, with TLS if it has any.
func serveOn(s *http.Server, l net.Listener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(l, "", "") // its files are in TLSConfig
	}
	return s.Serve(l)
}

// shutdown completes a server's requests, and cancels the rest when ctx ends.
func shutdown(ctx context.Context, s *http.Server) error {
	if err := s.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("the shutdown timed out with requests still open: %w", err), s.Close())
	}
	return nil
}
