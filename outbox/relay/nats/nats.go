// Package nats is the sink that publishes events to a stream of NATS JetStream.
//
// An event's subject is prefix.tenant.type, "homeward.events.acme.charge.succeeded", so
// that a consumer can filter by tenant and by type; see [Subject]. Its payload is the
// event's JSON, and its Nats-Msg-Id the event's id. Within the stream's duplicate
// window the server keeps one message of each id: if an acknowledgement is lost, the
// sink publishes the event again under the same id, and the server acknowledges it as a
// duplicate without storing it twice. After the window it stores a repetition, so
// consumers must compare ids all the same.
//
// If the server is down or cannot be reached, or the stream is missing or has lost our
// subjects, events wait without using up their tries; [Sink.Waiting] says why. Charges
// never wait for it.
package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"

	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/outbox/relay/internal/pace"
)

// Defaults of [Config].
const (
	DefaultStream = "HOMEWARD_EVENTS"
	DefaultPrefix = "homeward.events"
	// DefaultDuplicates is how long a stream that Create makes remembers ids: longer
	// than the lease of a row whose worker died, and than its first nine retries
	// together. The server holds some 100 bytes for each event of that time.
	DefaultDuplicates = 10 * time.Minute
	// DefaultMaxAge is how long a stream that Create makes keeps events: a consumer
	// that was down over a long weekend misses nothing.
	DefaultMaxAge = 7 * 24 * time.Hour
	// DefaultTimeout bounds the wait for an acknowledgement. It takes milliseconds, and
	// seconds while a stream of several replicas elects a leader.
	DefaultTimeout = 5 * time.Second
)

const (
	// inHand bounds a node's concurrent publishes: a quarter of the worker's slots, and
	// 16,000 events per second at a millisecond each.
	inHand = 16
	// Pings detect a silently cut connection within half a minute.
	pingEvery, pingsOut = 10 * time.Second, 2
	// connectTime bounds one try to connect, TLS and all.
	connectTime = 3 * time.Second
	// recheckEvery is how often a stream that events wait for is looked at: where none
	// waits, nothing else would notice that it was mended.
	recheckEvery = 15 * time.Second
)

// Config is how to reach a stream. URL is required; zero values take the defaults.
type Config struct {
	// URL names one server or several, separated by commas: tls://host:4222, or nats://
	// for one on this machine, which may do without TLS. It may carry user:password@ or
	// token@.
	URL string
	// AllowPlaintext allows events and credentials to be sent to other machines
	// unencrypted, without proof of the server's identity. Default: refused.
	AllowPlaintext bool
	// Credentials is the path of a .creds file, "" for none.
	Credentials string
	// CAFile replaces the system's certificate authorities; CertFile and
	// KeyFile are our client certificate. "" for none.
	CAFile, CertFile, KeyFile string
	// Stream is the stream's name.
	Stream string
	// Prefix is what subjects begin with.
	Prefix string
	// Create makes the stream if it does not exist. An existing stream is never
	// changed. Without Create events wait for a missing stream.
	Create bool
	// Duplicates, MaxAge and Replicas apply to a stream that Create makes.
	// Default of Replicas: 1.
	Duplicates, MaxAge time.Duration
	Replicas           int
	// Timeout bounds the wait for one acknowledgement.
	Timeout time.Duration
	Logger  *slog.Logger
}

