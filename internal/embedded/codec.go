package embedded

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/ledger"
	"github.com/homeward-io/homeward/payment/webhook"
)

// Stored times are whole microseconds, the resolution that the SQL store keeps,
// so that both stores judge every limit alike. The zero time is 0.

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// truncate cuts t to what micros keeps, for values that are returned as stored.
func truncate(t time.Time) time.Time { return fromMicros(micros(t)) }

func claimToProto(r *claim.Record) *storev1.Claim {
	m := &storev1.Claim{
		Operation:          r.Operation,
		FingerprintVersion: uint32(r.Fingerprint.Version),
		Fingerprint:        r.Fingerprint.Sum[:],
		State:              uint32(r.State),
		Fence:              r.Fence,
		Holder:             r.Holder,
		LeaseUntil:         micros(r.LeaseUntil),
		HeldSince:          micros(r.HeldSince),
		FirstUse:           micros(r.FirstUse),
		ObjectId:           r.Minted.ID,
		Created:            micros(r.Minted.Created),
		Receipt:            r.Minted.Receipt,
		Generation:         r.Generation,
		ProviderKey:        r.ProviderKey,
		Attempts:           r.Attempts,
		Unknowns:           r.Unknowns,
		NotFounds:          r.NotFounds,
		Reason:             r.Reason,
		ProviderRef:        r.ProviderRef,
		SettledAt:          micros(r.SettledAt),
	}
	if r.Verdict != uuid.Nil {
		m.Verdict = r.Verdict[:]
	}
	if r.Response != nil {
		m.Response = responseToProto(r.Response)
	}
	if r.Refusal != nil {
		m.Refusal, m.RefusedAt = responseToProto(&r.Refusal.Response), micros(r.Refusal.At)
	}
	return m
}

func responseToProto(r *claim.Response) *storev1.Response {
	m := &storev1.Response{Status: int32(r.Status), Body: r.Body, Blob: r.Blob}
	for _, h := range r.Header {
		m.Headers = append(m.Headers, &storev1.Header{Name: h.Name, Value: h.Value})
	}
	return m
}

func responseFromProto(m *storev1.Response) *claim.Response {
	r := &claim.Response{Status: int(m.Status), Body: m.Body, Blob: m.Blob}
	for _, h := range m.Headers {
		r.Header = append(r.Header, claim.HeaderField{Name: h.Name, Value: h.Value})
	}
	return r
}

func decodeClaim(home string, key claim.Key, value []byte) (*claim.Record, error) {
	var m storev1.Claim
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("claim of", key.Tenant, err)
	}
	r := &claim.Record{
		Key: key, Home: home, Operation: m.Operation,
		Fingerprint: claim.Fingerprint{Version: claim.FingerprintVersion(m.FingerprintVersion)},
		State:       claim.State(m.State), Fence: m.Fence, Holder: m.Holder,
		LeaseUntil: fromMicros(m.LeaseUntil), HeldSince: fromMicros(m.HeldSince), FirstUse: fromMicros(m.FirstUse),
		Minted:     claim.Minted{ID: m.ObjectId, Created: fromMicros(m.Created), Receipt: m.Receipt},
		Generation: m.Generation, ProviderKey: m.ProviderKey,
		Attempts: m.Attempts, Unknowns: m.Unknowns, NotFounds: m.NotFounds,
		Reason: m.Reason, ProviderRef: m.ProviderRef, SettledAt: fromMicros(m.SettledAt),
	}
	copy(r.Verdict[:], m.Verdict)
	if copy(r.Fingerprint.Sum[:], m.Fingerprint) != len(r.Fingerprint.Sum) {
		return nil, damaged("claim of", key.Tenant, fmt.Errorf("fingerprint of %d bytes", len(m.Fingerprint)))
	}
	if m.Response != nil {
		r.Response = responseFromProto(m.Response)
	}
	if m.Refusal != nil {
		r.Refusal = &claim.Refusal{Response: *responseFromProto(m.Refusal), At: fromMicros(m.RefusedAt)}
	}
	return r, nil
}

func messageToProto(m *outbox.Message) *storev1.Message {
	return &storev1.Message{
		Kind: string(m.Kind), Tenant: m.Tenant, Key: m.Key, Operation: m.Operation,
		Payload: m.Payload, TraceParent: m.TraceParent,
		CreatedAt: micros(m.CreatedAt), Due: micros(m.Due),
		Fence: m.Fence, Attempts: m.Attempts, LastError: m.LastError, Parked: m.Parked,
	}
}

func decodeMessage(region, id string, value []byte) (*outbox.Message, error) {
	var m storev1.Message
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("outbox row", id, err)
	}
	return &outbox.Message{
		ID: id, Region: region, Kind: outbox.Kind(m.Kind), Tenant: m.Tenant, Key: m.Key,
		Operation: m.Operation, Payload: m.Payload, TraceParent: m.TraceParent,
		CreatedAt: fromMicros(m.CreatedAt), Due: fromMicros(m.Due),
		Fence: m.Fence, Attempts: m.Attempts, LastError: m.LastError, Parked: m.Parked,
	}, nil
}

func auditToProto(e *claim.AuditEntry) *storev1.Audit {
	return &storev1.Audit{
		At: micros(e.At), Event: string(e.Event), Region: e.Region, Node: e.Node,
		Fence: e.Fence, Generation: e.Generation, Detail: e.Detail,
	}
}

