package embedded

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// The rows that each charge writes are encoded here, and the two that each replay reads
// are decoded, without intermediate messages, in a quarter of the time. The definitions
// in internal/proto assign the field numbers; a test compares the two.

func appendUint(b []byte, n protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func appendInt(b []byte, n protowire.Number, v int64) []byte { return appendUint(b, n, uint64(v)) }

func appendText[T ~string | ~[]byte](b []byte, n protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// appendNested starts a message within a message, which endNested ends.
func appendNested(b []byte, n protowire.Number) (_ []byte, from int) {
	b = protowire.AppendTag(b, n, protowire.BytesType)
	return b, len(b)
}

// endNested puts the length before what was appended from there on.
func endNested(b []byte, from int) []byte {
	var length [10]byte
	return slices.Insert(b, from, protowire.AppendVarint(length[:0], uint64(len(b)-from))...)
}

// appendClaim is a claim's row without its audit.
func appendClaim(b []byte, r *claim.Record) []byte {
	b = appendText(b, 1, r.Operation)
	b = appendUint(b, 2, uint64(r.Fingerprint.Version))
	b = appendText(b, 3, r.Fingerprint.Sum[:])
	b = appendUint(b, 4, uint64(r.State))
	b = appendUint(b, 5, r.Fence)
	b = appendText(b, 6, r.Holder)
	b = appendInt(b, 7, micros(r.LeaseUntil))
	b = appendInt(b, 8, micros(r.HeldSince))
	b = appendInt(b, 9, micros(r.FirstUse))
	b = appendText(b, 10, r.Minted.ID)
	b = appendInt(b, 11, micros(r.Minted.Created))
	b = appendText(b, 12, r.Minted.Receipt)
	b = appendUint(b, 13, uint64(r.Generation))
	b = appendText(b, 14, r.ProviderKey)
	b = appendUint(b, 15, uint64(r.Attempts))
	b = appendUint(b, 16, uint64(r.Unknowns))
	b = appendUint(b, 17, uint64(r.NotFounds))
	b = appendText(b, 18, r.Reason)
	b = appendText(b, 19, r.ProviderRef)
	b = appendInt(b, 20, micros(r.SettledAt))
	if r.Response != nil {
		b = appendResponse(b, 21, r.Response)
	}
	if r.Refusal != nil {
		b = appendResponse(b, 22, &r.Refusal.Response)
		b = appendInt(b, 23, micros(r.Refusal.At))
	}
	if r.Verdict != uuid.Nil {
		b = appendText(b, 24, r.Verdict[:])
	}
	if r.Refusal != nil {
		b = appendInt(b, 26, int64(r.Refusal.Pause))
	}
	if r.Interim != nil {
		b = appendResponse(b, 27, &r.Interim.Response)
		b = appendText(b, 28, r.Interim.State)
		if r.Interim.By != "" {
			b = appendText(b, 29, r.Interim.By)
		}
	}
	return b
}

func appendResponse(b []byte, n protowire.Number, r *claim.Response) []byte {
	b, from := appendNested(b, n)
	b = appendInt(b, 1, int64(r.Status))
	for _, h := range r.Header {
		var at int
		b, at = appendNested(b, 2)
		b = appendText(b, 1, h.Name)
		b = appendText(b, 2, h.Value)
		b = endNested(b, at)
	}
	b = appendText(b, 3, r.Body)
	b = appendText(b, 4, r.Blob)
	return endNested(b, from)
}

// claimAudit is the number of the audit in a claim's row.
const claimAudit = 25

// appendClaimAudit is one entry of a claim's row.
func appendClaimAudit(b []byte, e *claim.AuditEntry, seq uint64) []byte {
	b, from := appendNested(b, claimAudit)
	return endNested(appendAuditEntry(b, e, seq), from)
}

func appendAuditEntry(b []byte, e *claim.AuditEntry, seq uint64) []byte {
	b = appendInt(b, 1, micros(e.At))
	b = appendText(b, 2, e.Event)
	b = appendText(b, 3, e.Region)
	b = appendText(b, 4, e.Node)
	b = appendUint(b, 5, e.Fence)
	b = appendUint(b, 6, uint64(e.Generation))
	b = appendText(b, 7, e.Detail)
	return appendUint(b, 8, seq)
}

func encodeMessage(b []byte, m *outbox.Message) []byte {
	b = appendText(b, 1, m.Kind)
	b = appendText(b, 2, m.Tenant)
	b = appendText(b, 3, m.Key)
	b = appendText(b, 4, m.Operation)
	b = appendText(b, 5, m.Payload)
	b = appendText(b, 6, m.TraceParent)
	b = appendInt(b, 7, micros(m.CreatedAt))
	b = appendInt(b, 8, micros(m.Due))
	b = appendUint(b, 9, m.Fence)
	b = appendUint(b, 10, uint64(m.Attempts))
	b = appendText(b, 11, m.LastError)
	return appendUint(b, 12, bit(m.Parked))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func encodePin(b []byte, p *claim.Pin) []byte {
	return appendInt(appendText(b, 1, p.Home), 2, micros(p.CreatedAt))
}

// encodeTransaction is a row of the books; key is that of the claim whose object has its
// id, or "".
func encodeTransaction(b []byte, t *ledger.Transaction, key string) []byte {
	b = appendText(b, 1, t.Tenant)
	b = appendText(b, 2, t.Kind)
	b = appendText(b, 3, t.Debit)
	b = appendText(b, 4, t.Credit)
	b = appendInt(b, 5, t.Amount)
	b = appendText(b, 6, t.Currency)
	b = appendText(b, 7, t.Object)
	b = appendText(b, 8, t.Reverses)
	b = appendText(b, 9, t.Provider)
	b = appendText(b, 10, t.ProviderRef)
	b = appendInt(b, 11, micros(t.At))
	b = appendText(b, 12, key)
	b = appendText(b, 13, t.By)
	return appendText(b, 14, t.Why)
}

// bookedFor reads the key of the object from a row of the books, if it has one.
func bookedFor(value []byte) (claim.Key, bool, error) { return keyIn(value, 1, 12) }

// calledFor reads the key from a provider call's row.
func calledFor(value []byte) (claim.Key, bool, error) { return keyIn(value, 2, 3) }

// keyIn reads a key of two fields.
func keyIn(m []byte, tenant, value protowire.Number) (key claim.Key, found bool, err error) {
	err = readFields(m, func(f field) error {
		switch f.number {
		case tenant:
			key.Tenant = string(m[f.from:f.to])
		case value:
			key.Value = string(m[f.from:f.to])
		}
		return nil
	})
	return key, key.Tenant != "" && key.Value != "", err
}

// field is one field of a message. Either text or data is set, with n bytes of the
// message from at on.
type field struct {
	number protowire.Number
	value  uint64 // of a varint
	from   int    // of bytes, in the message
	to     int
}

var errCutShort = errors.New("it is truncated")

// readFields calls read for each field that is a varint or bytes, as all known ones
// are; a later build may have others.
func readFields(m []byte, read func(f field) error) error {
	for at := 0; at < len(m); {
		number, kind, n := protowire.ConsumeTag(m[at:])
		if n < 0 {
			return errCutShort
		}
		at += n
		f := field{number: number}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(m[at:])
		case protowire.BytesType:
			var bytes []byte
			bytes, n = protowire.ConsumeBytes(m[at:])
			f.from, f.to = at+n-len(bytes), at+n
		default:
			n = protowire.ConsumeFieldValue(number, kind, m[at:])
			f.number = 0
		}
		if n < 0 {
			return errCutShort
		}
		at += n
		if err := read(f); err != nil {
			return err
		}
	}
	return nil
}

// claimRow is what decodeClaim makes of a row, in one piece.
type claimRow struct {
	claim.Record
	response claim.Response
	header   [2]claim.HeaderField // as many as most responses have
}

// decodeClaim decodes a claim's row. The audit stays encoded, for auditEntries, or for
// another row of this claim.
func decodeClaim(home string, key claim.Key, value []byte) (r *claim.Record, audit string, err error) {
	text := string(value) // once; the strings that are kept are parts of it
	row := &claimRow{Record: claim.Record{Key: key, Home: home}}
	r = &row.Record
	printed := false
	err = readFields(value, func(f field) error {
		part := text[f.from:f.to]
		switch f.number {
		case 1:
			r.Operation = part
		case 2:
			r.Fingerprint.Version = claim.FingerprintVersion(f.value)
		case 3:
			if copy(r.Fingerprint.Sum[:], part) != len(r.Fingerprint.Sum) {
				return fmt.Errorf("fingerprint of %d bytes", len(part))
			}
			printed = true
		case 4:
			r.State = claim.State(f.value)
		case 5:
			r.Fence = f.value
		case 6:
			r.Holder = part
		case 7:
			r.LeaseUntil = fromMicros(int64(f.value))
		case 8:
			r.HeldSince = fromMicros(int64(f.value))
		case 9:
			r.FirstUse = fromMicros(int64(f.value))
		case 10:
			r.Minted.ID = part
		case 11:
			r.Minted.Created = fromMicros(int64(f.value))
		case 12:
			r.Minted.Receipt = part
		case 13:
			r.Generation = uint32(f.value)
		case 14:
			r.ProviderKey = part
		case 15:
			r.Attempts = uint32(f.value)
		case 16:
			r.Unknowns = uint32(f.value)
		case 17:
			r.NotFounds = uint32(f.value)
		case 18:
			r.Reason = part
		case 19:
			r.ProviderRef = part
		case 20:
			r.SettledAt = fromMicros(int64(f.value))
		case 21:
			r.Response = &row.response
			return decodeResponse(r.Response, row.header[:0], part, value[f.from:f.to])
		case 22, 23, 26:
			if r.Refusal == nil {
				r.Refusal = &claim.Refusal{}
			}
			switch f.number {
			case 23:
				r.Refusal.At = fromMicros(int64(f.value))
			case 26:
				r.Refusal.Pause = time.Duration(f.value)
			default:
				return decodeResponse(&r.Refusal.Response, nil, part, value[f.from:f.to])
			}
		case 27, 28, 29:
			if r.Interim == nil {
				r.Interim = &claim.Interim{}
			}
			switch f.number {
			case 28:
				r.Interim.State = part
				return nil
			case 29:
				r.Interim.By = part
				return nil
			}
			return decodeResponse(&r.Interim.Response, nil, part, value[f.from:f.to])
		case 24:
			copy(r.Verdict[:], part)
		case claimAudit:
			if audit == "" { // they are the last of the row
				audit = text[f.from-headOf(f):]
			}
		}
		return nil
	})
	if err == nil && !printed {
		err = errors.New("no fingerprint")
	}
	if err != nil {
		return nil, "", damaged("claim of", key.Tenant, err)
	}
	return r, audit, nil
}

// headOf is how many bytes are before those of a field.
func headOf(f field) int {
	return protowire.SizeTag(f.number) + protowire.SizeVarint(uint64(f.to-f.from))
}

// decodeResponse decodes value, whose bytes are text's. Strings of r are parts of text.
// header is empty, and has room for the header's fields.
func decodeResponse(r *claim.Response, header []claim.HeaderField, text string, value []byte) error {
	return readFields(value, func(f field) error {
		switch f.number {
		case 1:
			r.Status = int(int32(f.value))
		case 2:
			var h claim.HeaderField
			line := text[f.from:f.to]
			err := readFields(value[f.from:f.to], func(f field) error {
				switch f.number {
				case 1:
					h.Name = line[f.from:f.to]
				case 2:
					h.Value = line[f.from:f.to]
				}
				return nil
			})
			header = append(header, h)
			r.Header = header
			return err
		case 3:
			r.Body = slices.Clone(value[f.from:f.to])
		case 4:
			r.Blob = text[f.from:f.to]
		}
		return nil
	})
}

func decodePin(key claim.Key, value []byte) (*claim.Pin, error) {
	p := &claim.Pin{Key: key}
	err := readFields(value, func(f field) error {
		switch f.number {
		case 1:
			p.Home = string(value[f.from:f.to])
		case 2:
			p.CreatedAt = fromMicros(int64(f.value))
		}
		return nil
	})
	if err != nil {
		return nil, damaged("pin of", key.Tenant, err)
	}
	return p, nil
}

// auditEntries splits the audit of a claim's row: each entry as its own row has it, with
// its sequence number.
func auditEntries(audit string, each func(seq uint64, value []byte) error) error {
	all := []byte(audit)
	return readFields(all, func(f field) error {
		if f.number != claimAudit {
			return nil
		}
		value, seq := all[f.from:f.to], uint64(0)
		err := readFields(value, func(f field) error {
			if f.number == 8 {
				seq = f.value
			}
			return nil
		})
		if err != nil {
			return err
		}
		return each(seq, value)
	})
}
