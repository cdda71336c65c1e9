package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// Config is what [Open] needs. The zero value is a working simulator in memory.
type Config struct {
	// Dir holds the journal and is created if absent. Empty: memory only, and
	// everything is forgotten at Close.
	Dir string
	// Latency is how long every call takes, plus up to Jitter, uniformly. Both
	// are 0 to [MaxLatency] and can be changed later, see [Simulator.SetFaults].
	Latency, Jitter time.Duration
	// IgnoreParameters makes a key with changed parameters repeat its first
	// answer instead of being refused: a provider with psp.DedupeKey.
	IgnoreParameters bool
	// IgnoreKeys makes every call a new movement: a provider with psp.DedupeNone,
	// whatever its clients send.
	IgnoreKeys bool
	// NoLookup makes the provider answer no question about a reference, on either
	// API.
	NoLookup bool
	// Notices configures webhooks, see [Simulator.SetNotices]; nil keeps the
	// configuration stored in Dir.
	Notices *Notices
	// Dial opens the connections of webhooks; nil means the machine's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Now is the provider's clock; nil means time.Now. A test that advances it calls
	// [Simulator.Elapse].
	Now func() time.Time
	// Logger receives warnings; nil discards them.
	Logger *slog.Logger
}

// Simulator is a payment provider. All methods are safe for concurrent use.
type Simulator struct {
	now    func() time.Time
	logger *slog.Logger
	faults faultSource
	hooks  atomic.Pointer[Hooks]

	calls        atomic.Int64
	errorsBefore atomic.Int64
	errorsAfter  atomic.Int64
	dropped      atomic.Int64

	ignoreParameters bool
	ignoreKeys       bool
	noLookup         bool
	notices          *notifier
	journal          *journal // nil in memory

	mu        sync.Mutex
	book      book
	keyReuses int64
	durable   int // records [0, durable) are safe to answer and to count
	totals    Summary
	declines  int64
	failures  int64
	open      *batch // collects; nil in memory
	syncing   *batch // being written to disk; nil when idle
	failed    error  // sticky: the journal must not be appended to any more
	closed    bool

	late        map[int64]lateCall // calls in transit, by number
	lateLast    int64
	lateEffects int64
	lateRunning sync.WaitGroup
	captures    map[int]string // charge → the reference of the capture that moved it
	orders      map[int]adyenOrder
	due         []*dueAct // of payers and banks with scheduled acts

	wake      chan struct{} // capacity 1: the open batch has lines, or closed is set
	done      chan struct{} // the committer has ended; nil in memory
	closeOnce sync.Once
	closeErr  error
}

// batch is what one sync makes durable.
type batch struct {
	lines []byte
	end   int           // records [.., end) are covered
	done  chan struct{} // closed once err is decided
	err   error
}

func newBatch() *batch { return &batch{done: make(chan struct{})} }

var (
	errClosed   = errors.New("simulator: closed")
	errKeyReuse = errors.New("simulator: the key was used with other parameters")
)

// Open starts a simulator and reads back what Dir holds. It fails with a one-line error
// if Dir is in use, unreadable or damaged. The caller must Close.
func Open(cfg Config) (*Simulator, error) {
	s := &Simulator{
		now:              cfg.Now,
		logger:           cfg.Logger,
		ignoreParameters: cfg.IgnoreParameters,
		ignoreKeys:       cfg.IgnoreKeys,
		noLookup:         cfg.NoLookup,
		late:             map[int64]lateCall{},
		captures:         map[int]string{},
		orders:           map[int]adyenOrder{},
		book:             newBook(),
		wake:             make(chan struct{}, 1),
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if err := s.SetFaults(Faults{Latency: cfg.Latency, Jitter: cfg.Jitter}); err != nil {
		return nil, err
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: sendTimeout}).DialContext
	}
	s.notices = newNotifier(s, cfg.Dir, cfg.Dial)
	if cfg.Dir == "" {
		return s, s.resumeNotices(cfg.Notices)
	}
	j, err := openJournal(cfg.Dir, s.logger, s.restore)
	if err != nil {
		return nil, err
	}
	s.journal = j
	s.open = newBatch()
	s.done = make(chan struct{})
	go s.commit()
	if err := s.resumeNotices(cfg.Notices); err != nil {
		_ = s.Close() // the first error is the one to act on
		return nil, err
	}
	return s, nil
}

// restore loads one journal entry; it runs before any concurrency.
func (s *Simulator) restore(e entry) error {
	if e.N != s.book.len()+1 {
		return fmt.Errorf("entry %d follows entry %d", e.N, s.book.len())
	}
	v, err := parseOutcome(e.Verdict)
	if err != nil {
		return err
	}
	if e.Key != "" {
		if _, seen := s.book.byKey[e.Key]; seen {
			return fmt.Errorf("entry %d repeats the key of an earlier one", e.N)
		}
	}
	call := psp.Call{Kind: psp.Kind(e.Kind), Key: e.Key, Reference: e.Reference,
		Amount: e.Amount, Currency: e.Currency, Source: e.Source}
	if err := validate(call); err != nil {
		return err
	}
	if i, ok := parseID(call.Kind, call.Source); v == failedSince && (!ok || i >= s.book.len() || !s.book.isSettled(i)) {
		return fmt.Errorf("entry %d has a failure of %q, which has not succeeded before", e.N, call.Source)
	}
	if v == happened {
		if err := s.book.couldHappen(call); err != nil {
			return fmt.Errorf("entry %d: %w", e.N, err)
		}
	}
	i := s.book.add(call, e.Sum, v, e.At)
	s.arm(i, i, call.Source)
	s.count(s.book.len())
	return nil
}

