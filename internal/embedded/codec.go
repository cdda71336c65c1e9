package embedded

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/homeward-io/homeward/claim"
	storev1 "github.com/homeward-io/homeward/internal/gen/homeward/store/v1"
	"github.com/homeward-io/homeward/ledger"
	"github.com/homeward-io/homeward/outbox"
	"github.com/homeward-io/homeward/outbox/relay"
	"github.com/homeward-io/homeward/payment/notice"
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

func tenantToProto(t *claim.Tenant) *storev1.Tenant {
	return &storev1.Tenant{
		Name: t.Name, Registrar: t.Registrar, PreviousRegistrar: t.PreviousRegistrar,
		RegistrarMovedAt: micros(t.RegistrarMovedAt), RatePerSecond: t.RatePerSecond, Burst: int64(t.Burst),
		CardNumbers: string(t.CardNumbers), Routes: t.Routes,
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
		CardNumbers: claim.CardNumbers(m.CardNumbers), Routes: m.Routes,
	}, nil
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
		Provider: m.Provider, ProviderRef: m.ProviderRef, By: m.DecidedBy, Why: m.DecidedWhy, At: fromMicros(m.At),
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

func noticeToProto(n *notice.Notice) *storev1.Notice {
	return &storev1.Notice{
		Provider: n.Provider, Body: n.Body, ReceivedAt: micros(n.ReceivedAt), ProcessedAt: micros(n.ProcessedAt),
		Status: string(n.Status), Detail: n.Detail, TraceParent: n.TraceParent,
	}
}

func decodeNotice(region, id string, value []byte) (*notice.Notice, error) {
	var m storev1.Notice
	if err := proto.Unmarshal(value, &m); err != nil {
		return nil, damaged("notice", id, err)
	}
	return &notice.Notice{
		ID: id, Region: region, Provider: m.Provider, Body: m.Body,
		ReceivedAt: fromMicros(m.ReceivedAt), ProcessedAt: fromMicros(m.ProcessedAt),
		Status: notice.Status(m.Status), Detail: m.Detail, TraceParent: m.TraceParent,
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

// damaged reports a row that does not decode. The outcome of the caller's write is
// unknown, hence unavailable.
func damaged(what, name string, err error) error {
	return fmt.Errorf("%w: %s %q cannot be decoded (%v); restore the store directory from a backup", claim.ErrUnavailable, what, name, err)
}
