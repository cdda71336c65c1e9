package wireproxy

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// script is a database whose every move the test makes, and a client too.
type script struct {
	t        *testing.T
	proxy    *Proxy
	listener net.Listener
	client   net.Conn
	front    *pgproto3.Frontend
	server   net.Conn
	back     *pgproto3.Backend
}

// patience bounds a test that hangs; nothing is asserted about it.
const patience = 20 * time.Second

func play(t *testing.T) *script {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	p, err := Start(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	s := &script{t: t, proxy: p, listener: listener}
	s.client = s.dial()
	s.front = pgproto3.NewFrontend(s.client, s.client)
	return s
}

func (s *script) dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.proxy.listener.Addr().String())
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetDeadline(time.Now().Add(patience)))
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *script) accept() net.Conn {
	s.t.Helper()
	c, err := s.listener.Accept()
	require.NoError(s.t, err)
	require.NoError(s.t, c.SetDeadline(time.Now().Add(patience)))
	s.t.Cleanup(func() { c.Close() })
	return c
}

func (s *script) ask(msgs ...pgproto3.FrontendMessage) {
	s.t.Helper()
	for _, m := range msgs {
		s.front.Send(m)
	}
	require.NoError(s.t, s.front.Flush())
}

func (s *script) say(msgs ...pgproto3.BackendMessage) {
	s.t.Helper()
	for _, m := range msgs {
		s.back.Send(m)
	}
	require.NoError(s.t, s.back.Flush())
}

// asked checks what arrives at the database.
func (s *script) asked(want ...pgproto3.FrontendMessage) {
	s.t.Helper()
	for _, w := range want {
		got, err := s.back.Receive()
		require.NoError(s.t, err)
		require.Equal(s.t, w, got)
	}
}

// said checks what arrives at the client.
func (s *script) said(want ...pgproto3.BackendMessage) {
	s.t.Helper()
	for _, w := range want {
		got, err := s.front.Receive()
		require.NoError(s.t, err)
		require.Equal(s.t, w, got)
	}
}

// refused checks for an error of the proxy's own.
func (s *script) refused(code string, block byte) {
	s.t.Helper()
	got, err := s.front.Receive()
	require.NoError(s.t, err)
	require.IsType(s.t, &pgproto3.ErrorResponse{}, got)
	require.Equal(s.t, code, got.(*pgproto3.ErrorResponse).Code)
	s.said(&pgproto3.ReadyForQuery{TxStatus: block})
}

// cutOff waits for the proxy to close a client's connection and returns how many
// bytes came before.
func cutOff(t *testing.T, c io.Reader) int64 {
	t.Helper()
	n, err := io.Copy(io.Discard, c)
	if ne := net.Error(nil); errors.As(err, &ne) {
		require.False(t, ne.Timeout(), "the connection still lives")
	}
	return n
}

var testKey = pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte{1, 2, 3, 4}}

// greet opens the connection without authentication.
func (s *script) greet() *script {
	s.t.Helper()
	s.ask(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}})
	s.server = s.accept()
	s.back = pgproto3.NewBackend(s.server, s.server)
	first, err := s.back.ReceiveStartupMessage()
	require.NoError(s.t, err)
	require.IsType(s.t, &pgproto3.StartupMessage{}, first)
	ready := []pgproto3.BackendMessage{&pgproto3.AuthenticationOk{}, &testKey, &pgproto3.ReadyForQuery{TxStatus: 'I'}}
	s.say(ready...)
	s.said(ready...)
	return s
}

func (s *script) wait(shot *Shot) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	require.NoError(s.t, shot.Wait(ctx))
}

var (
	done  = &pgproto3.CommandComplete{CommandTag: []byte("INSERT 0 1")}
	idle  = &pgproto3.ReadyForQuery{TxStatus: 'I'}
	block = &pgproto3.ReadyForQuery{TxStatus: 'T'}
)

func query(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }

