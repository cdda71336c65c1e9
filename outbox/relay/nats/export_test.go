package nats

import natsgo "github.com/nats-io/nats.go"

// Status tells when the connection changes to one of these.
func (s *Sink) Status(of ...natsgo.Status) chan natsgo.Status { return s.conn.StatusChanged(of...) }

// Recheck looks at the stream now, as it happens from time to time while events wait.
func (s *Sink) Recheck() { s.recheck() }
