package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/homeward-io/homeward/ledger"
)

// FuzzSegment reads segments that a holder of the key could have signed, whatever is in them, and
// each with one bit changed since. Reading never panics. It returns what was signed, or an error.
func FuzzSegment(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := &Keys{signs: key, id: KeyID(key.Public().(ed25519.PublicKey))}
	keys.trust = Trust{keys.id: key.Public().(ed25519.PublicKey)}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	of := Manifest{Region: "europe-west1", Number: 1, Day: "2026-03-01", From: at, To: at.Add(time.Hour), Last: true, Written: at, By: "node-1"}
	add := func(m Manifest, entries []Entry, b booked) {
		s, data, err := seal(m, entries, b, keys)
		if err != nil {
			f.Fatal(err)
		}
		manifest, err := json.Marshal(&s.Manifest)
		if err != nil {
			f.Fatal(err)
		}
		_, decoder := codec()
		lines, err := decoder.DecodeAll(data[s.head:], nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(manifest, lines, uint16(700), byte(3))
	}
	add(of, []Entry{{Tenant: "acme", Key: "order-1", Object: "ch_1", ID: "1", At: at, Event: "settled", Region: of.Region, Node: "node-1", Fence: 1, Generation: 1}}, booked{})
	add(of, nil, booked{transactions: []ledger.Transaction{{ID: "ch_1", Region: of.Region, At: at, Debit: "psp:stripe", Credit: "merchant:acme", Amount: 100, Currency: "eur", Kind: "charge", Object: "ch_1"}}})
	f.Add([]byte(`{"region":"europe-west1","entries":-1}`), []byte{}, uint16(0), byte(0))
	f.Add([]byte(`{"region":"europe-west1","books":-1}`), []byte{}, uint16(0), byte(0))

	f.Fuzz(func(t *testing.T, manifest, lines []byte, flip uint16, bit byte) {
		var m Manifest
		if json.Unmarshal(manifest, &m) != nil {
			return
		}
		encoder, _ := codec()
		body := encoder.EncodeAll(lines, nil)
		sum := sha256.Sum256(body)
		m.Encoding, m.SHA256, m.Size, m.Length = encodingZstd, hex.EncodeToString(sum[:]), len(body), len(lines)
		payload, err := json.Marshal(&m)
		if err != nil {
			return // a date that JSON does not have
		}
		head, err := json.Marshal(dsse.Envelope{
			PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
			Signatures: []dsse.Signature{{KeyID: keys.id, Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(keys.signs, dsse.PAE(payloadType, payload)))}},
		})
		if err != nil {
			t.Fatal(err)
		}
		data := append(append(head, '\n'), body...)
		name := m.name(digestOf(payload))
		signed, entries, err := open(name, data, keys.trust, uuid.Nil)
		if err == nil && (len(entries) != m.Entries || len(signed.booked.transactions) != m.Books || len(signed.booked.accounts) != m.Accounts) {
			t.Fatalf("%s has %d entries, and %d were read", payload, m.Entries, len(entries))
		}
		for i := range entries {
			if e := &entries[i]; err == nil && (e.At.Before(m.From) || !e.At.Before(m.To)) {
				t.Fatalf("entry %+v is not in its window", e)
			}
		}
		data[int(flip)%len(data)] ^= 1 << (bit % 8)
		changed, others, cerr := open(name, data, keys.trust, uuid.Nil)
		if cerr != nil {
			if err == nil && !damaged(cerr) {
				t.Fatalf("byte %d of a segment changed, which does not prove that it is damaged: %v", int(flip)%len(data), cerr)
			}
			return
		}
		// A spelling of the envelope changed, as in the case of a name.
		changed.head = signed.head
		if err != nil || !reflect.DeepEqual(signed, changed) || !reflect.DeepEqual(entries, others) {
			t.Fatalf("byte %d changed, and %+v was read as %+v", int(flip)%len(data), signed, changed)
		}
	})
}
