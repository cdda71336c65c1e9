package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/internal/problem"
)

// In shadow mode every request passes, as it streams, and what guarding would have come to is counted
// behind it. Of a request that a route guards the gateway keeps the body, as far as it would have
// read it, and a digest of the reply. Once the reply is whole it makes a claim under the key, with
// the operation "shadow", whose executor does nothing but answer with a [note] of this exchange. A
// later request of the key reads the first one's note from the claim, and compares.
//
// No caller waits for any of this, and no answer depends on it. A comparison that fails, or for which
// there is no room, is counted as not compared.
//
//	the process dies               the report lacks
//	while the request passes       this request
//	before its claim is durable    this request; the next of its key counts as the first
//	after that                     this request; the next of its key is compared with it
//
// The claim's key is a hash, and its fingerprint has a method that no request has, so that a gateway
// that guards takes none of these claims for one of its own.
const (
	modeGuard  = "guard"
	modeShadow = "shadow"

	shadow       = "shadow"
	shadowPrefix = "sh"
	// shadowBody is how much of a reply's body rules can look into, in bytes.
	shadowBody = 64 << 10
	// comparing is how many comparisons may be under way: a node's store takes more than as many at once.
	comparing = 128
	// compareTime bounds one: that of a request.
	compareTime = 90 * time.Second
)

// Shadow reports whether requests pass, and are only counted.
func (g *Gateway) Shadow() bool { return g != nil && g.c.Settings.Mode == modeShadow }

// Seen is a guarded request that passes in shadow mode, and what is seen of it.
type Seen struct {
	*Call
	// Request is to be passed in the place of the one that came.
	Request *http.Request

	began time.Time
	mu    sync.Mutex
	body  []byte // at most a byte more than the limit
	whole bool   // of the request
	reply answer // of its body the beginning
	long  bool   // the reply's body is more than that
	sum   hash.Hash
	ended time.Time // of the reply; zero: it is not whole
	away  bool      // nothing was sent
}

type seenKey struct{}

// Watch is r as it is to be passed.
func (c *Call) Watch(r *http.Request) *Seen {
	s := &Seen{Call: c, began: time.Now(), sum: sha256.New(), whole: r.ContentLength == 0}
	s.Request = r.WithContext(context.WithValue(r.Context(), seenKey{}, s))
	if r.ContentLength != 0 {
		s.Request.Body = &watchedRequest{r.Body, s}
	}
	return s
}

// watchedRequest keeps what is read of a request's body.
type watchedRequest struct {
	io.ReadCloser
	s *Seen
}

func (w *watchedRequest) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if room := int(w.s.BodyLimit()) + 1 - len(w.s.body); room > 0 {
		w.s.body = append(w.s.body, p[:min(n, room)]...)
	}
	w.s.whole = w.s.whole || errors.Is(err, io.EOF)
	return n, err
}

// watchedReply keeps what identifies a reply.
type watchedReply struct {
	io.ReadCloser
	s *Seen
}

func (w *watchedReply) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	_, _ = w.s.sum.Write(p[:n]) // a hash refuses no write
	if w.s.long = w.s.long || len(w.s.reply.body)+n > shadowBody; !w.s.long {
		w.s.reply.body = append(w.s.reply.body, p[:n]...)
	}
	if errors.Is(err, io.EOF) {
		w.s.ended = time.Now()
	}
	return n, err
}

// watching is what the upstream answered to r, which may be one that is seen.
func watching(r *http.Request, resp *http.Response, err error) {
	s, ok := r.Context().Value(seenKey{}).(*Seen)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		var op *net.OpError
		s.away = errors.As(err, &op) && op.Op == "dial"
		return
	}
	if s.reply.status, s.reply.header = resp.StatusCode, resp.Header.Clone(); resp.StatusCode >= 200 {
		resp.Body = &watchedReply{resp.Body, s}
	}
}

