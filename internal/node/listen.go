package node

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// ListenError: nobody can listen on an address, as a rule because somebody does.
type ListenError struct {
	// Setting is the one that names the address.
	Setting, Addr string
	// Err is the system's: net.OpError's cause, or what is left of it.
	Err error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("%s %s: %v; choose another address or stop what uses it", e.Setting, e.Addr, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

func listen(setting, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, listenError(setting, addr, err)
	}
	return l, nil
}

// listenError says the address once: the system's error has it, too.
func listenError(setting, addr string, err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	return &ListenError{setting, addr, err}
}

// gossipError is a ListenError where memberlist, which keeps no causes, could not
// listen.
func gossipError(addr string, err error) error {
	text := err.Error()
	if i := strings.LastIndex(text, "bind: "); i >= 0 {
		return &ListenError{"gossip.listen", addr, errors.New(text[i:])}
	}
	return fmt.Errorf("gossip.listen %s: %w", addr, err)
}
