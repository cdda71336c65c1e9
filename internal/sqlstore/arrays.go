package sqlstore

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// Arguments of a statement for many claims are bound as arrays, some forty even for a
// single charge. pgx encodes an array by reading each element as an interface, and
// makes an error for each encoding that it tries: several hundred allocations. These
// types write the elements into the message as PostgreSQL's array_recv reads them.

// arrayCodec encodes arrays of Go's own types, and leaves all others to pgx.
type arrayCodec struct {
	*pgtype.ArrayCodec
	plans []wirePlan
}

// wirePlan is a plan for arrays of one type.
type wirePlan interface {
	pgtype.EncodePlan
	fits(value any) bool
}

// PlanEncode implements [pgtype.Codec].
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	for _, plan := range c.plans {
		if format == pgtype.BinaryFormatCode && plan.fits(value) {
			return plan
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// wireArray encodes [pgtype.FlatArray] of V in PostgreSQL's binary format. append writes an
// element with its length before it; false: it is NULL, and nothing was written.
type wireArray[V any] struct {
	element uint32 // OID
	append  func(buf []byte, v V) ([]byte, bool)
}

func (wireArray[V]) fits(value any) bool {
	_, ok := value.(pgtype.FlatArray[V])
	return ok
}

// Encode implements [pgtype.EncodePlan].
func (w wireArray[V]) Encode(value any, buf []byte) ([]byte, error) {
	list := value.(pgtype.FlatArray[V])
	be := binary.BigEndian
	buf = be.AppendUint32(buf, 1) // dimensions
	nulls := len(buf)
	buf = be.AppendUint32(buf, 0)
	buf = be.AppendUint32(buf, w.element)
	buf = be.AppendUint32(buf, uint32(len(list)))
	buf = be.AppendUint32(buf, 1) // the first one's index
	for _, v := range list {
		var there bool
		if buf, there = w.append(buf, v); !there {
			buf = be.AppendUint32(buf, 1<<32-1)
			be.PutUint32(buf[nulls:], 1)
		}
	}
	return buf, nil
}

// y2k is PostgreSQL's epoch, in microseconds of Unix time.
var y2k = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func appendMicros(buf []byte, t time.Time) []byte {
	buf = binary.BigEndian.AppendUint32(buf, 8)
	return binary.BigEndian.AppendUint64(buf, uint64(t.UnixMicro()-y2k))
}

// wirePlans maps the OIDs of arrays to plans.
var wirePlans = map[uint32][]wirePlan{
	pgtype.TextArrayOID: {wireArray[string]{pgtype.TextOID, func(buf []byte, v string) ([]byte, bool) {
		return append(binary.BigEndian.AppendUint32(buf, uint32(len(v))), v...), true
	}}},
	pgtype.ByteaArrayOID: {wireArray[[]byte]{pgtype.ByteaOID, func(buf, v []byte) ([]byte, bool) {
		if v == nil {
			return buf, false
		}
		return append(binary.BigEndian.AppendUint32(buf, uint32(len(v))), v...), true
	}}},
	pgtype.BoolArrayOID: {wireArray[bool]{pgtype.BoolOID, func(buf []byte, v bool) ([]byte, bool) {
		buf = append(binary.BigEndian.AppendUint32(buf, 1), 0)
		if v {
			buf[len(buf)-1] = 1
		}
		return buf, true
	}}},
	pgtype.Int2ArrayOID: {wireArray[int16]{pgtype.Int2OID, func(buf []byte, v int16) ([]byte, bool) {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(buf, 2), uint16(v)), true
	}}},
	pgtype.Int4ArrayOID: {wireArray[int32]{pgtype.Int4OID, func(buf []byte, v int32) ([]byte, bool) {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(buf, 4), uint32(v)), true
	}}},
	pgtype.Int8ArrayOID: {wireArray[int64]{pgtype.Int8OID, func(buf []byte, v int64) ([]byte, bool) {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(buf, 8), uint64(v)), true
	}}},
	pgtype.UUIDArrayOID: {wireArray[uuid.UUID]{pgtype.UUIDOID, func(buf []byte, v uuid.UUID) ([]byte, bool) {
		return append(binary.BigEndian.AppendUint32(buf, uint32(len(v))), v[:]...), true
	}}},
	pgtype.IntervalArrayOID: {wireArray[time.Duration]{pgtype.IntervalOID, func(buf []byte, v time.Duration) ([]byte, bool) {
		buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(buf, 16), uint64(v.Microseconds()))
		return binary.BigEndian.AppendUint64(buf, 0), true // days and months
	}}},
	pgtype.TimestamptzArrayOID: {
		wireArray[time.Time]{pgtype.TimestamptzOID, func(buf []byte, v time.Time) ([]byte, bool) { return appendMicros(buf, v), true }},
		wireArray[zeronull.Timestamptz]{pgtype.TimestamptzOID, func(buf []byte, v zeronull.Timestamptz) ([]byte, bool) {
			if time.Time(v).IsZero() {
				return buf, false
			}
			return appendMicros(buf, time.Time(v)), true
		}},
	},
}

// bindArrays makes a connection use these encodings.
func bindArrays(m *pgtype.Map) {
	for oid, plans := range wirePlans {
		t, known := m.TypeForOID(oid)
		if !known {
			continue
		}
		if codec, ok := t.Codec.(*pgtype.ArrayCodec); ok {
			m.RegisterType(&pgtype.Type{Name: t.Name, OID: oid, Codec: arrayCodec{codec, plans}})
		}
	}
}
