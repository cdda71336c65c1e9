package simulator

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/homeward-io/homeward/payment/psp"
)

// record is one outcome. A million records with their indexes take about 250 MB, so a
// record holds one string and no other pointers.
type record struct {
	text      string // provider key, kind letter, reference: both index keys are slices of it
	sum       [16]byte
	amount    int64
	at        int64 // ns since the Unix epoch
	currency  [currencyLen]byte
	keyLen    uint8 // 0: the call carried no key
	outcome   outcome
	duplicate bool // an effect beyond the first of its kind and reference
}

func (r *record) key() string       { return r.text[:r.keyLen] }
func (r *record) reference() string { return r.text[int(r.keyLen)+1:] }
func (r *record) kind() psp.Kind    { return kindOf(r.text[r.keyLen]) }

// Kind letters are part of the index key and never leave the process.
func letterOf(k psp.Kind) byte {
	switch k {
	case psp.KindTransfer:
		return 't'
	case psp.KindRefund:
		return 'r'
	default:
		return 'c'
	}
}

func kindOf(letter byte) psp.Kind {
	switch letter {
	case 't':
		return psp.KindTransfer
	case 'r':
		return psp.KindRefund
	default:
		return psp.KindCharge
	}
}

// chunkLen records are allocated at a time, so that growth copies nothing and
// no call pays for it.
const chunkLen = 4096

// book holds every outcome in order, with indexes. The owner locks it.
type book struct {
	chunks   []*[chunkLen]record
	n        int
	byKey    map[string]uint32    // provider key → record
	byRef    map[string]refRecord // kind letter and reference → records
	refunded map[uint32]int64     // charge → minor units refunded so far
	refundOf map[uint32]uint32    // refund, including declined ones → its charge
	failed   map[uint32]uint32    // movement → the record of its failure
	failure  map[uint32]uint32    // such a record → the movement
	unasked  map[uint32]occurrence
	acts     map[uint32]acted  // charge → its state after its last act
	actOf    map[uint32]uint32 // act → the charge
	manual   map[uint32]bool   // charges that are to be captured
}

// refRecord holds record numbers from 1; 0 is none.
type refRecord struct{ approved, last uint32 }

func newBook() book {
	return book{byKey: map[string]uint32{}, byRef: map[string]refRecord{}, refunded: map[uint32]int64{}, refundOf: map[uint32]uint32{}, failed: map[uint32]uint32{}, failure: map[uint32]uint32{},
		acts: map[uint32]acted{}, actOf: map[uint32]uint32{}, manual: map[uint32]bool{}, unasked: map[uint32]occurrence{}}
}

func (b *book) len() int         { return b.n }
func (b *book) at(i int) *record { return &b.chunks[i/chunkLen][i%chunkLen] }

func (b *book) find(key string) (int, bool) {
	if key == "" {
		return 0, false
	}
	i, ok := b.byKey[key]
	return int(i), ok
}

// findReference prefers the approval: a movement of money outweighs any number
// of declines before or after it.
func (b *book) findReference(kind psp.Kind, reference string) (int, bool) {
	r, ok := b.byRef[string(letterOf(kind))+reference]
	if !ok {
		return 0, false
	}
	if r.approved != 0 {
		return int(r.approved) - 1, true
	}
	return int(r.last) - 1, true
}

// add appends an outcome and returns its index.
func (b *book) add(call psp.Call, sum [16]byte, v outcome, at int64) int {
	i := b.n
	if i == len(b.chunks)*chunkLen {
		b.chunks = append(b.chunks, new([chunkLen]record))
	}
	b.n++
	r := b.at(i)
	*r = record{
		text:   call.Key + string(letterOf(call.Kind)) + call.Reference,
		sum:    sum,
		amount: call.Amount, at: at,
		currency: [currencyLen]byte([]byte(call.Currency)),
		keyLen:   uint8(len(call.Key)),
		outcome:  v,
	}
	if r.keyLen > 0 {
		b.byKey[r.key()] = uint32(i)
	}
	refText := r.text[r.keyLen:]
	if v == failedSince {
		b.fail(call, uint32(i), refText)
		return i
	}
	if v == happened {
		b.happen(call, uint32(i))
		return i
	}
	if n, ok := b.about(call); ok && v != invalidPaymentMethod {
		b.act(i, n, refText)
		return i
	}
	if call.Terms != nil && call.Terms.Manual || v == authorized {
		b.manual[uint32(i)] = true
	}
	c, refund := parseID(psp.KindCharge, call.Source)
	if refund = refund && call.Kind == psp.KindRefund; refund {
		b.refundOf[uint32(i)] = uint32(c)
	}
	ref := b.byRef[refText]
	ref.last = uint32(i) + 1
	if v == approved {
		r.duplicate = ref.approved != 0
		if ref.approved == 0 {
			ref.approved = ref.last
		}
		if refund {
			b.refunded[uint32(c)] += call.Amount
		}
	}
	b.byRef[refText] = ref
	return i
}