func decodeAudit(key claim.Key, value []byte) (claim.AuditEntry, error) {
	var m storev1.Audit
	if err := proto.Unmarshal(value, &m); err != nil {
		return claim.AuditEntry{}, damaged("audit row of", key.Tenant, err)
	}
	return claim.AuditEntry{
		At: fromMicros(m.At), Event: claim.Event(m.Event), Region: m.Region, Node: m.Node,
		Fence: m.Fence, Generation: m.Generation, Detail: m.Detail,
	}, nil
}

func decodePin(key claim.Key, value []byte) (*claim.Pin, error) {
	var m storev1.Pin
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("pin of", key.Tenant, err)
	}
	return &claim.Pin{Key: key, Home: m.Home, CreatedAt: fromMicros(m.CreatedAt)}, nil
}

func tenantToProto(t *claim.Tenant) *storev1.Tenant {
	return &storev1.Tenant{
		Name: t.Name, Registrar: t.Registrar, PreviousRegistrar: t.PreviousRegistrar,
		RegistrarMovedAt: micros(t.RegistrarMovedAt), RatePerSecond: t.RatePerSecond, Burst: int64(t.Burst),
		CardNumbers: string(t.CardNumbers),
	}
}

func decodeTenant(id string, value []byte) (claim.Tenant, error) {
	var m storev1.Tenant
	if err := proto.Unmarshal(value, &m); err != nil {
		return claim.Tenant{}, damaged("tenant", id, err)
	}
	return claim.Tenant{
		ID: id, Name: m.Name, Registrar: m.Registrar, PreviousRegistrar: m.PreviousRegistrar,
		RegistrarMovedAt: fromMicros(m.RegistrarMovedAt), RatePerSecond: m.RatePerSecond, Burst: int(m.Burst),
		CardNumbers: claim.CardNumbers(m.CardNumbers),
	}, nil
}

func transactionToProto(t *ledger.Transaction) *storev1.Transaction {
	return &storev1.Transaction{
		Tenant: t.Tenant, Kind: string(t.Kind), Debit: string(t.Debit), Credit: string(t.Credit),
		Amount: t.Amount, Currency: t.Currency, Object: t.Object, Reverses: t.Reverses,
		Provider: t.Provider, ProviderRef: t.ProviderRef, At: micros(t.At),
	}
}

func decodeTransaction(region, id string, value []byte) (*ledger.Transaction, error) {
	var m storev1.Transaction
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("transaction", id, err)
	}
	return &ledger.Transaction{
		ID: id, Region: region, Tenant: m.Tenant, Kind: ledger.Kind(m.Kind),
		Debit: ledger.Account(m.Debit), Credit: ledger.Account(m.Credit),
		Amount: m.Amount, Currency: m.Currency, Object: m.Object, Reverses: m.Reverses,
		Provider: m.Provider, ProviderRef: m.ProviderRef, At: fromMicros(m.At),
	}, nil
}

func unpaidToProto(u *claim.Unpaid) *storev1.Unpaid {
	return &storev1.Unpaid{Tenant: u.Tenant, Operation: u.Operation, State: uint32(u.State), Reason: u.Reason, At: micros(u.At)}
}

func decodeUnpaid(home, object string, value []byte) (*claim.Unpaid, error) {
	var m storev1.Unpaid
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("unpaid", object, err)
	}
	return &claim.Unpaid{
		Object: object, Home: home, Tenant: m.Tenant, Operation: m.Operation,
		State: claim.State(m.State), Reason: m.Reason, At: fromMicros(m.At),
	}, nil
}

func noticeToProto(n *webhook.Notice) *storev1.Notice {
	return &storev1.Notice{
		Provider: n.Provider, Body: n.Body, ReceivedAt: micros(n.ReceivedAt), ProcessedAt: micros(n.ProcessedAt),
		Status: string(n.Status), Detail: n.Detail, TraceParent: n.TraceParent,
	}
}

func decodeNotice(region, id string, value []byte) (*webhook.Notice, error) {
	var m storev1.Notice
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("notice", id, err)
	}
	return &webhook.Notice{
		ID: id, Region: region, Provider: m.Provider, Body: m.Body,
		ReceivedAt: fromMicros(m.ReceivedAt), ProcessedAt: fromMicros(m.ProcessedAt),
		Status: webhook.Status(m.Status), Detail: m.Detail, TraceParent: m.TraceParent,
	}, nil
}

func endpointToProto(e *relay.Endpoint) *storev1.Endpoint {
	return &storev1.Endpoint{
		Url: e.URL, Secrets: e.Secrets, FailingSince: micros(e.FailingSince), DisabledAt: micros(e.DisabledAt),
	}
}

func decodeEndpoint(tenant string, value []byte) (relay.Endpoint, error) {
	var m storev1.Endpoint
	if err := proto.Unmarshal(value, &m); err != nil {
		return relay.Endpoint{}, damaged("endpoint", tenant, err)
	}
	return relay.Endpoint{
		Tenant: tenant, URL: m.Url, Secrets: m.Secrets,
		FailingSince: fromMicros(m.FailingSince), DisabledAt: fromMicros(m.DisabledAt),
	}, nil
}

// damaged reports a row that does not decode. It says nothing about the write
// that the caller wanted, hence unavailable.
func damaged(what, name string, err error) error {
	return fmt.Errorf("%w: %s %q does not decode (%v); restore the store directory from a backup", claim.ErrUnavailable, what, name, err)
}
