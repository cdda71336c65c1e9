package wireproxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

// conn is one client's connection and its connection to the database. One goroutine
// reads the client and injects faults (run), another reads the database (replies).
type conn struct {
	p      *Proxy
	client net.Conn
	gone   chan struct{} // closed by cut
	done   chan struct{} // closed when nothing of the connection is left

	// injured is set while a fault holds a request. Cancel requests are dropped then:
	// clients send one when they give up, and it would race with an execution that the
	// fault promises.
	injured   atomic.Bool
	cancelKey string // guarded by Proxy.mu

	backend  *pgproto3.Backend  // reads the client; used by run only
	frontend *pgproto3.Frontend // reads the database; used by run, then by replies only
	session  *session
	request  request

	mu       sync.Mutex
	database net.Conn // nil until dialled
	isGone   bool
	pending  int           // requests passed on and not answered
	quiet    chan struct{} // when not nil: closed once pending is 0
	withhold bool          // the database's messages do not reach the client
	rowsOnly bool          // but for those before the end of the rows
	block    byte          // transaction status of the last ReadyForQuery: I, T or E
}

// request is what the client has sent since the last Sync or simple query.
type request struct {
	wire     []byte
	executes []statement
}

func newConn(p *Proxy, client net.Conn) *conn {
	return &conn{
		p: p, client: client,
		gone: make(chan struct{}), done: make(chan struct{}),
		backend: pgproto3.NewBackend(client, client),
		session: newSession(),
	}
}

// errGone ends a connection without reporting it.
var errGone = errors.New("wireproxy: the connection has ended")

// cut closes both sides. It may be called from any goroutine, and twice.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone {
		return
	}
	c.isGone = true
	close(c.gone)
	_ = c.client.Close()
	if c.database != nil {
		_ = c.database.Close()
	}
}

// run lives as long as the connection. Both sides learn of every end by being
// cut, so its errors need no reader.
func (c *conn) run() {
	defer c.cut()
	if err := c.start(); err != nil {
		return
	}
	var replies sync.WaitGroup
	defer replies.Wait()
	defer c.cut() // before waiting: it ends replies
	replies.Go(c.replies)
	for {
		msg, err := c.backend.Receive()
		if err != nil || c.take(msg) != nil {
			return
		}
	}
}

// start passes everything on up to the first ReadyForQuery. Start-up is a
// dialogue, so one goroutine can read both sides in turn; that way it knows what
// kind of answer to read next.
func (c *conn) start() error {
	first, err := c.firstMessage()
	if err != nil {
		return err
	}
	if err := c.dial(); err != nil {
		return err
	}
	c.frontend = pgproto3.NewFrontend(c.database, c.database)
	if err := send(c.database, first); err != nil {
		return err
	}
	if _, ok := first.(*pgproto3.CancelRequest); ok {
		// The database answers by closing.
		_, err := c.database.Read(make([]byte, 1))
		return errors.Join(errGone, err)
	}
	for {
		msg, err := c.frontend.Receive()
		if err != nil {
			return err
		}
		ready, isReady := msg.(*pgproto3.ReadyForQuery)
		if isReady {
			// Before the client knows: it may send its first request at once.
			c.mu.Lock()
			c.block = ready.TxStatus
			c.mu.Unlock()
		}
		if key, ok := msg.(*pgproto3.BackendKeyData); ok {
			c.p.register(cancelKey(key.ProcessID, key.SecretKey), c)
		}
		if err := send(c.client, msg); err != nil {
			return err
		}
		if isReady {
			return nil
		}
		if err := c.authenticate(msg); err != nil {
			return err
		}
	}
}

// authenticate passes the client's answer to an authentication request on.
func (c *conn) authenticate(msg pgproto3.BackendMessage) error {
	switch msg.(type) {
	case *pgproto3.AuthenticationCleartextPassword, *pgproto3.AuthenticationMD5Password,
		*pgproto3.AuthenticationSASL, *pgproto3.AuthenticationSASLContinue,
		*pgproto3.AuthenticationGSS, *pgproto3.AuthenticationGSSContinue:
	default:
		return nil // no answer is due
	}
	if err := c.backend.SetAuthType(c.frontend.GetAuthType()); err != nil {
		return err
	}
	answer, err := c.backend.Receive()
	if err != nil {
		return err
	}
	return send(c.database, answer)
}