// Close makes pending outcomes durable, stops, and releases Dir. Running calls are
// answered 503, and those of Faults.LateEffect that have not taken effect never do. It
// is idempotent: later calls return the first's result.
func (s *Simulator) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		for _, l := range s.late {
			l.timer.Stop()
		}
		clear(s.late)
		for _, d := range s.due {
			d.timer.Stop()
		}
		s.mu.Unlock()
		s.lateRunning.Wait()
		webhooks := s.notices.stop()
		if s.journal == nil {
			return
		}
		s.kick()
		<-s.done
		s.closeErr = errors.Join(webhooks, s.journal.close())
	})
	return s.closeErr
}

func (s *Simulator) kick() {
	select {
	case s.wake <- struct{}{}:
	default: // already awake, and will look again
	}
}

// decide returns the call's outcome: the one its key already has, or a new one. It
// returns once the outcome is durable. The context ends nothing here: money that moved
// has moved, whether or not anybody reads the reply.
func (s *Simulator) decide(call psp.Call) (record, int, error) {
	return s.decideAs(call, s.ignoreParameters)
}

// decideAs is decide; a key with changed parameters gets its first answer, or is refused.
func (s *Simulator) decideAs(call psp.Call, firstAnswer bool) (record, int, error) {
	if s.ignoreKeys {
		call.Key = ""
	}
	sum := fingerprint(call)
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return record{}, 0, err
	}
	i, seen := s.book.find(call.Key)
	if seen && s.book.at(i).sum != sum && !firstAnswer {
		s.keyReuses++
		s.mu.Unlock()
		return record{}, 0, errKeyReuse
	}
	if !seen {
		i = s.addLocked(call, sum, s.book.judge(call))
	}
	rec, waiting := *s.book.at(i), s.batchOf(i)
	s.mu.Unlock()
	if !seen && waiting != nil {
		s.kick()
	}
	return rec, i, waiting.wait()
}

// refusal returns why no call may be decided any more, nil while one may.
func (s *Simulator) refusal() error {
	if s.failed != nil {
		return s.failed
	}
	if s.closed {
		return errClosed
	}
	return nil
}

// batchOf returns the batch that will make record i durable, nil if it is.
func (s *Simulator) batchOf(i int) *batch {
	switch {
	case i < s.durable:
		return nil
	case s.syncing != nil && i < s.syncing.end:
		return s.syncing
	default:
		return s.open
	}
}

func (b *batch) wait() error {
	if b == nil {
		return nil
	}
	<-b.done
	return b.err
}

// lookup returns the record of a reference: the approval if there is one, else the last decline.
// found is false when there is neither.
func (s *Simulator) lookup(kind psp.Kind, reference string) (rec record, i int, found bool, err error) {
	s.mu.Lock()
	i, found = s.book.findReference(kind, reference)
	if !found {
		s.mu.Unlock()
		return record{}, 0, false, nil
	}
	if i >= s.durable && s.failed != nil {
		err = s.failed
		s.mu.Unlock()
		return record{}, 0, false, err
	}
	rec = *s.book.at(i)
	waiting := s.batchOf(i)
	s.mu.Unlock()
	return rec, i, true, waiting.wait()
}

// count adds records up to end to the totals. The caller holds mu, or it is not needed
// yet.
func (s *Simulator) count(end int) {
	for ; s.durable < end; s.durable++ {
		r := s.book.at(s.durable)
		if r.keyLen > 0 {
			s.totals.Keys++
		}
		if r.outcome == failedSince || r.outcome == happened {
			if r.outcome == failedSince {
				s.failures++
			}
			continue
		}
		if r.outcome != approved {
			if outcomes[r.outcome].Class > 0 && r.outcome != canceledCharge {
				s.declines++
			}
			continue
		}
		s.totals.Effects++
		if r.duplicate {
			s.totals.DuplicateEffects++
		}
		if r.kind() == psp.KindRefund {
			s.totals.Refunds++
		}
	}
	s.notices.kick()
}

// commit makes batches durable, one at a time, each holding the records that arrived
// while the previous one was being synced.
func (s *Simulator) commit() {
	defer close(s.done)
	for range s.wake {
		for {
			s.mu.Lock()
			b := s.open
			if len(b.lines) == 0 {
				closed := s.closed
				s.mu.Unlock()
				if closed {
					return
				}
				break
			}
			s.open, s.syncing = newBatch(), b
			err := s.failed
			s.mu.Unlock()

			if err == nil {
				err = s.journal.append(b.lines)
			}

			s.mu.Lock()
			s.syncing = nil
			if err == nil {
				s.count(b.end)
			} else if s.failed == nil {
				s.failed = err
				s.logger.Error("the simulator stops taking calls", "error", err)
			}
			b.err = err
			b.lines = nil
			s.mu.Unlock()
			close(b.done)
		}
	}
}
