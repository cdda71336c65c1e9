package sqlstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/stretchr/testify/require"
)

// TestArraysAreAsPgxWritesThem: byte for byte, whatever is in them.
func TestArraysAreAsPgxWritesThem(t *testing.T) {
	theirs, ours := pgtype.NewMap(), pgtype.NewMap()
	bindArrays(ours)
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	for _, list := range []struct {
		oid    uint32
		values []any // of one type, the last one with all that may be special
	}{
		{pgtype.TextArrayOID, []any{pgtype.FlatArray[string]{}, pgtype.FlatArray[string]{"acme", "", "NULL", `{"a"}`, "ü"}}},
		{pgtype.ByteaArrayOID, []any{pgtype.FlatArray[[]byte]{}, pgtype.FlatArray[[]byte]{nil, {}, {0, 1, 255}, nil}}},
		{pgtype.BoolArrayOID, []any{pgtype.FlatArray[bool]{}, pgtype.FlatArray[bool]{true, false}}},
		{pgtype.Int2ArrayOID, []any{pgtype.FlatArray[int16]{}, pgtype.FlatArray[int16]{0, 1, -1 << 15}}},
		{pgtype.Int4ArrayOID, []any{pgtype.FlatArray[int32]{}, pgtype.FlatArray[int32]{0, 1, -1 << 31}}},
		{pgtype.Int8ArrayOID, []any{pgtype.FlatArray[int64]{}, pgtype.FlatArray[int64]{0, 1, -1 << 63}}},
		{pgtype.UUIDArrayOID, []any{pgtype.FlatArray[uuid.UUID]{}, pgtype.FlatArray[uuid.UUID]{uuid.Nil, uuid.New()}}},
		{pgtype.IntervalArrayOID, []any{pgtype.FlatArray[time.Duration]{}, pgtype.FlatArray[time.Duration]{0, 49 * time.Hour, -time.Second, 1500 * time.Nanosecond}}},
		{pgtype.TimestamptzArrayOID, []any{pgtype.FlatArray[time.Time]{}, pgtype.FlatArray[time.Time]{at, at.UTC(), {}, time.Unix(0, 0)}}},
		{pgtype.TimestamptzArrayOID, []any{pgtype.FlatArray[zeronull.Timestamptz]{}, pgtype.FlatArray[zeronull.Timestamptz]{zeronull.Timestamptz(at), {}}}},
		// Of another type than the statement's: left to pgx.
		{pgtype.Int8ArrayOID, []any{pgtype.FlatArray[int32]{1, -1}}},
	} {
		for _, value := range list.values {
			want, err := theirs.Encode(list.oid, pgtype.BinaryFormatCode, value, []byte("before"))
			require.NoError(t, err)
			got, err := ours.Encode(list.oid, pgtype.BinaryFormatCode, value, []byte("before"))
			require.NoError(t, err)
			require.Equal(t, want, got, "%T %v", value, value)
		}
	}
	for typ := range arrays {
		bound := false
		for _, plans := range wirePlans {
			for _, plan := range plans {
				bound = bound || plan.fits(arrays[typ](reflect.MakeSlice(reflect.SliceOf(typ), 0, 0), nil))
			}
		}
		require.True(t, bound, "%v is left to pgx", typ)
	}
}
