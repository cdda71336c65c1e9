package simulator

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Notices configures the provider's webhooks. Each target is sent one event per
// movement, signed anew at each try, until it answers 2xx; ids are the same however
// often it is sent. The zero value sends nothing.
type Notices struct {
	Targets []NoticeTarget
	// Delay, plus up to Jitter, passes between a movement and its event. Jitter
	// puts events out of order. Both are 0 to [MaxLate].
	Delay, Jitter time.Duration
	// Duplicate is the probability that an event is sent a second time, with a delay of
	// its own; Drop that it is never sent.
	Duplicate, Drop float64
	// RetryAfter is the pause after the first failed try, doubled up to a minute;
	// 0 means a second.
	RetryAfter time.Duration
	// Hold keeps events back until [Simulator.ReleaseNotices].
	Hold bool
	// Declines sends events about declines too.
	Declines bool
	// Seed restarts the sequence of draws, each time notices are set.
	Seed uint64
}

// NoticeTarget is a receiver of webhooks.
type NoticeTarget struct {
	// URL is absolute, http or https.
	URL string `json:"url"`
	// Secret signs: base64, with or without "whsec_", for the provider's own events;
	// any text for Stripe's, hexadecimal digits for Adyen's.
	Secret string `json:"secret"`
	// Stripe sends events in Stripe's shape, signed in Stripe's way, in place of
	// those of the package comment with Standard Webhooks signatures.
	Stripe bool `json:"stripe,omitempty"`
	// Adyen sends Adyen's events, which also report declined refunds, as nothing else
	// does.
	Adyen bool `json:"adyen,omitempty"`
}

// NoticeStats is the configuration and its results. The counters are those of this
// process.
type NoticeStats struct {
	Notices noticesWire `json:"webhooks"`
	// Sent is how many deliveries were answered 2xx, Failed how many tries were not,
	// Abandoned how many deliveries were given up after failing.
	Sent      int64 `json:"sent"`
	Failed    int64 `json:"failed"`
	Abandoned int64 `json:"abandoned"`
	// Dropped and Duplicated count the faults injected.
	Dropped    int64 `json:"dropped"`
	Duplicated int64 `json:"duplicated"`
	// Pending is how many deliveries are still to be made, Held how many of them wait
	// for a release.
	Pending int `json:"pending"`
	Held    int `json:"held"`
}

// noticesWire is Notices as JSON, on the wire and on disk.
type noticesWire struct {
	Targets    []NoticeTarget `json:"targets"`
	DelayMS    float64        `json:"delay_ms"`
	JitterMS   float64        `json:"jitter_ms"`
	Duplicate  float64        `json:"duplicate"`
	Drop       float64        `json:"drop"`
	RetryAfter float64        `json:"retry_after_ms"`
	Hold       bool           `json:"hold"`
	Declines   bool           `json:"declines"`
	Seed       uint64         `json:"seed"`
}

func (w Notices) wire() noticesWire {
	return noticesWire{w.Targets, milliseconds(w.Delay), milliseconds(w.Jitter), w.Duplicate, w.Drop,
		milliseconds(w.RetryAfter), w.Hold, w.Declines, w.Seed}
}

func (w noticesWire) notices() (Notices, error) {
	out := Notices{Targets: w.Targets, Duplicate: w.Duplicate, Drop: w.Drop, Hold: w.Hold, Declines: w.Declines, Seed: w.Seed}
	for _, m := range []struct {
		name string
		ms   float64
		to   *time.Duration
	}{{"delay_ms", w.DelayMS, &out.Delay}, {"jitter_ms", w.JitterMS, &out.Jitter}, {"retry_after_ms", w.RetryAfter, &out.RetryAfter}} {
		d, err := fromMilliseconds(m.name, m.ms, MaxLate)
		if err != nil {
			return Notices{}, fmt.Errorf("webhooks: %w", err)
		}
		*m.to = d
	}
	return out, nil
}

const (
	// maxTargets is more than a test needs.
	maxTargets = 16
	// sendingAtOnce bounds the deliveries under way.
	sendingAtOnce = 64
	// sendTimeout bounds one try: a receiver only has to store the body.
	sendTimeout  = 10 * time.Second
	firstRetry   = time.Second
	slowestRetry = time.Minute
	// triesPerDelivery give a receiver that is down three days to recover, as Stripe
	// does.
	triesPerDelivery = 3 * 24 * 60
	// saveEvery bounds how much a process that dies sends again.
	saveEvery = time.Second
	// stopGrace lets tries under way end, so that the next process need not repeat
	// them.
	stopGrace   = time.Second
	noticesName = "webhooks.json"
)

// signer signs and encodes events for a target.
type signer struct {
	NoticeTarget
	standard *standardwebhooks.Webhook // of the provider's own
	adyen    []byte                    // the key, of Adyen's
}