// firstMessage is the client's StartupMessage or CancelRequest.
func (c *conn) firstMessage() (pgproto3.FrontendMessage, error) {
	for {
		msg, err := c.backend.ReceiveStartupMessage()
		if err != nil {
			return nil, err
		}
		switch m := msg.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := c.client.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		case *pgproto3.CancelRequest:
			if c.p.beyondCancel(cancelKey(m.ProcessID, m.SecretKey)) {
				return nil, errGone
			}
			return m, nil
		default:
			return m, nil
		}
	}
}

func cancelKey(pid uint32, secret []byte) string {
	return string(append(binary.BigEndian.AppendUint32(nil, pid), secret...))
}

func (c *conn) dial() error {
	var dialer net.Dialer
	database, err := dialer.DialContext(c.p.life, "tcp", c.p.upstream)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone {
		_ = database.Close()
		return errGone
	}
	c.database = database
	return nil
}

type encoder interface {
	Encode(dst []byte) ([]byte, error)
}

func send(to io.Writer, msg encoder) error {
	wire, err := msg.Encode(nil)
	if err != nil {
		return err
	}
	_, err = to.Write(wire)
	return err
}

// take handles one message of the client's. An error ends the connection.
func (c *conn) take(msg pgproto3.FrontendMessage) error {
	wire, err := msg.Encode(c.request.wire)
	if err != nil {
		return err
	}
	c.request.wire = wire
	if st, ok := c.session.follow(msg); ok {
		c.request.executes = append(c.request.executes, st)
	}
	switch msg.(type) {
	case *pgproto3.Sync, *pgproto3.Query, *pgproto3.FunctionCall:
		r := c.request
		c.request = request{}
		if shot := c.p.aim(r.executes); shot != nil {
			return c.injure(shot, r)
		}
		return c.pass(r, false)
	case *pgproto3.Flush, *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.CopyFail:
		// The client waits, or the database does: nothing can be held back.
		r := c.request
		c.request = request{}
		c.p.count(r.executes)
		_, err := c.database.Write(r.wire)
		return err
	case *pgproto3.Terminate:
		_, err := c.database.Write(c.request.wire)
		return errors.Join(errGone, err)
	}
	return nil
}

// pass sends a request to the database. With withhold, the client sees nothing
// of the answer.
func (c *conn) pass(r request, withhold bool) error {
	c.p.count(r.executes)
	return c.ask(r.wire, withhold)
}

func (c *conn) ask(wire []byte, withhold bool) error {
	c.mu.Lock()
	c.pending++
	c.withhold = withhold
	c.mu.Unlock()
	_, err := c.database.Write(wire)
	return err
}

// answered waits until the database has answered everything that it was asked,
// and returns the transaction status.
func (c *conn) answered() (block byte, err error) {
	c.mu.Lock()
	if c.pending == 0 {
		defer c.mu.Unlock()
		return c.block, nil
	}
	quiet := make(chan struct{})
	c.quiet = quiet
	c.mu.Unlock()
	select {
	case <-quiet:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.block, nil
	case <-c.gone:
		return 0, errGone
	}
}

// replies passes the database's messages on to the client until one side ends.
func (c *conn) replies() {
	defer c.cut()
	var wire []byte
	for {
		msg, err := c.frontend.Receive()
		if err != nil {
			return
		}
		if c.reaches(msg) {
			if wire, err = msg.Encode(wire); err != nil {
				return
			}
		}
		// Written before the request counts as answered, so that an error of the
		// proxy's own cannot overtake it; and not more often than needed.
		ready, isReady := msg.(*pgproto3.ReadyForQuery)
		if len(wire) > 0 && (isReady || c.frontend.ReadBufferLen() == 0 || len(wire) > 1<<16) {
			if _, err := c.client.Write(wire); err != nil {
				return
			}
			wire = wire[:0]
		}
		if isReady {
			c.ready(ready.TxStatus)
		}
	}
}

// reaches reports whether a message of the database's is passed on to the client.
func (c *conn) reaches(msg pgproto3.BackendMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rowsOnly {
		switch msg.(type) {
		case *pgproto3.CommandComplete, *pgproto3.ReadyForQuery:
			return false
		}
		return true
	}
	return !c.withhold
}

func (c *conn) ready(block byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.block = block
	c.pending--
	if c.pending > 0 {
		return
	}
	c.withhold, c.rowsOnly = false, false
	if c.quiet != nil {
		close(c.quiet)
		c.quiet = nil
	}
}