func (c *Config) complete() error {
	text := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	span := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	text(&c.Stream, DefaultStream)
	text(&c.Prefix, DefaultPrefix)
	span(&c.Duplicates, DefaultDuplicates)
	span(&c.MaxAge, DefaultMaxAge)
	span(&c.Timeout, DefaultTimeout)
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.URL == "":
		return errors.New("nats: no URL given; write tls://host:4222")
	case !c.AllowPlaintext && c.plaintext() != "":
		return fmt.Errorf("nats: events would go to %s without TLS, so anybody on the network path could read and forge them; write tls:// (and name the CA if it is your own), or set allow_plaintext if that is intended", c.plaintext())
	case strings.ContainsAny(c.Stream, ". *>/\\\t\r\n"):
		return fmt.Errorf("nats: %q cannot be the name of a stream; leave out dots, slashes, white space, * and >", c.Stream)
	case !isSubject(c.Prefix):
		return fmt.Errorf("nats: %q cannot be a prefix of subjects; write words of letters, digits, '-' and '_' with dots between them", c.Prefix)
	case c.Duplicates < 0 || c.MaxAge < c.Duplicates:
		return fmt.Errorf("nats: the duplicate window %v must be above 0 and at most the maximum age %v", c.Duplicates, c.MaxAge)
	case c.Timeout < 0 || c.Timeout > 30*time.Second:
		return fmt.Errorf("nats: the time-out must be above 0 and at most half the worker's lease, 30s, is %v", c.Timeout)
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("nats: a certificate needs its key; name both files or none")
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("nats: a stream has 1 to 5 replicas, not %d", c.Replicas)
	}
	return nil
}

// Validate returns a one-line error for settings that no server or file could
// make valid.
func (c Config) Validate() error { return c.complete() }

// CheckFiles reads the files that c names as [Open] does.
func (c Config) CheckFiles() error {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	read := natsgo.GetDefaultOptions()
	for _, option := range (&Sink{c: c}).options() {
		if err := option(&read); err != nil {
			return err
		}
	}
	if c.Credentials == "" {
		return nil
	}
	if _, err := read.UserJWT(); err != nil {
		return fmt.Errorf("nats: credentials %s: %w", c.Credentials, err)
	}
	if _, err := read.SignatureCB(nil); err != nil {
		return fmt.Errorf("nats: credentials %s: %w", c.Credentials, err)
	}
	return nil
}

// plaintext returns a server on another machine to which the client would connect
// without requiring TLS; "" if there is none. The client requires TLS at every server
// if one URL is tls://, or if there are certificate files.
func (c *Config) plaintext() (host string) {
	if c.CAFile != "" || c.CertFile != "" {
		return ""
	}
	for server := range strings.SplitSeq(c.URL, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server // as the client reads it
		}
		u, err := url.Parse(server)
		switch {
		case err != nil:
			continue // the client reports it
		case u.Scheme == "tls" || u.Scheme == "wss":
			return ""
		}
		if ip := net.ParseIP(u.Hostname()); host == "" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			host = u.Host
		}
	}
	return host
}

// Sink publishes events. It is safe for concurrent use.
type Sink struct {
	c    Config
	conn *natsgo.Conn
	js   jetstream.JetStream
	gate *pace.Gate
	// checked: the stream exists and takes our subjects.
	checked  atomic.Bool
	checking singleflight.Group

	mu     sync.Mutex
	why    string // the stream takes no events; "": it does
	again  *time.Timer
	closed bool
}

// unusableError is why the stream takes no events: nothing was sent.
type unusableError struct{ error }

func (e unusableError) Unwrap() error { return e.error }

// Open connects and checks the stream, or creates it. An unreachable server is not an
// error, and neither is a stream that is missing or not ours, as a node must take charges
// without them: the sink keeps reconnecting, and checks the stream while it has a
// connection. The error is one line that says what to do: settings that cannot work,
// refused credentials. ctx bounds the opening only. The caller closes the sink.
func Open(ctx context.Context, c Config) (*Sink, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	s := &Sink{c: c, gate: pace.NewGate(inHand)}
	// Only the first try reports why it failed.
	conn, err := natsgo.Connect(c.URL, s.options()...)
	if unreachable(err) {
		c.Logger.Warn("NATS cannot be reached; events wait until it can", "error", err)
		conn, err = natsgo.Connect(c.URL, append(s.options(), natsgo.RetryOnFailedConnect(true))...)
	}
	if err != nil {
		if unread := (*url.Error)(nil); errors.As(err, &unread) {
			err = errors.New("nats: the URL cannot be read; write nats://host:4222") // its text contains the password
		}
		return nil, fmt.Errorf("%w; check the URL, the credentials and the certificates", err)
	}
	s.conn = conn
	if s.js, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, err
	}
	if !conn.IsConnected() {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	_ = s.check(ctx) // logged; events wait
	return s, nil
}

