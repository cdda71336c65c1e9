package embedded

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/payment/notice"
)

// Values are messages of internal/proto/homeward/store/v1. They leave out what is in the row's
// key. For each, toX makes the message and fromX the value of the domain.

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

func toClaim(r *claim.Record, call *outbox.Message) *storev1.Claim {
	m := &storev1.Claim{
		Operation: r.Operation, FingerprintVersion: uint32(r.Fingerprint.Version), Fingerprint: r.Fingerprint.Sum[:],
		State: uint32(r.State), Fence: r.Fence, Holder: r.Holder,
		LeaseUntil: micros(r.LeaseUntil), HeldSince: micros(r.HeldSince), FirstUse: micros(r.FirstUse),
		ObjectId: r.Minted.ID, Created: micros(r.Minted.Created), Receipt: r.Minted.Receipt,
		Generation: r.Generation, ProviderKey: r.ProviderKey,
		Attempts: r.Attempts, Unknowns: r.Unknowns, NotFounds: r.NotFounds,
		Reason: r.Reason, ProviderRef: r.ProviderRef, Reverses: r.Reverses, SettledAt: micros(r.SettledAt), CanceledAt: micros(r.CanceledAt), Response: toResponse(r.Response),
	}
	if r.Verdict != uuid.Nil {
		m.Verdict = r.Verdict[:]
	}
	if r.Refusal != nil {
		m.Refusal, m.RefusedAt, m.RefusalPause = toResponse(&r.Refusal.Response), micros(r.Refusal.At), int64(r.Refusal.Pause)
	}
	if r.Interim != nil {
		m.Interim, m.InterimState, m.InterimBy = toResponse(&r.Interim.Response), r.Interim.State, r.Interim.By
	}
	if call != nil {
		m.Call = toMessage(call)
		m.Call.Kind, m.Call.Tenant, m.Call.Key, m.Call.Operation = "", "", "", "" // the claim's
	}
	return m
}

func fromClaim(home string, key claim.Key, m *storev1.Claim) (r *claim.Record, call *outbox.Message, err error) {
	r = &claim.Record{
		Key: key, Home: home, Operation: m.Operation, State: claim.State(m.State), Fence: m.Fence, Holder: m.Holder,
		LeaseUntil: fromMicros(m.LeaseUntil), HeldSince: fromMicros(m.HeldSince), FirstUse: fromMicros(m.FirstUse),
		Minted:     claim.Minted{ID: m.ObjectId, Created: fromMicros(m.Created), Receipt: m.Receipt},
		Generation: m.Generation, ProviderKey: m.ProviderKey,
		Attempts: m.Attempts, Unknowns: m.Unknowns, NotFounds: m.NotFounds,
		Reason: m.Reason, ProviderRef: m.ProviderRef, Reverses: m.Reverses, SettledAt: fromMicros(m.SettledAt), CanceledAt: fromMicros(m.CanceledAt), Response: fromResponse(m.Response),
	}
	r.Fingerprint.Version = claim.FingerprintVersion(m.FingerprintVersion)
	if copy(r.Fingerprint.Sum[:], m.Fingerprint) != len(r.Fingerprint.Sum) {
		return nil, nil, damaged([]byte(key.Tenant), fmt.Errorf("a claim's fingerprint has %d bytes", len(m.Fingerprint)))
	}
	copy(r.Verdict[:], m.Verdict)
	if m.Refusal != nil {
		r.Refusal = &claim.Refusal{Response: *fromResponse(m.Refusal), At: fromMicros(m.RefusedAt), Pause: time.Duration(m.RefusalPause)}
	}
	if m.Interim != nil {
		r.Interim = &claim.Interim{Response: *fromResponse(m.Interim), State: m.InterimState, By: m.InterimBy}
	}
	if m.Call != nil {
		call = fromMessage(home, m.ObjectId, m.Call)
		call.Kind, call.Tenant, call.Key, call.Operation = outbox.KindProviderCall, key.Tenant, key.Value, m.Operation
	}
	return r, call, nil
}

func toResponse(r *claim.Response) *storev1.Response {
	if r == nil {
		return nil
	}
	m := &storev1.Response{Status: int32(r.Status), Body: r.Body, Blob: r.Blob, ReplayFor: r.ReplayFor.Microseconds()}
	for _, h := range r.Header {
		m.Headers = append(m.Headers, &storev1.Header{Name: h.Name, Value: h.Value})
	}
	return m
}

func fromResponse(m *storev1.Response) *claim.Response {
	if m == nil {
		return nil
	}
	r := &claim.Response{Status: int(m.Status), Body: m.Body, Blob: m.Blob, ReplayFor: time.Duration(m.ReplayFor) * time.Microsecond}
	for _, h := range m.Headers {
		r.Header = append(r.Header, claim.HeaderField{Name: h.Name, Value: h.Value})
	}
	return r
}

