package region

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/semaphore"
)

// Limits of the streams that others open to this node's gossip. memberlist reads one whole
// before it can decrypt it, up to 20 MiB of anybody's.
const (
	// maxGossipStreams is how many may be open at once; beyond it they are closed, and a member
	// tries again with its next exchange. Members open one each half minute for some
	// round trips, so 64 are enough for thousands of nodes.
	maxGossipStreams = 64
	// maxGossipBytes is how much of one is read: a full view of 2,000 nodes, each with
	// 512 bytes of metadata, its names and addresses.
	maxGossipBytes = 2 << 20
)

// streams is the network with bounded streams from others.
type streams struct {
	*memberlist.NetTransport
	in   chan net.Conn
	open *semaphore.Weighted
	done chan struct{}
}

// listenGossip opens the network that conf describes. A port of 0 becomes a free one.
func listenGossip(conf *memberlist.Config) (*streams, error) {
	tries := 1
	if conf.BindPort == 0 {
		tries = 10 // TCP and UDP must get the same free port
	}
	var (
		network *memberlist.NetTransport
		err     error
	)
	for range tries {
		network, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{conf.BindAddr}, BindPort: conf.BindPort, Logger: conf.Logger})
		if err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if conf.BindPort == 0 {
		conf.BindPort = network.GetAutoBindPort()
		conf.AdvertisePort = conf.BindPort
	}
	s := &streams{NetTransport: network, in: make(chan net.Conn), open: semaphore.NewWeighted(maxGossipStreams), done: make(chan struct{})}
	go s.bound()
	return s, nil
}

func (s *streams) StreamCh() <-chan net.Conn { return s.in }

// Shutdown first ends the listeners, which may wait for bound.
func (s *streams) Shutdown() error {
	err := s.NetTransport.Shutdown()
	close(s.done)
	return err
}

func (s *streams) bound() {
	for {
		select {
		case c := <-s.NetTransport.StreamCh():
			if !s.open.TryAcquire(1) {
				_ = c.Close()
				continue
			}
			bounded := &stream{Conn: c, rest: io.LimitedReader{R: c, N: maxGossipBytes}, release: sync.OnceFunc(func() { s.open.Release(1) })}
			select {
			case s.in <- bounded:
			case <-s.done:
				_ = bounded.Close()
				return
			}
		case <-s.done:
			return
		}
	}
}

// stream is one that another node opened. memberlist closes each.
type stream struct {
	net.Conn
	rest    io.LimitedReader
	release func()
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.rest.Read(p)
	if errors.Is(err, io.EOF) && s.rest.N <= 0 {
		return n, errStreamTooLong
	}
	return n, err
}

func (s *stream) Close() error {
	s.release()
	return s.Conn.Close()
}

var errStreamTooLong = errors.New("region: a gossip stream is longer than any view of the nodes")
