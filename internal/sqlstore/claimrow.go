package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/homeward-io/homeward/claim"
)

// claimRow is one row of claims, as find lists it. All of it may be NULL: then there
// is no row.
type claimRow struct {
	step   uuid.UUID
	record claim.Record

	rawStep                                                 *uuid.UUID
	object, operation, holder, receipt, providerKey, reason zeronull.Text
	providerRef, reverses                                   zeronull.Text
	version, state                                          zeronull.Int2
	generation, attempts, unknowns, notFounds               zeronull.Int4
	fence                                                   zeronull.Int8
	lease, held, first, created, settled, refused, canceled zeronull.Timestamptz
	print, refusal, interim                                 []byte

	// The response of a final claim.
	answerStatus             zeronull.Int2
	answerHeader, answerBody []byte
	answerBlob               zeronull.Text
	answerReplayFor          zeronull.Int8 // microseconds
}

func (r *claimRow) targets() []any {
	return append(r.row(), &r.answerStatus, &r.answerHeader, &r.answerBody, &r.answerBlob, &r.answerReplayFor)
}

// row returns the scan targets without the response's.
func (r *claimRow) row() []any {
	return []any{
		&r.rawStep, &r.object, &r.operation, &r.version, &r.print, &r.state, &r.fence, &r.holder,
		&r.lease, &r.held, &r.first, &r.created, &r.receipt, &r.generation, &r.providerKey,
		&r.attempts, &r.unknowns, &r.notFounds, &r.reason, &r.providerRef, &r.settled, &r.refused, &r.refusal, &r.interim, &r.canceled, &r.reverses,
	}
}

func (r *claimRow) present() bool { return r.rawStep != nil }

// readRow builds the record of key at home, without its response, from the columns.
func (r *claimRow) readRow(key claim.Key, home string) error {
	r.step = *r.rawStep
	r.record = claim.Record{
		Key: key, Home: home, Operation: string(r.operation),
		Fingerprint: claim.Fingerprint{Version: claim.FingerprintVersion(r.version)},
		State:       claim.State(r.state), Fence: uint64(r.fence), Holder: string(r.holder),
		LeaseUntil: time.Time(r.lease).UTC(), HeldSince: time.Time(r.held).UTC(), FirstUse: time.Time(r.first).UTC(),
		Minted:     claim.Minted{ID: string(r.object), Created: time.Time(r.created).UTC(), Receipt: string(r.receipt)},
		Generation: uint32(r.generation), ProviderKey: string(r.providerKey), Attempts: uint32(r.attempts),
		Unknowns: uint32(r.unknowns), NotFounds: uint32(r.notFounds), Reason: string(r.reason),
		ProviderRef: string(r.providerRef), SettledAt: time.Time(r.settled).UTC(), CanceledAt: time.Time(r.canceled).UTC(), Reverses: string(r.reverses),
	}
	if len(r.print) != sha256.Size {
		return fmt.Errorf("%w: the fingerprint of %s is %d bytes long; the row is damaged", claim.ErrUnavailable, r.record.Minted.ID, len(r.print))
	}
	copy(r.record.Fingerprint.Sum[:], r.print)
	if r.record.Holder == "" {
		r.record.Verdict = r.step // only a verdict leaves a claim without a holder
	}
	if r.refusal != nil {
		refusal, err := readRefusal(r.refusal)
		if err != nil {
			return fmt.Errorf("%w: the refusal of %s cannot be decoded (%s); the row is damaged", claim.ErrUnavailable, r.record.Minted.ID, oneLine(err))
		}
		refusal.At = time.Time(r.refused).UTC()
		r.record.Refusal = &refusal
	}
	return r.readInterim()
}

// readInterim reads the interim answer, if there is one.
func (r *claimRow) readInterim() error {
	if r.interim == nil {
		return nil
	}
	var s storedInterim
	response, err := claim.Response{}, json.Unmarshal(r.interim, &s)
	if err == nil {
		response, err = s.response()
	}
	if err != nil {
		return fmt.Errorf("%w: the interim answer of %s cannot be decoded (%s); the row is damaged", claim.ErrUnavailable, r.record.Minted.ID, oneLine(err))
	}
	r.record.Interim = &claim.Interim{Response: response, State: s.State, By: s.By}
	return nil
}

// storedResponse is a response in one column: rare, read by no other statement, and of
// bytes that need not be text.
type storedResponse struct {
	Status int      `json:"status"`
	Names  []string `json:"names"`
	Values [][]byte `json:"values"`
	Body   []byte   `json:"body"`
	Blob   string   `json:"blob,omitempty"`
}

