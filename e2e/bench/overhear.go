package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

// tap passes connections on to a database and keeps what their clients send. It
// is how the raw side learns the store's statements: a copy kept here would be of
// last month's.
type tap struct {
	listener net.Listener
	upstream string
	running  sync.WaitGroup

	mu   sync.Mutex
	sent []*bytes.Buffer // one for each connection
}

// newTap returns the tap and the URL that leads through it to databaseURL, which
// must not ask for TLS.
func newTap(databaseURL string) (*tap, string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	t := &tap{listener: l, upstream: u.Host}
	u.Host = l.Addr().String()
	t.running.Go(t.accept)
	return t, u.String(), nil
}

// close returns when every connection has ended, which its client does.
func (t *tap) close() error {
	err := t.listener.Close()
	t.running.Wait()
	return err
}

func (t *tap) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return // closed
		}
		t.running.Go(func() { t.pass(client) })
	}
}

// pass carries one connection until either end closes it. Whoever is cut off by
// that reports it.
func (t *tap) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", t.upstream)
	if err != nil {
		return
	}
	kept := &bytes.Buffer{}
	t.mu.Lock()
	t.sent = append(t.sent, kept)
	t.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(client, server) })
	_, _ = io.Copy(io.MultiWriter(keeper{t, kept}, server), client)
	_ = server.Close()
	back.Wait()
}

// keeper writes to a buffer that others read.
type keeper struct {
	t    *tap
	kept *bytes.Buffer
}

func (k keeper) Write(p []byte) (int, error) {
	k.t.mu.Lock()
	defer k.t.mu.Unlock()
	return k.kept.Write(p)
}

// bound is one execution of a prepared statement, as it went over the wire.
type bound struct {
	sql     string
	formats []int16
	params  [][]byte
}

// executed lists what was executed so far, connection by connection.
func (t *tap) executed() ([]bound, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []bound
	for _, kept := range t.sent {
		prepared := map[string]string{}
		// The start-up message has no type, all others have one byte of it.
		_, stream, ok := message(bytes.Clone(kept.Bytes()), 0)
		for ok && len(stream) > 0 {
			kind := stream[0]
			var body []byte
			if body, stream, ok = message(stream, 1); !ok {
				break
			}
			switch kind {
			case 'P':
				var m pgproto3.Parse
				if err := m.Decode(body); err != nil {
					return nil, err
				}
				prepared[m.Name] = m.Query
			case 'B':
				var m pgproto3.Bind
				if err := m.Decode(body); err != nil {
					return nil, err
				}
				all = append(all, bound{prepared[m.PreparedStatement], m.ParameterFormatCodes, m.Parameters})
			}
		}
	}
	return all, nil
}

// message cuts the first message off stream: its length, which counts itself,
// stands at that offset. ok is false when it is not whole yet.
func message(stream []byte, at int) (body, rest []byte, ok bool) {
	if len(stream) < at+4 {
		return nil, nil, false
	}
	end := at + int(binary.BigEndian.Uint32(stream[at:]))
	if end < at+4 || len(stream) < end {
		return nil, nil, false
	}
	return stream[at+4 : end], stream[end:], true
}

// rawStatement is a statement with the arguments that it was overheard with.
type rawStatement struct {
	sql  string
	args []any
	// Where the arguments are that differ from charge to charge.
	keys, ids, steps []int
}

// newRawStatement reads b, which was sent for the charge id under key. The types
// are the database's, which conn asks.
func newRawStatement(ctx context.Context, conn *pgx.Conn, b bound, key, id string) (rawStatement, error) {
	s := rawStatement{sql: b.sql}
	described, err := conn.Prepare(ctx, b.sql, b.sql)
	if err != nil {
		return s, err
	}
	if len(described.ParamOIDs) != len(b.params) {
		return s, fmt.Errorf("%d parameters were sent and %d are wanted: %s", len(b.params), len(described.ParamOIDs), b.sql)
	}
	for i, param := range b.params {
		value, err := decode(conn.TypeMap(), described.ParamOIDs[i], format(b.formats, i), param)
		if err != nil {
			return s, fmt.Errorf("parameter %d: %w: %s", i+1, err, b.sql)
		}
		one := value
		switch value := value.(type) {
		case []string: // a statement that many may share, and one did
			if len(value) == 1 {
				one = value[0]
			}
		case []uuid.UUID:
			if len(value) > 0 {
				one = value[0]
			}
		}
		switch one := one.(type) {
		case string:
			switch one {
			case key:
				s.keys = append(s.keys, i)
			case id:
				s.ids = append(s.ids, i)
			}
		case uuid.UUID:
			s.steps = append(s.steps, i)
		}
		s.args = append(s.args, value)
	}
	if len(s.keys) == 0 || len(s.ids) == 0 || len(s.steps) == 0 {
		return s, errors.New("the statement does not carry the key, the object's id and a step; teach newRawStatement what it carries: " + b.sql)
	}
	return s, nil
}

// format is that of parameter i: none given means text, one means it for all.
func format(formats []int16, i int) int16 {
	switch len(formats) {
	case 0:
		return pgtype.TextFormatCode
	case 1:
		return formats[0]
	default:
		return formats[i]
	}
}

// decode returns a parameter as the Go type that a program would send it from.
func decode(m *pgtype.Map, oid uint32, format int16, param []byte) (any, error) {
	if param == nil {
		return nil, nil
	}
	switch oid {
	case pgtype.UUIDOID:
		return scan[uuid.UUID](m, oid, format, param)
	case pgtype.UUIDArrayOID:
		return scan[[]uuid.UUID](m, oid, format, param)
	case pgtype.TextArrayOID:
		return scan[[]string](m, oid, format, param)
	case pgtype.ByteaArrayOID:
		return scan[[][]byte](m, oid, format, param)
	}
	known, ok := m.TypeForOID(oid)
	if !ok {
		return string(param), nil // the database's own type: pgx sends its text
	}
	return known.Codec.DecodeValue(m, oid, format, param)
}

func scan[T any](m *pgtype.Map, oid uint32, format int16, param []byte) (v T, err error) {
	err = m.Scan(oid, format, param, &v)
	return v, err
}

// fill returns the arguments for the charge id under key.
func (s *rawStatement) fill(key, id string) []any {
	args := make([]any, len(s.args))
	copy(args, s.args)
	for _, i := range s.keys {
		args[i] = like(s.args[i], key)
	}
	for _, i := range s.ids {
		args[i] = like(s.args[i], id)
	}
	for _, i := range s.steps {
		if all, ok := s.args[i].([]uuid.UUID); ok {
			fresh := make([]uuid.UUID, len(all))
			for j := range fresh {
				fresh[j] = uuid.New()
			}
			args[i] = fresh
			continue
		}
		args[i] = uuid.New()
	}
	return args
}

// like is text in the shape of what was overheard, alone or in an array.
func like(overheard any, text string) any {
	if _, ok := overheard.([]string); ok {
		return []string{text}
	}
	return text
}
