package embedded

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
)

// fill sets some of the fields of what v points to, at random. Text need not be UTF-8.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		switch v.Interface().(type) {
		case time.Time:
			if r.IntN(3) > 0 {
				v.Set(reflect.ValueOf(fromMicros(1 + r.Int64N(1<<60)>>r.IntN(60))))
			}
			return
		}
		for _, field := range v.Fields() {
			if r.IntN(4) > 0 {
				fill(r, field)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Slice:
		if n := r.IntN(300) >> r.IntN(8); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(r, v.Index(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.String:
		b := make([]byte, r.IntN(300)>>r.IntN(8))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		v.SetString(string(b))
	case reflect.Bool:
		v.SetBool(r.IntN(2) > 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(int32(r.Uint32() >> r.IntN(32))))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64() >> r.IntN(64) & (1<<v.Type().Bits() - 1))
	}
}

// TestWire holds what is encoded by hand against the definitions, both ways.
func TestWire(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	key := claim.Key{Tenant: "acme", Value: "k"}
	rows := 300
	if testing.Short() {
		rows = 40
	}
	for range rows {
		want := claim.Record{}
		fill(r, reflect.ValueOf(&want).Elem())
		want.Key, want.Home = key, "home"
		want.Fingerprint.Version = claim.FingerprintVersion(r.IntN(100))
		want.Verdict = uuid.UUID{}
		if r.IntN(2) > 0 {
			want.Verdict = uuid.New()
		}
		if want.Fingerprint.Sum == ([32]byte{}) {
			want.Fingerprint.Sum[3] = 1
		}
		m := protoClaim(&want)
		var entries []claim.AuditEntry
		row := appendClaim(nil, &want)
		for i := range r.IntN(4) {
			var e claim.AuditEntry
			fill(r, reflect.ValueOf(&e).Elem())
			entries = append(entries, e)
			row = appendClaimAudit(row, &e, uint64(100+i))
			m.Audit = append(m.Audit, protoAudit(&e, uint64(100+i)))
		}
		var read storev1.Claim
		require.NoError(t, proto.Unmarshal(row, &read))
		require.True(t, proto.Equal(m, &read), "%v\n%v", m, &read)

		m.Audit = nil // the audit is the last of the row, whatever its number
		whole, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(t, err)
		require.Equal(t, whole, row[:len(whole)])
		got, audit, err := decodeClaim("home", key, row)
		require.NoError(t, err)
		require.Equal(t, want, *got)
		var back []claim.AuditEntry
		require.NoError(t, auditEntries(audit, func(seq uint64, value []byte) error {
			require.EqualValues(t, 100+len(back), seq)
			e, err := decodeAudit(key, value)
			back = append(back, e)
			return err
		}))
		require.Equal(t, entries, back)
		for cut := range len(row) { // never a panic
			_, _, _ = decodeClaim("home", key, row[:cut])
		}

		var pin claim.Pin
		fill(r, reflect.ValueOf(&pin).Elem())
		pin.Key = key
		readPin, err := decodePin(key, encodePin(nil, &pin))
		require.NoError(t, err)
		require.Equal(t, pin, *readPin)
		bytes, err := proto.Marshal(&storev1.Pin{Home: pin.Home, CreatedAt: micros(pin.CreatedAt)})
		require.NoError(t, err)
		require.Equal(t, string(bytes), string(encodePin(nil, &pin)))

		var message outbox.Message
		fill(r, reflect.ValueOf(&message).Elem())
		readMessage, err := decodeMessage(message.Region, message.ID, encodeMessage(nil, &message))
		require.NoError(t, err)
		require.Equal(t, message, *readMessage)

		var booked ledger.Transaction
		fill(r, reflect.ValueOf(&booked).Elem())
		readBooked, err := decodeTransaction(booked.Region, booked.ID, encodeTransaction(nil, &booked, booked.Object))
		require.NoError(t, err)
		require.Equal(t, booked, *readBooked)
		var books storev1.Transaction
		require.NoError(t, proto.Unmarshal(encodeTransaction(nil, &booked, "k"), &books))
		require.Equal(t, "k", books.Key)
		owner, is, err := bookedFor(encodeTransaction(nil, &booked, "k"))
		require.NoError(t, err)
		require.Equal(t, booked.Tenant != "", is)
		require.Equal(t, claim.Key{Tenant: booked.Tenant, Value: "k"}, owner)
		owner, is, err = calledFor(encodeMessage(nil, &message))
		require.NoError(t, err)
		require.Equal(t, message.Tenant != "" && message.Key != "", is)
		require.Equal(t, claim.Key{Tenant: message.Tenant, Value: message.Key}, owner)
	}
}

// protoClaim and protoAudit are what the build before format 3 encoded with.
func protoClaim(r *claim.Record) *storev1.Claim {
	m := &storev1.Claim{
		Operation: r.Operation, FingerprintVersion: uint32(r.Fingerprint.Version), Fingerprint: r.Fingerprint.Sum[:],
		State: uint32(r.State), Fence: r.Fence, Holder: r.Holder,
		LeaseUntil: micros(r.LeaseUntil), HeldSince: micros(r.HeldSince), FirstUse: micros(r.FirstUse),
		ObjectId: r.Minted.ID, Created: micros(r.Minted.Created), Receipt: r.Minted.Receipt,
		Generation: r.Generation, ProviderKey: r.ProviderKey,
		Attempts: r.Attempts, Unknowns: r.Unknowns, NotFounds: r.NotFounds,
		Reason: r.Reason, ProviderRef: r.ProviderRef, SettledAt: micros(r.SettledAt),
	}
	if r.Verdict != uuid.Nil {
		m.Verdict = r.Verdict[:]
	}
	if r.Response != nil {
		m.Response = protoResponse(r.Response)
	}
	if r.Refusal != nil {
		m.Refusal, m.RefusedAt = protoResponse(&r.Refusal.Response), micros(r.Refusal.At)
		m.RefusalPause = int64(r.Refusal.Pause)
	}
	if r.Interim != nil {
		m.Interim, m.InterimState, m.InterimBy = protoResponse(&r.Interim.Response), r.Interim.State, r.Interim.By
	}
	return m
}

func protoResponse(r *claim.Response) *storev1.Response {
	m := &storev1.Response{Status: int32(r.Status), Body: r.Body, Blob: r.Blob}
	for _, h := range r.Header {
		m.Headers = append(m.Headers, &storev1.Header{Name: h.Name, Value: h.Value})
	}
	return m
}

func protoAudit(e *claim.AuditEntry, seq uint64) *storev1.Audit {
	return &storev1.Audit{
		At: micros(e.At), Event: string(e.Event), Region: e.Region, Node: e.Node,
		Fence: e.Fence, Generation: e.Generation, Detail: e.Detail, Seq: seq,
	}
}