// unreachable: a later try may succeed.
func unreachable(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, natsgo.ErrNoServers), errors.Is(err, natsgo.ErrTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, natsgo.ErrNoResponders), errors.Is(err, natsgo.ErrDisconnected), errors.Is(err, natsgo.ErrConnectionClosed),
		errors.Is(err, natsgo.ErrConnectionReconnecting), errors.Is(err, natsgo.ErrReconnectBufExceeded), errors.Is(err, natsgo.ErrStaleConnection):
		return true
	}
	var network interface{ Temporary() bool } // net.Error: refused, reset, no route, no such host for now
	return errors.As(err, &network)
}

func (s *Sink) options() []natsgo.Option {
	c := &s.c
	options := []natsgo.Option{
		natsgo.Name("homeward"), natsgo.Timeout(connectTime), natsgo.PingInterval(pingEvery), natsgo.MaxPingsOutstanding(pingsOut),
		natsgo.MaxReconnects(-1),
		// Refused credentials may be fixed later, without a restart.
		natsgo.IgnoreAuthErrorAbort(),
		// Nothing waits in memory for a connection: the row waits.
		natsgo.ReconnectBufSize(-1),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) {
			if err != nil {
				c.Logger.Warn("NATS connection lost; events wait until it is back", "error", err)
			}
		}),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { c.Logger.Info("NATS connected") }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { c.Logger.Warn("NATS", "error", err) }),
	}
	if c.Credentials != "" {
		options = append(options, natsgo.UserCredentials(c.Credentials))
	}
	if c.CAFile != "" {
		options = append(options, natsgo.RootCAs(c.CAFile))
	}
	if c.CertFile != "" {
		options = append(options, natsgo.ClientCert(c.CertFile, c.KeyFile))
	}
	return options
}

// Close closes the connection. The worker should be drained before.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed = true
	if s.again != nil {
		s.again.Stop()
	}
	s.mu.Unlock()
	s.conn.Close()
}

// Waiting returns why events wait, in one line; "" if the stream takes them, as far as is
// known.
func (s *Sink) Waiting() string {
	if !s.conn.IsConnected() {
		return "NATS cannot be reached"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// usable records how a check of the stream ended, and has another one follow a failure.
func (s *Sink) usable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.why
	if s.why = ""; err != nil {
		s.why = strings.Join(strings.Fields(err.Error()), " ")
	}
	switch {
	case s.why == "" && before != "":
		s.c.Logger.Info("the stream of events can be used again", "stream", s.c.Stream)
	case s.why != "" && before == "":
		s.c.Logger.Error("the stream of events cannot be used; events wait until it can", "stream", s.c.Stream, "error", s.why)
	}
	if s.why != "" && !s.closed {
		if s.again != nil {
			s.again.Stop()
		}
		s.again = time.AfterFunc(recheckEvery, s.recheck)
	}
}

func (s *Sink) recheck() {
	ctx, cancel := context.WithTimeout(context.Background(), s.c.Timeout)
	defer cancel()
	_ = s.check(ctx) // recorded
}

// check verifies, once, that the stream exists and that our subjects lead to it.
func (s *Sink) check(ctx context.Context) error {
	if s.checked.Load() {
		return nil
	}
	_, err, _ := s.checking.Do("", func() (any, error) {
		if s.checked.Load() {
			return nil, nil
		}
		err := s.checkStream(ctx)
		s.checked.Store(err == nil)
		s.usable(err)
		return nil, err
	})
	if err != nil {
		return unusableError{err}
	}
	return nil
}

func (s *Sink) checkStream(ctx context.Context) error {
	c := &s.c
	stream, err := s.js.Stream(ctx, c.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !c.Create {
			return fmt.Errorf("nats: there is no stream %s; create it with subjects %s.>, or set create", c.Stream, c.Prefix)
		}
		stream, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: c.Stream, Description: "What happened to charges, transfers and refunds.",
			Subjects: []string{c.Prefix + ".>"}, Storage: jetstream.FileStorage, Replicas: c.Replicas,
			MaxAge: c.MaxAge, Duplicates: c.Duplicates,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was faster, with other settings
			stream, err = s.js.Stream(ctx, c.Stream)
		}
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("%w; enable JetStream, or use another account", err)
	}
	if err != nil {
		return fmt.Errorf("nats: stream %s: %w", c.Stream, err)
	}
	if held := stream.CachedInfo().Config.Duplicates; held < c.Duplicates {
		c.Logger.Warn("the stream's duplicate window is short: an event that is repeated later is stored twice", "stream", c.Stream, "window", held, "advised", c.Duplicates)
	}
	name, err := s.js.StreamNameBySubject(ctx, Subject(c.Prefix, "tenant", "object.happened"))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), err == nil && name != c.Stream:
		return fmt.Errorf("nats: subjects %s.> do not belong to stream %s but to %q; add them to its subjects", c.Prefix, c.Stream, name)
	case err != nil:
		return fmt.Errorf("nats: stream %s: %w", c.Stream, err)
	}
	return nil
}