// fingerprint binds a key to its parameters. It includes lengths, so that no two calls
// hash the same bytes. 128 bits suffice for a test.
func fingerprint(c psp.Call) [16]byte {
	buf := make([]byte, 0, 256)
	for _, s := range [...]string{string(c.Kind), c.Reference, c.Currency, c.Source, c.Description} {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	buf = binary.AppendVarint(buf, c.Amount)
	if t := c.Terms; t != nil {
		buf = fmt.Appendf(buf, "%+v", *t) // maps are printed in order
	}
	buf = append(buf, c.Again...)
	full := sha256.Sum256(buf)
	return [16]byte(full[:16])
}

// Summary counts what happened at the provider. Everything but Calls is durable.
type Summary struct {
	// Effects is how many times money moved, refunds included.
	Effects int64 `json:"effects"`
	// Keys is how many distinct provider keys have an outcome, declines included.
	Keys int64 `json:"keys"`
	// DuplicateEffects is how many of Effects are beyond the first of their kind and
	// reference: it must be 0.
	DuplicateEffects int64 `json:"duplicate_effects"`
	// Refunds is how many of Effects are refunds.
	Refunds int64 `json:"refunds"`
	// Calls is how many POSTs to /v1/ arrived since this process started,
	// repeats and refused ones included.
	Calls int64 `json:"calls"`
}

// Stats is Summary and counters that help to explain it. Declines and Failures are
// durable; the rest counts since this process started.
type Stats struct {
	Summary
	// Declines is how many outcomes are declines.
	Declines int64 `json:"declines"`
	// Failures is how many of Effects have failed since; durable, too.
	Failures int64 `json:"failures"`
	// KeyReuses is how many calls were refused because their key had been used
	// with other parameters.
	KeyReuses int64 `json:"key_reuses"`
	// ErrorsBefore, ErrorsAfter and RepliesDropped count the faults injected.
	ErrorsBefore   int64 `json:"errors_before"`
	ErrorsAfter    int64 `json:"errors_after"`
	RepliesDropped int64 `json:"replies_dropped"`
	// LateEffects counts the calls that took effect after their caller had given up,
	// LatePending those that have yet to.
	LateEffects int64 `json:"late_effects"`
	LatePending int   `json:"late_pending"`
}

// Effect is one movement of money.
type Effect struct {
	// ProviderKey is empty for a call that carried none.
	ProviderKey string   `json:"provider_key"`
	Reference   string   `json:"reference"`
	Kind        psp.Kind `json:"kind"`
	// Amount is in minor units of Currency.
	Amount   int64     `json:"amount"`
	Currency string    `json:"currency"`
	At       time.Time `json:"at"`
}

// Summary returns the totals of everything durable.
func (s *Simulator) Summary() Summary { return s.Stats().Summary }

// Stats returns the totals of everything durable, and the counters.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	st := Stats{Summary: s.totals, Declines: s.declines, Failures: s.failures, KeyReuses: s.keyReuses, LateEffects: s.lateEffects, LatePending: len(s.late)}
	s.mu.Unlock()
	st.Calls = s.calls.Load()
	st.ErrorsBefore = s.errorsBefore.Load()
	st.ErrorsAfter = s.errorsAfter.Load()
	st.RepliesDropped = s.dropped.Load()
	return st
}

// Effects returns every durable movement of money in the order it was made. The
// caller owns the slice.
func (s *Simulator) Effects() []Effect {
	var all []Effect
	for i, more := 0, true; more; {
		all, i, more = s.effects(all, i)
	}
	return all
}

// effectsPage bounds how long a reader of effects blocks the calls.
const effectsPage = 1024

// effects appends the movements among a page of records from i on, and returns
// where the next page starts and whether there is one.
func (s *Simulator) effects(to []Effect, i int) (_ []Effect, next int, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := min(i+effectsPage, s.durable)
	for ; i < end; i++ {
		r := s.book.at(i)
		if r.outcome != approved {
			continue
		}
		to = append(to, Effect{
			ProviderKey: r.key(), Reference: r.reference(), Kind: r.kind(),
			Amount: r.amount, Currency: string(r.currency[:]), At: time.Unix(0, r.at).UTC(),
		})
	}
	return to, i, i < s.durable
}

// idPrefix starts the provider's own ids.
func idPrefix(k psp.Kind) string {
	switch k {
	case psp.KindTransfer:
		return "psp_tr_"
	case psp.KindRefund:
		return "psp_re_"
	default:
		return "psp_ch_"
	}
}

// formatID formats record i as the provider's id: its number from 1, in hex.
func formatID(k psp.Kind, i int) string { return fmt.Sprintf("%s%012x", idPrefix(k), i+1) }