func (w Notices) signers() ([]signer, error) {
	if len(w.Targets) > maxTargets {
		return nil, fmt.Errorf("webhooks: %d targets: at most %d", len(w.Targets), maxTargets)
	}
	var out []signer
	for _, t := range w.Targets {
		u, err := url.Parse(t.URL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return nil, fmt.Errorf("webhooks: url %q: must be an absolute http or https URL", t.URL)
		}
		s := signer{NoticeTarget: t}
		if t.Secret == "" {
			return nil, fmt.Errorf("webhooks: the target %s has no secret", t.URL)
		}
		switch {
		case t.Stripe && t.Adyen:
			return nil, fmt.Errorf("webhooks: the target %s cannot have the events of both Stripe and Adyen", t.URL)
		case t.Adyen:
			if s.adyen, err = adyenKey(t.Secret); err != nil {
				return nil, fmt.Errorf("webhooks: the secret for %s is not hexadecimal", t.URL)
			}
		case !t.Stripe:
			if s.standard, err = standardwebhooks.NewWebhook(t.Secret); err != nil {
				return nil, fmt.Errorf("webhooks: the secret for %s is not base64", t.URL)
			}
		}
		out = append(out, s)
	}
	for name, d := range map[string]time.Duration{"delay": w.Delay, "jitter": w.Jitter, "retry after": w.RetryAfter} {
		if d < 0 || d > MaxLate {
			return nil, fmt.Errorf("webhooks: %s must be 0 to %s", name, MaxLate)
		}
	}
	for name, p := range map[string]float64{"duplicate": w.Duplicate, "drop": w.Drop} {
		if err := probability(name, p); err != nil {
			return nil, fmt.Errorf("webhooks: %w", err)
		}
	}
	return out, nil
}

// resumeNotices continues where an earlier process stopped, or as configured.
func (s *Simulator) resumeNotices(sent *Notices) error {
	n := s.notices
	if n.path != "" {
		raw, err := os.ReadFile(n.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return fmt.Errorf("simulator: read webhooks: %w", err)
		default:
			var saved savedNotices
			if err := decodeStrictly(bytes.NewReader(raw), &saved); err != nil || saved.Sent < 0 {
				return fmt.Errorf("simulator: %s is not readable: restore it from a copy, or move it away to send nothing", n.path)
			}
			w, err := saved.Notices.notices()
			if err != nil {
				return fmt.Errorf("simulator: %s: %w", n.path, err)
			}
			// A journal that was moved away starts its numbers again.
			if err := n.apply(w, min(saved.Sent, s.durable)); err != nil {
				return err
			}
		}
	}
	if sent != nil {
		return s.SetNotices(*sent)
	}
	return nil
}

// SetNotices replaces the configuration, restarts the draws from Seed, and, in a
// simulator with a Dir, stores it. If there was no target before, only movements from
// now on are reported; deliveries already due to a target keep their time and URL.
// Without targets due deliveries are dropped. It changes nothing if a member is out of
// range.
func (s *Simulator) SetNotices(w Notices) error {
	s.mu.Lock()
	from := s.durable
	s.mu.Unlock()
	return s.notices.apply(w, from)
}

// NoticeStats returns the configuration and its results.
func (s *Simulator) NoticeStats() NoticeStats {
	n := s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.stats
	st.Notices = n.set.wire()
	st.Held = len(n.held)
	for _, open := range n.open {
		st.Pending += open
	}
	return st
}

// Orders in which held events are released: as the movements were made, the last
// first, or at random.
const (
	ReleaseInOrder  = "in_order"
	ReleaseReversed = "reversed"
	ReleaseShuffled = "shuffled"
)

// ReleaseNotices sends the events that are held now, one after the other in the given
// order, and returns their number. Hold keeps applying to later events.
func (s *Simulator) ReleaseNotices(order string) (int, error) {
	if order == "" {
		order = ReleaseInOrder
	}
	if !slices.Contains([]string{ReleaseInOrder, ReleaseReversed, ReleaseShuffled}, order) {
		return 0, fmt.Errorf("simulator: order %q: use %s, %s or %s", order, ReleaseInOrder, ReleaseReversed, ReleaseShuffled)
	}
	s.notices.look()
	n := s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.releaseLocked(order), nil
}

// DiscardNotices drops the events that are held now, and returns their number.
func (s *Simulator) DiscardNotices() int {
	n := s.notices
	n.look()
	n.mu.Lock()
	defer n.mu.Unlock()
	held := n.held
	n.held = nil
	for _, d := range held {
		n.stats.Dropped++
		n.doneLocked(d.record)
	}
	return len(held)
}

func (s *Simulator) serveSetNotices(w http.ResponseWriter, r *http.Request) {
	var wire noticesWire
	status, err := readJSON(w, r, &wire)
	if err == nil {
		var set Notices
		if set, err = wire.notices(); err == nil {
			err = s.SetNotices(set)
		}
	}
	if err != nil {
		refuse(w, status, "invalid", "invalid_request", err.Error())
		return
	}
	write(w, http.StatusOK, s.NoticeStats())
}

func (s *Simulator) serveRelease(w http.ResponseWriter, r *http.Request) {
	count, err := s.ReleaseNotices(r.URL.Query().Get("order"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid", "invalid_request", err.Error())
		return
	}
	write(w, http.StatusOK, released{count})
}