// Deliver implements [relay.Sink].
func (s *Sink) Deliver(ctx context.Context, e relay.Event) outbox.Disposition {
	if !s.conn.IsConnected() {
		return outbox.Later(s.gate.Postpone())
	}
	wait, ok := s.gate.Enter()
	if !ok {
		return outbox.Later(wait)
	}
	var err error
	var poison bool
	s.gate.Try(func() bool {
		err = s.publish(ctx, e)
		poison = isPoison(err)
		return err == nil || poison
	})
	switch {
	case err == nil:
		return outbox.Done()
	case poison:
		return outbox.Parked(fmt.Sprintf("NATS takes no event of this size, %d bytes; raise max_payload of the server or max_msg_size of the stream, then retry it", len(e.Payload)))
	case neverSent(err):
		return outbox.Later(s.gate.Postpone())
	case errors.Is(err, context.DeadlineExceeded):
		return outbox.Failed(fmt.Sprintf("no acknowledgement from NATS within %v: whether it has the event is unknown", s.c.Timeout))
	}
	return outbox.Failed(strings.Join(strings.Fields(err.Error()), " "))
}

func (s *Sink) publish(ctx context.Context, e relay.Event) error {
	ctx, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	if err := s.check(ctx); err != nil {
		return err
	}
	_, err := s.js.Publish(ctx, Subject(s.c.Prefix, e.Tenant, e.Type), e.Payload,
		jetstream.WithMsgID(e.ID), jetstream.WithExpectStream(s.c.Stream),
		jetstream.WithRetryAttempts(0)) // the worker's back-off is longer, and occupies no slot
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		s.checked.Store(false) // it may have been deleted
	}
	return err
}

// neverSent: the connection was lost before anything was written, or no stream took it.
func neverSent(err error) bool {
	if _, unusable := errors.AsType[unusableError](err); unusable || errors.Is(err, jetstream.ErrNoStreamResponse) {
		return true
	}
	return errors.Is(err, natsgo.ErrReconnectBufExceeded) || errors.Is(err, natsgo.ErrConnectionClosed) || errors.Is(err, natsgo.ErrConnectionReconnecting)
}

// isPoison: the server refuses the event itself.
func isPoison(err error) bool {
	return errors.Is(err, natsgo.ErrMaxPayload) || errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum)
}

// Subject returns the subject of an event: prefix.tenant.type. The tenant is one token,
// whatever it contains, and each part of the type between dots another; a byte that is
// not a letter, digit, '-' or '_' is written %XX.
func Subject(prefix, tenant, eventType string) string {
	var b strings.Builder
	b.WriteString(prefix)
	b.WriteByte('.')
	token(&b, tenant)
	for part := range strings.SplitSeq(eventType, ".") {
		b.WriteByte('.')
		token(&b, part)
	}
	return b.String()
}

// token writes s so that no two strings become the same token; "" becomes "%".
func token(b *strings.Builder, s string) {
	if s == "" {
		b.WriteByte('%')
	}
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(b, "%%%02X", c)
		}
	}
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// isSubject: words of plain characters with dots between them.
func isSubject(s string) bool {
	for word := range strings.SplitSeq(s, ".") {
		if word == "" {
			return false
		}
		for i := range len(word) {
			if !plain(word[i]) {
				return false
			}
		}
	}
	return true
}