func toMessage(m *outbox.Message) *storev1.Message {
	return &storev1.Message{
		Kind: string(m.Kind), Tenant: m.Tenant, Key: m.Key, Operation: m.Operation, Payload: m.Payload,
		TraceParent: m.TraceParent, CreatedAt: micros(m.CreatedAt), Due: micros(m.Due),
		Fence: m.Fence, Attempts: m.Attempts, LastError: m.LastError, Parked: m.Parked,
	}
}

func fromMessage(region, id string, m *storev1.Message) *outbox.Message {
	return &outbox.Message{
		ID: id, Region: region, Kind: outbox.Kind(m.Kind), Tenant: m.Tenant, Key: m.Key,
		Operation: m.Operation, Payload: m.Payload, TraceParent: m.TraceParent,
		CreatedAt: fromMicros(m.CreatedAt), Due: fromMicros(m.Due),
		Fence: m.Fence, Attempts: m.Attempts, LastError: m.LastError, Parked: m.Parked,
	}
}

func toAudit(e *claim.AuditEntry) *storev1.Audit {
	return &storev1.Audit{
		At: micros(e.At), Event: string(e.Event), Region: e.Region, Node: e.Node,
		Fence: e.Fence, Generation: e.Generation, Detail: e.Detail,
	}
}

func fromAudit(m *storev1.Audit) claim.AuditEntry {
	return claim.AuditEntry{
		At: fromMicros(m.At), Event: claim.Event(m.Event), Region: m.Region, Node: m.Node,
		Fence: m.Fence, Generation: m.Generation, Detail: m.Detail,
	}
}

func toTenant(t *claim.Tenant) *storev1.Tenant {
	return &storev1.Tenant{
		Name: t.Name, Registrar: t.Registrar, PreviousRegistrar: t.PreviousRegistrar,
		RegistrarMovedAt: micros(t.RegistrarMovedAt), RatePerSecond: t.RatePerSecond, Burst: int64(t.Burst),
		CardNumbers: string(t.CardNumbers), Routes: t.Routes,
	}
}

func fromTenant(id string, m *storev1.Tenant) claim.Tenant {
	return claim.Tenant{
		ID: id, Name: m.Name, Registrar: m.Registrar, PreviousRegistrar: m.PreviousRegistrar,
		RegistrarMovedAt: fromMicros(m.RegistrarMovedAt), RatePerSecond: m.RatePerSecond, Burst: int(m.Burst),
		CardNumbers: claim.CardNumbers(m.CardNumbers), Routes: m.Routes,
	}
}

func toTransaction(t *ledger.Transaction) *storev1.Transaction {
	return &storev1.Transaction{
		Tenant: t.Tenant, Kind: string(t.Kind), Debit: string(t.Debit), Credit: string(t.Credit),
		Amount: t.Amount, Currency: t.Currency, Object: t.Object, Reverses: t.Reverses,
		Provider: t.Provider, ProviderRef: t.ProviderRef, DecidedBy: t.By, DecidedWhy: t.Why, At: micros(t.At),
		Created: micros(t.Created), OrderId: t.Order, Metadata: t.Metadata,
	}
}

func fromTransaction(region, id string, m *storev1.Transaction) *ledger.Transaction {
	return &ledger.Transaction{
		ID: id, Region: region, Tenant: m.Tenant, Kind: ledger.Kind(m.Kind),
		Debit: ledger.Account(m.Debit), Credit: ledger.Account(m.Credit),
		Amount: m.Amount, Currency: m.Currency, Object: m.Object, Reverses: m.Reverses,
		Provider: m.Provider, ProviderRef: m.ProviderRef, By: m.DecidedBy, Why: m.DecidedWhy, At: fromMicros(m.At),
		Created: fromMicros(m.Created), Order: m.OrderId, Metadata: m.Metadata,
	}
}

func toUnpaid(u *claim.Unpaid) *storev1.Unpaid {
	return &storev1.Unpaid{Tenant: u.Tenant, Operation: u.Operation, State: uint32(u.State), Reason: u.Reason, At: micros(u.At)}
}

func fromUnpaid(home, object string, m *storev1.Unpaid) *claim.Unpaid {
	return &claim.Unpaid{
		Object: object, Home: home, Tenant: m.Tenant, Operation: m.Operation,
		State: claim.State(m.State), Reason: m.Reason, At: fromMicros(m.At),
	}
}

func toNotice(n *notice.Notice) *storev1.Notice {
	return &storev1.Notice{
		Provider: n.Provider, Body: n.Body, ReceivedAt: micros(n.ReceivedAt), ProcessedAt: micros(n.ProcessedAt),
		Status: string(n.Status), Detail: n.Detail, TraceParent: n.TraceParent,
	}
}

func fromNotice(region, id string, m *storev1.Notice) *notice.Notice {
	return &notice.Notice{
		ID: id, Region: region, Provider: m.Provider, Body: m.Body,
		ReceivedAt: fromMicros(m.ReceivedAt), ProcessedAt: fromMicros(m.ProcessedAt),
		Status: notice.Status(m.Status), Detail: m.Detail, TraceParent: m.TraceParent,
	}
}