func stored(r *claim.Response) storedResponse {
	s := storedResponse{Status: r.Status, Body: r.Body, Blob: r.Blob}
	s.Names, s.Values = splitHeader(r.Header)
	return s
}

func (s *storedResponse) response() (claim.Response, error) {
	if len(s.Names) != len(s.Values) {
		return claim.Response{}, errors.New("its headers are truncated")
	}
	return claim.Response{Status: s.Status, Header: joinHeader(s.Names, s.Values), Body: s.Body, Blob: s.Blob}, nil
}

type storedRefusal struct {
	storedResponse
	// Pause is in nanoseconds.
	Pause time.Duration `json:"pause,omitempty"`
}

type storedInterim struct {
	storedResponse
	State string `json:"state"`
	By    string `json:"by,omitempty"`
}

// refusalColumn is the column's value; nil is NULL.
func refusalColumn(r *claim.Refusal) []byte {
	if r == nil {
		return nil
	}
	return column(storedRefusal{stored(&r.Response), r.Pause})
}

func readRefusal(column []byte) (claim.Refusal, error) {
	var s storedRefusal
	if err := json.Unmarshal(column, &s); err != nil {
		return claim.Refusal{}, err
	}
	response, err := s.response()
	return claim.Refusal{Response: response, Pause: s.Pause}, err
}

// interimColumn is the column's value for r, which has one.
func interimColumn(r *claim.Record) []byte {
	return column(storedInterim{stored(&r.Interim.Response), r.Interim.State, r.Interim.By})
}

func column(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers and bytes always encode
	}
	return b
}

// read builds the record of key at home from the columns.
func (r *claimRow) read(key claim.Key, home string, p *claim.Policy, now time.Time) error {
	if err := r.readRow(key, home); err != nil {
		return err
	}
	return r.readResponse(p, now)
}

// readResponse adds the response of a final claim to the record.
func (r *claimRow) readResponse(p *claim.Policy, now time.Time) error {
	if !r.record.State.Final() {
		return nil
	}
	response, whole := r.response()
	if !whole {
		if r.record.Age(p, now) == claim.Gone {
			return nil // housekeeping may delete the response first
		}
		return fmt.Errorf("%w: %s is final and its response is missing; restore it from a backup", claim.ErrUnavailable, r.record.Minted.ID)
	}
	r.record.Response = &response
	return nil
}

// response returns the response that retries read, and whether the row has all of it.
func (r *claimRow) response() (claim.Response, bool) {
	header, whole := readHeader(r.answerHeader)
	return claim.Response{
		Status: int(r.answerStatus), Header: header, Body: r.answerBody, Blob: string(r.answerBlob),
		ReplayFor: time.Duration(r.answerReplayFor) * time.Microsecond,
	}, whole && r.answerStatus != 0
}

// headerColumn encodes fields for the column answer_header: each name and each value
// behind its length, whose bytes need not be text.
func headerColumn(fields []claim.HeaderField) []byte {
	column := []byte{}
	for _, f := range fields {
		for _, s := range []string{f.Name, f.Value} {
			column = append(binary.AppendUvarint(column, uint64(len(s))), s...)
		}
	}
	return column
}

// readHeader decodes headerColumn. It returns false for anything else.
func readHeader(column []byte) (fields []claim.HeaderField, whole bool) {
	var said []string
	for len(column) > 0 {
		size, n := binary.Uvarint(column)
		if n <= 0 || size > uint64(len(column)-n) {
			return nil, false
		}
		said = append(said, string(column[n:n+int(size)]))
		column = column[n+int(size):]
	}
	if len(said)%2 != 0 {
		return nil, false
	}
	for i := 0; i < len(said); i += 2 {
		fields = append(fields, claim.HeaderField{Name: said[i], Value: said[i+1]})
	}
	return fields, true
}

// joinHeader undoes splitHeader.
func joinHeader(names []string, values [][]byte) []claim.HeaderField {
	if len(names) == 0 {
		return nil
	}
	fields := make([]claim.HeaderField, len(names))
	for i, name := range names {
		fields[i] = claim.HeaderField{Name: name, Value: string(values[i])}
	}
	return fields
}

func splitHeader(fields []claim.HeaderField) (names []string, values [][]byte) {
	names, values = make([]string, len(fields)), make([][]byte, len(fields))
	for i, f := range fields {
		names[i], values[i] = f.Name, []byte(f.Value)
	}
	return names, values
}

// notNil keeps an empty body from being stored as NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