// Body is the request's body. refused says why guarding would not have taken it; whole is false if it
// was not read to its end, or nothing of it was sent, so that nothing can be said.
func (s *Seen) Body() (body []byte, whole bool, refused problem.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int64(len(s.body)) > s.BodyLimit() {
		return nil, true, problem.BodyTooLarge
	}
	return s.body, s.whole && !s.away, ""
}

// note is what the claim of a request that passed answers.
type note struct {
	Outcome string    `json:"outcome"`
	Status  int       `json:"status"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Reply   string    `json:"reply"` // its digest
	Part    bool      `json:"part"`  // the reply was cut off in its body
}

// answered is what the API answered, for the report.
func (n *note) answered() string {
	switch {
	case n.Status == 0:
		return "nothing"
	case n.Part:
		return strconv.Itoa(n.Status) + ", not whole"
	default:
		return strconv.Itoa(n.Status)
	}
}

func (s *Seen) note() note {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := note{Outcome: unclear, Status: s.reply.status, Began: s.began, Ended: s.ended, Reply: hex.EncodeToString(s.sum.Sum(nil))}
	if !s.ended.IsZero() {
		if s.long {
			s.reply.body = nil
		}
		n.Outcome, _ = meaning(&s.reply, s.Replies, profiles[s.Profile].Replies, replies)
	}
	if n.Ended.IsZero() {
		n.Ended, n.Part = time.Now(), n.Status != 0
	}
	return n
}

// Claim is the request of the claim that has the note of s, whose key would be value, and which the
// upstream got as sent.
func (s *Seen) Claim(tenant, sent, value string, body []byte) (claim.Request, error) {
	payload, err := json.Marshal(s.note())
	if err != nil {
		return claim.Request{}, err
	}
	r := s.Request
	canonical, _ := s.canonical(s.kind(r), body)
	sum := sha256.Sum256([]byte(value))
	return claim.Request{
		Key: claim.Key{Tenant: tenant, Value: shadow + ":" + hex.EncodeToString(sum[:])}, Operation: shadow, Payload: payload,
		Input: claim.FingerprintInput{
			Method: shadow + " " + r.Method, Path: cut(r.URL.EscapedPath()), Tenant: tenant, ContentType: cut(contentType(r)), Canonical: s.digest(r, sent, canonical),
		},
	}, nil
}

// noted is the outcome of a claim of shadow mode. What guarding would have released may come again.
func noted(payload []byte) claim.Outcome {
	reply := claim.Response{Status: http.StatusOK, Header: []claim.HeaderField{{Name: "Content-Type", Value: "application/json"}}, Body: payload}
	var n note
	if json.Unmarshal(payload, &n) == nil && n.Outcome == released {
		return &claim.Released{Response: reply, Reason: shadow}
	}
	return &claim.Done{Response: reply}
}

// Compared counts s by the answer of its claim.
func (s *Seen) Compared(key string, reply *claim.Reply) {
	var first note
	mine := s.note()
	if err := json.Unmarshal(reply.Response.Body, &first); err != nil {
		s.g.tally.add(func(c *Counts) { c.Uncompared++ }, "", false)
		return
	}
	if !reply.Replayed || first.Outcome == released {
		s.g.tally.add(func(c *Counts) { c.First++ }, "", false)
		return
	}
	again, other := first.Outcome == done && mine.Outcome == done, first.Reply != mine.Reply
	when, column, count := "after the first", "REPLAYED", func(c *Counts) { c.Replayed++ }
	if s.began.Before(first.Ended) {
		when, column, count = "while the first was under way", "JOINED", func(c *Counts) { c.Joined++ }
	}
	if first.Outcome == unclear {
		column, count = "HELD BACK", func(c *Counts) { c.HeldBack++ }
	}
	// The one whose reply was whole sooner made the claim: it need not be the one that came sooner.
	one, two := &first, &mine
	if two.Began.Before(one.Began) {
		one, two = two, one
	}
	text := fmt.Sprintf("%s, key %s: came again %s, %s later; the API answered %s, and then %s", s.at(two.Began), key, when, two.Began.Sub(one.Began).Round(time.Millisecond), one.answered(), two.answered())
	switch {
	case again && other:
		text += " with another body (" + column + ", DONE AGAIN)"
	case again:
		text += " with the same body (" + column + ")"
	default:
		text += " (" + column + ")"
	}
	s.g.tally.add(func(c *Counts) {
		count(c)
		if again && other {
			c.DoneAgain++
		}
	}, text, again && other)
}

// Refused counts s as one that guarding refuses.
func (s *Seen) Refused(key string, code problem.Code) {
	if key != "" { // else it has none that can be one
		key = ", key " + key
	}
	s.g.tally.add(func(c *Counts) { c.Refused++ }, fmt.Sprintf("%s%s: would be refused, %s (REFUSED)", s.at(s.began), key, code), false)
}

// Uncompared counts s as one about which nothing is known.
func (s *Seen) Uncompared() { s.g.tally.add(func(c *Counts) { c.Uncompared++ }, "", false) }

// Unkeyed takes s back: it has no key, and its route lets that pass.
func (s *Seen) Unkeyed() { s.g.tally.add(func(c *Counts) { c.Requests-- }, "", false) }

// at is where it was sent, and when one of its key was, without what may be secret.
func (s *Seen) at(began time.Time) string {
	return began.UTC().Format(time.TimeOnly) + "Z " + s.Request.Method + " " + cutTo(s.Request.URL.EscapedPath(), 120)
}

func cutTo(text string, n int) string { return text[:min(len(text), n)] }

// Later compares s, beside what serves callers. [Gateway.Settle] waits for it.
func (g *Gateway) Later(s *Seen, compare func(context.Context, *Seen)) {
	g.tally.add(func(c *Counts) { c.Requests++ }, "", false)
	select {
	case g.comparisons <- struct{}{}:
	default:
		s.Uncompared()
		return
	}
	go func() {
		defer func() { <-g.comparisons }()
		ctx, cancel := context.WithTimeout(context.Background(), compareTime)
		defer cancel()
		compare(ctx, s)
	}()
}

// Settle waits until no comparison is under way, or ctx ends. Meanwhile none begins.
func (g *Gateway) Settle(ctx context.Context) {
	for range cap(g.comparisons) {
		select {
		case g.comparisons <- struct{}{}:
			defer func() { <-g.comparisons }()
		case <-ctx.Done():
			return
		}
	}
}

// Counts are what shadow mode has found.
type Counts struct {
	// Requests are those that a route guards: the sum of all but DoneAgain, and of what is still being
	// compared. First came first under their key, or after one that guarding
	// would have released.
	Requests, First int
	// Replayed, Joined and HeldBack would not have been sent: they came after the first was answered, while
	// it was under way, or after it had no clear reply.
	Replayed, Joined, HeldBack int
	// Refused would have been refused, by what came before or by themselves.
	Refused int
	// DoneAgain are of Replayed and Joined those that the API did once more: it answered both with a yes,
	// and with another body.
	DoneAgain int
	// Uncompared are those about which nothing is known.
	Uncompared int
}

// Report is what shadow mode has found, with examples, those of DoneAgain first.
type Report struct {
	Counts
	Examples []string
}

// maxExamples are kept of each kind.
const maxExamples = 10

// tally counts. Each change gets a number.
type tally struct {
	mu           sync.Mutex
	counts       Counts
	worst, other []string
	changes      int
}

func (t *tally) add(count func(*Counts), example string, worst bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(&t.counts)
	t.changes++
	to := &t.other
	if worst {
		to = &t.worst
	}
	if example != "" && len(*to) < maxExamples {
		*to = append(*to, example)
	}
}

// Found is what was found since the last call with reset, and a number that is another one if that
// differs from an earlier call.
func (g *Gateway) Found(reset bool) (r Report, changes int) {
	t := &g.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	r, changes = Report{t.counts, slices.Concat(t.worst, t.other)}, t.changes
	if reset {
		t.counts, t.worst, t.other = Counts{}, nil, nil
	}
	return r, changes
}