func TestEncryptionIsRefusedAndAuthenticationPassesUntouched(t *testing.T) {
	s := play(t)
	for _, request := range []pgproto3.FrontendMessage{&pgproto3.SSLRequest{}, &pgproto3.GSSEncRequest{}} {
		s.ask(request)
		answer := make([]byte, 1)
		_, err := io.ReadFull(s.client, answer)
		require.NoError(t, err)
		require.Equal(t, "N", string(answer))
	}
	startup := &pgproto3.StartupMessage{
		ProtocolVersion: pgproto3.ProtocolVersion32,
		Parameters:      map[string]string{"user": "u", "database": "d", "application_name": "homeward"},
	}
	s.ask(startup)
	s.server = s.accept()
	s.back = pgproto3.NewBackend(s.server, s.server)
	got, err := s.back.ReceiveStartupMessage()
	require.NoError(t, err)
	require.Equal(t, startup, got)

	turn := func(authType uint32, ask pgproto3.BackendMessage, answer pgproto3.FrontendMessage) {
		t.Helper()
		s.say(ask)
		s.said(ask)
		require.NoError(t, s.back.SetAuthType(authType))
		s.ask(answer)
		s.asked(answer)
	}
	turn(pgproto3.AuthTypeSASL,
		&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}},
		&pgproto3.SASLInitialResponse{AuthMechanism: "SCRAM-SHA-256", Data: []byte("n,,n=,r=\x00\xff")})
	turn(pgproto3.AuthTypeSASLContinue,
		&pgproto3.AuthenticationSASLContinue{Data: []byte("r=1,s=2,i=4096")},
		&pgproto3.SASLResponse{Data: []byte("c=biws,r=1,p=3")})
	rest := []pgproto3.BackendMessage{
		&pgproto3.AuthenticationSASLFinal{Data: []byte("v=4")},
		&pgproto3.AuthenticationOk{},
		&pgproto3.ParameterStatus{Name: "server_version", Value: "15"},
		&testKey, idle,
	}
	s.say(rest...)
	s.said(rest...)
	s.ask(query("SELECT 1"))
	s.asked(query("SELECT 1"))
}

func TestPasswordsPassUntouched(t *testing.T) {
	s := play(t)
	s.ask(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}})
	s.server = s.accept()
	s.back = pgproto3.NewBackend(s.server, s.server)
	_, err := s.back.ReceiveStartupMessage()
	require.NoError(t, err)
	s.say(&pgproto3.AuthenticationCleartextPassword{})
	s.said(&pgproto3.AuthenticationCleartextPassword{})
	s.ask(&pgproto3.PasswordMessage{Password: "secret"})
	s.asked(&pgproto3.PasswordMessage{Password: "secret"})
	fatal := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "no"}
	s.say(fatal)
	s.server.Close()
	got, err := s.front.Receive()
	require.NoError(t, err)
	require.Equal(t, "28P01", got.(*pgproto3.ErrorResponse).Code)
	cutOff(t, s.client)
}

func TestCancelRequestsPassUnlessTheStatementIsBeingInjured(t *testing.T) {
	s := play(t).greet()
	cancel := &pgproto3.CancelRequest{ProcessID: testKey.ProcessID, SecretKey: testKey.SecretKey}
	first := s.dial()
	require.NoError(t, send(first, cancel))
	server := s.accept()
	got, err := pgproto3.NewBackend(server, server).ReceiveStartupMessage()
	require.NoError(t, err)
	require.Equal(t, cancel, got)
	server.Close()
	cutOff(t, first)

	shot := s.proxy.Arm("a", LateDone, 1)
	s.ask(query("-- name: a\nSELECT 1"))
	s.wait(shot)
	cutOff(t, s.client)
	second := s.dial()
	require.NoError(t, send(second, cancel))
	cutOff(t, second) // and no accept: a new client is the next to arrive

	s.client = s.dial()
	s.front = pgproto3.NewFrontend(s.client, s.client)
	s.greet()
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	s := play(t).greet()
	refuse := s.proxy.Arm("b", Refuse40001, 1)
	a, b, c := query("-- name: a\nSELECT 1"), query("-- name: b\nSELECT 2"), query("-- name: c\nSELECT 3")
	s.ask(a, b, c)
	s.asked(a)
	require.Zero(t, refuse.Fired(), "fired before its turn")
	s.say(done, idle)
	s.said(done, idle)
	s.refused("40001", 'I')
	s.asked(c)
	s.say(done, idle)
	s.said(done, idle)
	require.Equal(t, map[string]int{"a": 1, "c": 1}, s.proxy.Statements())

	s.proxy.Arm("b", DropBefore, 1)
	s.ask(a, b)
	s.asked(a)
	s.say(done, idle)
	s.said(done, idle)
	require.Zero(t, cutOff(t, s.client))
}

