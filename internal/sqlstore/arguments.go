package sqlstore

import (
	"github.com/google/uuid"

	"github.com/homeward-io/homeward/claim"
	"github.com/homeward-io/homeward/outbox"
)

// Arguments that several statements have. Those of one statement are where it is declared.
type (
	none     struct{}
	homeArgs struct{ Home string }
	// keyArgs find a claim, or the place of a key in a list, by its key.
	keyArgs struct {
		Home string
		keyRow
	}
	// objectArgs find a claim by its object.
	objectArgs struct{ Home, ObjectID string }
	// ownObjectArgs find a claim by its object and tenant.
	ownObjectArgs struct{ Home, TenantID, ObjectID string }
	// idArgs find any other row.
	idArgs struct{ Home, ID string }
	// pageArgs are the position before a page, which the statement does not return, and
	// the size of the page.
	pageArgs struct {
		After string
		Limit int64
	}
	homePageArgs struct {
		Home string
		pageArgs
	}
	keyPageArgs struct {
		keyArgs
		Limit int64
	}

	keyRow struct{ TenantID, IdemKey string }
	// mintedRow holds the minted values of a new claim.
	mintedRow struct {
		ObjectID, Operation, Receipt, ProviderKey, Reverses string
		FingerprintVersion                                  int16
		Fingerprint                                         []byte
	}
	// callRow is the provider call of a claim.
	callRow struct {
		Payload     []byte
		TraceParent string
		Fence       int64
	}
	// eventRow is an event for one sink.
	eventRow struct {
		ID, Kind    string
		Payload     []byte
		TraceParent string
	}
	// entryRow is an entry of audit. Each statement adds further columns.
	entryRow struct {
		ID            uuid.UUID
		Event, Detail string
	}
	// placedEntry has its region, too.
	placedEntry struct {
		entryRow
		Region, Node string
	}
)

func rowOf(key claim.Key) keyRow { return keyRow{TenantID: key.Tenant, IdemKey: key.Value} }

func keyIn(home string, key claim.Key) keyArgs { return keyArgs{home, rowOf(key)} }

func mintedOf(rec *claim.Record) mintedRow {
	return mintedRow{
		ObjectID: rec.Minted.ID, Operation: rec.Operation, Receipt: rec.Minted.Receipt, ProviderKey: rec.ProviderKey, Reverses: rec.Reverses,
		FingerprintVersion: int16(rec.Fingerprint.Version), Fingerprint: rec.Fingerprint.Sum[:],
	}
}

func callOf(m *outbox.Message) callRow {
	return callRow{Payload: notNil(m.Payload), TraceParent: m.TraceParent, Fence: int64(m.Fence)}
}

func eventOf(m *outbox.Message) eventRow {
	return eventRow{ID: m.ID, Kind: string(m.Kind), Payload: notNil(m.Payload), TraceParent: m.TraceParent}
}

// entryOf returns e under a new id.
func entryOf(id uuid.UUID, e *claim.AuditEntry) entryRow {
	return entryRow{ID: id, Event: string(e.Event), Detail: e.Detail}
}

func placedEntryOf(id uuid.UUID, e *claim.AuditEntry) placedEntry {
	return placedEntry{entryRow: entryOf(id, e), Region: e.Region, Node: e.Node}
}