// injure applies the shot to r. A nil error keeps the connection.
func (c *conn) injure(s *Shot, r request) error {
	// Replies to earlier requests reach the client first, and are not touched.
	if _, err := c.answered(); err != nil {
		return err
	}
	c.injured.Store(true)
	switch s.fault {
	case DropBefore:
		s.fire()
		return errGone
	case DropAfter:
		if _, err := c.finish(r); err != nil {
			return err
		}
		s.fire()
		return errGone
	case StallBefore:
		return c.stall(s)
	case StallAfter:
		if _, err := c.finish(r); err != nil {
			return err
		}
		return c.stall(s)
	case LateDone:
		return c.late(s, r)
	case RowsThenError:
		block, err := c.rowsThenRollback(r)
		if err != nil {
			return err
		}
		return c.refuse(s, "40001", "restart transaction", block)
	case Refuse40001:
		block, err := c.failInstead(r)
		if err != nil {
			return err
		}
		return c.refuse(s, "40001", "restart transaction", block)
	case Ambiguous40003NotDone:
		block, err := c.failInstead(r)
		if err != nil {
			return err
		}
		return c.refuse(s, "40003", "result is ambiguous", block)
	case Ambiguous40003Done:
		block, err := c.finish(r)
		if err == nil && block == 'T' {
			block, err = c.finish(simple(failBlock))
		}
		if err != nil {
			return err
		}
		return c.refuse(s, "40003", "result is ambiguous", block)
	}
	return fmt.Errorf("wireproxy: %s has no behaviour: add it to injure", s.fault)
}

// refuse answers a request with an error of the proxy's own.
func (c *conn) refuse(s *Shot, code, text string, block byte) error {
	reply, err := (&pgproto3.ErrorResponse{
		Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: text,
		Detail: fmt.Sprintf("injured by wireproxy: %s at %s", s.fault, s.statement),
	}).Encode(nil)
	if err != nil {
		return err
	}
	reply, err = (&pgproto3.ReadyForQuery{TxStatus: block}).Encode(reply)
	if err != nil {
		return err
	}
	s.fire()
	c.injured.Store(false)
	_, err = c.client.Write(reply)
	return err
}

// finish passes a request on and waits until the database has finished it.
func (c *conn) finish(r request) (block byte, err error) {
	if err := c.pass(r, true); err != nil {
		return 0, err
	}
	return c.answered()
}

// Statements of the proxy's own.
const (
	// Nothing but an error brings a block into the state of having had one.
	failBlock = "failed by wireproxy"
	endBlock  = "ROLLBACK"
	// A statement that has a block of its own is rolled back with it.
	beginBlock = "BEGIN"
)

func simple(sql string) request {
	wire, _ := (&pgproto3.Query{String: sql}).Encode(nil) // fails above 1 GiB only
	return request{wire: wire}
}

// failInstead puts the database's transaction block, if there is one, into the state
// that an error in r's place would have left.
func (c *conn) failInstead(r request) (block byte, err error) {
	block, err = c.answered()
	if err != nil || block == 'I' {
		return block, err
	}
	for _, st := range r.executes {
		if st.ends {
			return c.finish(simple(endBlock))
		}
	}
	if block == 'T' {
		return c.finish(simple(failBlock))
	}
	return block, nil
}

// rowsThenRollback passes a request on and its rows back, and has the database roll it back.
func (c *conn) rowsThenRollback(r request) (block byte, err error) {
	if block, err = c.answered(); err != nil || block != 'I' {
		return c.failInstead(r)
	}
	if _, err := c.finish(simple(beginBlock)); err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.rowsOnly = true
	c.mu.Unlock()
	if _, err := c.finish(r); err != nil {
		return 0, err
	}
	return c.finish(simple(endBlock))
}

// stall holds the client until it gives up, or the shot is released.
func (c *conn) stall(s *Shot) error {
	if !s.fireHolding(c) {
		return errGone
	}
	defer s.letGo(c)
	for {
		// More requests may come, pipelined; they share the fate of the first.
		msg, err := c.backend.Receive()
		if err != nil {
			return err
		}
		if _, ok := msg.(*pgproto3.Terminate); ok {
			return errGone
		}
	}
}

// late cuts the client off now and executes the request when released.
func (c *conn) late(s *Shot, r request) error {
	// From here on replies must not fail on the client's closed socket.
	c.mu.Lock()
	c.withhold = true
	c.mu.Unlock()
	if s.fireHolding(c) {
		defer s.letGo(c)
		_ = c.client.Close()
		select {
		case <-s.released:
		case <-c.gone:
			return errGone
		}
	} else {
		_ = c.client.Close()
	}
	if _, err := c.finish(r); err != nil {
		return err
	}
	return errGone
}