func TestPreparingIsNotInjuredAndABatchCountsForEachStatement(t *testing.T) {
	s := play(t).greet()
	shot := s.proxy.Arm("b", Ambiguous40003NotDone, 1)
	prepare := []pgproto3.FrontendMessage{
		&pgproto3.Parse{Name: "s1", Query: "-- name: a\nSELECT 1"}, &pgproto3.Describe{ObjectType: 'S', Name: "s1"},
		&pgproto3.Parse{Name: "s2", Query: "-- name: b\nSELECT 2"}, &pgproto3.Describe{ObjectType: 'S', Name: "s2"},
		&pgproto3.Sync{},
	}
	s.ask(prepare...)
	for range prepare {
		_, err := s.back.Receive()
		require.NoError(t, err)
	}
	s.say(&pgproto3.ParseComplete{}, &pgproto3.NoData{}, &pgproto3.ParseComplete{}, &pgproto3.NoData{}, idle)
	s.said(&pgproto3.ParseComplete{}, &pgproto3.NoData{}, &pgproto3.ParseComplete{}, &pgproto3.NoData{}, idle)
	require.Empty(t, s.proxy.Statements())

	batch := []pgproto3.FrontendMessage{
		&pgproto3.Bind{PreparedStatement: "s1"}, &pgproto3.Execute{},
		&pgproto3.Bind{PreparedStatement: "s2"}, &pgproto3.Execute{},
		&pgproto3.Bind{PreparedStatement: "s2"}, &pgproto3.Execute{},
		&pgproto3.Sync{},
	}
	s.ask(batch...)
	s.refused("40003", 'I')
	require.Equal(t, 1, shot.Fired())
	require.Empty(t, s.proxy.Statements())

	s.ask(batch...)
	for range batch {
		_, err := s.back.Receive()
		require.NoError(t, err)
	}
	s.say(done, done, done, idle)
	s.said(done, done, done, idle)
	require.Equal(t, map[string]int{"a": 1, "b": 2}, s.proxy.Statements())
}

func TestShotsFollowOneAnotherInOrder(t *testing.T) {
	s := play(t).greet()
	first := s.proxy.Arm("sql:insert", Refuse40001, 2)
	second := s.proxy.Arm("sql:insert", Ambiguous40003NotDone, 1)
	for _, code := range []string{"40001", "40001", "40003"} {
		s.ask(query("INSERT"))
		s.refused(code, 'I')
	}
	require.Equal(t, 2, first.Fired())
	require.Equal(t, 1, second.Fired())
	s.ask(query("INSERT"))
	s.asked(query("INSERT"))
	require.Equal(t, map[string]int{"sql:insert": 1}, s.proxy.Statements())
}

func TestAnErrorInABlockFailsTheDatabasesBlockToo(t *testing.T) {
	failed := &pgproto3.ReadyForQuery{TxStatus: 'E'}
	syntax := &pgproto3.ErrorResponse{Severity: "ERROR", Code: "42601", Message: "syntax error"}
	begin := func(t *testing.T) *script {
		s := play(t).greet()
		s.ask(query("begin"))
		s.asked(query("begin"))
		s.say(done, block)
		s.said(done, block)
		return s
	}
	for _, fault := range []Fault{Refuse40001, Ambiguous40003NotDone} {
		t.Run(fault.String(), func(t *testing.T) {
			code := map[Fault]string{Refuse40001: "40001", Ambiguous40003NotDone: "40003"}[fault]
			s := begin(t)
			s.proxy.Arm("sql:insert", fault, 1)
			s.ask(query("INSERT"))
			s.asked(query(failBlock))
			s.say(syntax, failed)
			s.refused(code, 'E')

			// A COMMIT that is not executed ends the block all the same.
			s = begin(t)
			s.proxy.Arm("sql:commit", fault, 1)
			s.ask(query("commit"))
			s.asked(query(endBlock))
			s.say(done, idle)
			s.refused(code, 'I')
		})
	}
	t.Run(Ambiguous40003Done.String(), func(t *testing.T) {
		s := begin(t)
		s.proxy.Arm("sql:insert", Ambiguous40003Done, 1)
		s.ask(query("INSERT"))
		s.asked(query("INSERT"))
		s.say(done, block)
		s.asked(query(failBlock))
		s.say(syntax, failed)
		s.refused("40003", 'E')
	})
}

func TestCopyAndFlushAreNotHeldBack(t *testing.T) {
	s := play(t).greet()
	s.ask(query("COPY t FROM STDIN"))
	s.asked(query("COPY t FROM STDIN"))
	s.say(&pgproto3.CopyInResponse{ColumnFormatCodes: []uint16{}})
	s.said(&pgproto3.CopyInResponse{ColumnFormatCodes: []uint16{}})
	s.ask(&pgproto3.CopyData{Data: []byte("row")})
	s.asked(&pgproto3.CopyData{Data: []byte("row")})
	s.ask(&pgproto3.CopyDone{})
	s.asked(&pgproto3.CopyDone{})
	s.say(done, idle)
	s.said(done, idle)

	parse := &pgproto3.Parse{Name: "s", Query: "-- name: a\nSELECT 1", ParameterOIDs: nil}
	s.ask(parse, &pgproto3.Bind{PreparedStatement: "s"}, &pgproto3.Execute{}, &pgproto3.Flush{})
	for range 4 {
		_, err := s.back.Receive()
		require.NoError(t, err)
	}
	s.say(&pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, done)
	s.said(&pgproto3.ParseComplete{}, &pgproto3.BindComplete{}, done)
	s.ask(&pgproto3.Sync{})
	s.asked(&pgproto3.Sync{})
	s.say(idle)
	s.said(idle)
	require.Equal(t, 1, s.proxy.Statements()["a"])
}

func TestStallsAndLateRequestsEndWithRelease(t *testing.T) {
	for _, fault := range []Fault{StallBefore, StallAfter, LateDone} {
		t.Run(fault.String(), func(t *testing.T) {
			s := play(t).greet()
			shot := s.proxy.Arm("sql:insert", fault, 1)
			s.ask(query("INSERT"))
			if fault == StallAfter {
				s.asked(query("INSERT"))
				s.say(done, idle)
			}
			s.wait(shot)
			released := make(chan struct{})
			go func() { defer close(released); shot.Release() }()
			if fault == LateDone {
				cutOff(t, s.client)
				s.asked(query("INSERT"))
				select {
				case <-released:
					t.Fatal("Release returned before the database had finished")
				default:
				}
				s.say(done, idle)
			}
			<-released
			require.Zero(t, cutOff(t, s.client), "a held reply reached the client")
			_, err := s.back.Receive()
			require.Error(t, err, "something was passed on, or the connection still lives")
			shot.Release()
		})
	}
}

func TestReleaseBeforeTheShotHoldsNothing(t *testing.T) {
	s := play(t).greet()
	shot := s.proxy.Arm("sql:insert", LateDone, 1)
	shot.Release()
	s.ask(query("INSERT"))
	cutOff(t, s.client)
	s.asked(query("INSERT"))
	s.say(done, idle)
	_, err := s.back.Receive()
	require.Error(t, err)
	require.Equal(t, 1, shot.Fired())
}

func TestCutAllEndsWhatAShotHolds(t *testing.T) {
	s := play(t).greet()
	shot := s.proxy.Arm("sql:insert", LateDone, 1)
	s.ask(query("INSERT"))
	s.wait(shot)
	s.proxy.CutAll()
	_, err := s.back.Receive()
	require.Error(t, err, "a request reached a database that is gone")
	require.Empty(t, s.proxy.Statements())
	shot.Release()
}

func TestWaitSaysWhatDidNotHappen(t *testing.T) {
	s := play(t)
	shot := s.proxy.Arm("begin", DropAfter, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	err := shot.Wait(ctx)
	require.ErrorIs(t, err, why)
	require.ErrorContains(t, err, "DropAfter fired 0 of 2 times at begin")
	require.NoError(t, s.proxy.Arm("begin", DropAfter, 0).Wait(t.Context()))
}

func TestMistakesAreRefused(t *testing.T) {
	_, err := Start("localhost")
	require.ErrorContains(t, err, "host:port")
	s := play(t)
	require.Panics(t, func() { s.proxy.Arm("begin", Fault(0), 1) })
	require.Panics(t, func() { s.proxy.URL("host=localhost port=5432") })
	require.NoError(t, s.proxy.Close())
	require.NoError(t, s.proxy.Close())
}

func TestURLKeepsEverythingButTheAddress(t *testing.T) {
	s := play(t)
	here := s.proxy.listener.Addr().String()
	require.Equal(t, "postgres://u:p%40@"+here+"/d?sslmode=disable",
		s.proxy.URL("postgres://u:p%40@db.example:26257/d?sslmode=disable"))
	require.Equal(t, "postgres://u@"+here+"/d?sslmode=disable",
		s.proxy.URL("postgres://u@/d?host=/tmp&port=1&sslmode=disable"))
}
