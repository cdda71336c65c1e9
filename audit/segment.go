package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/homeward-io/homeward/ledger"
)

// payloadType is the payload type of an envelope.
const payloadType = "application/vnd.homeward.audit.manifest.v1+json"

// Manifest is the signed part of a segment. Its JSON is a format: members are only ever
// added.
type Manifest struct {
	// Deployment is the id of the rows that the entries were.
	Deployment uuid.UUID `json:"deployment"`
	Region     string    `json:"region"`
	// Number counts the segments of the region, from 1, without a gap.
	Number uint64 `json:"number"`
	// Previous is the digest of the preceding segment; "" for the first.
	Previous string `json:"previous"`
	// Day is the UTC day of the entries, as in 2026-03-01.
	Day string `json:"day"`
	// From and To bound the times of the entries, From <= At < To: a window. The
	// segment's part of the window begins after position After and ends with Until.
	// Last: it is the last part of the window.
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Part  int       `json:"part"`
	After Position  `json:"after,omitzero"`
	Until Position  `json:"until,omitzero"`
	Last  bool      `json:"last"`
	// Late: the entries were found after their window was exported. The next segment
	// continues from the windows before it.
	Late bool `json:"late,omitempty"`
	// Books is the number of transactions that have left the region's books for this segment,
	// up to the position BooksUntil, and Accounts the number of accounts that they touch. Its
	// body has a line for each transaction, then one for each account, with its balance before
	// and after. It has no entries, and is beside the windows as a late segment is.
	Books      int             `json:"books,omitempty"`
	Accounts   int             `json:"accounts,omitempty"`
	BooksUntil ledger.Position `json:"books_until,omitzero"`
	// Entries is the number of entries, and RepliesLost how many notes of replies the
	// nodes of the region counted as lost.
	Entries     int    `json:"entries"`
	RepliesLost uint64 `json:"replies_lost"`
	// Body describes the bytes after the envelope: the entries as JSON lines,
	// compressed by zstd. Size and SHA256 are of the compressed bytes, Length of the
	// lines.
	Encoding string `json:"encoding"`
	SHA256   string `json:"sha256"`
	Size     int    `json:"size"`
	Length   int    `json:"length"`
	Filter   filter `json:"filter,omitempty"`
	// Written is when, by the store's clock, and By which node wrote the segment.
	Written time.Time `json:"written"`
	By      string    `json:"by"`
}

// Segment is an object of the chain.
type Segment struct {
	Manifest
	// Digest is the SHA-256 of the signed manifest, in hexadecimal. It identifies the
	// segment, its body included.
	Digest string
	// Name is the object's name.
	Name string
	// Key is the id of the signing key.
	Key string
	// head is the length of the envelope in bytes, with its end of line.
	head int
	// booked has the lines of a whole segment of books.
	booked booked
}

// Why a segment is invalid. Test with errors.Is.
var (
	// ErrChanged: the segment differs from what was signed.
	ErrChanged = errors.New("audit: the segment was changed")
	// ErrOtherDeployment: another deployment wrote the segment, with the same keys into the
	// same bucket. It proves nothing about this one.
	ErrOtherDeployment = errors.New("audit: the segment is of another deployment")
	// ErrUnknownKey: the signing key is not trusted.
	ErrUnknownKey = errors.New("audit: the segment is signed by a key that is not trusted")
)

const (
	encodingZstd = "zstd"
	// maxLength bounds a decompressed body, in bytes; segments are cut far below it.
	maxLength = 256 << 20
	dayLayout = time.DateOnly
	suffix    = ".audit"
	// numberDigits keeps the names of a day in the order of their numbers.
	numberDigits = 12
	// digestDigits of the digest make the name unique.
	digestDigits = 16
)

// name returns the name of the segment's object: REGION/DAY/NUMBER-DIGEST.audit.
func (m *Manifest) name(digest string) string {
	return fmt.Sprintf("%s%0*d-%s%s", folder(m.Region, m.Day), numberDigits, m.Number, digest[:digestDigits], suffix)
}

func folder(region, day string) string { return region + "/" + day + "/" }

// named is a parsed object name.
type named struct {
	name, region, day, digest string
	number                    uint64
}

// readName parses the name of an object; ok is false if it does not name a segment.
func readName(name string) (n named, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return n, false
	}
	file, ok := strings.CutSuffix(parts[2], suffix)
	number, digest, dashed := strings.Cut(file, "-")
	if !ok || !dashed || len(number) != numberDigits || len(digest) != digestDigits {
		return n, false
	}
	n = named{name: name, region: parts[0], day: parts[1], digest: digest}
	var err error
	if n.number, err = strconv.ParseUint(number, 10, 64); err != nil || n.number == 0 {
		return n, false
	}
	_, err = time.Parse(dayLayout, n.day)
	return n, err == nil
}

// codec compresses and decompresses; both halves are safe for concurrent use.
var codec = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // of an option
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxLength))
	if err != nil {
		panic(err)
	}
	return e, d
})

// seal returns the segment of entries, or of books, that m describes, and the bytes of its
// object.
func seal(m Manifest, entries []Entry, b booked, keys *Keys) (Segment, []byte, error) {
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	e.SetEscapeHTML(false)
	m.Entries, m.RepliesLost, m.Books, m.Accounts = len(entries), 0, len(b.transactions), len(b.accounts)
	if err := errors.Join(encodeLines(e, entries), encodeLines(e, b.transactions), encodeLines(e, b.accounts)); err != nil {
		return Segment{}, nil, fmt.Errorf("audit: encode a line: %w", err)
	}
	for i := range entries {
		m.RepliesLost += entries[i].lost()
	}
	encoder, _ := codec()
	body := encoder.EncodeAll(lines.Bytes(), nil)
	sum := sha256.Sum256(body)
	m.Encoding, m.SHA256, m.Size, m.Length = encodingZstd, hex.EncodeToString(sum[:]), len(body), lines.Len()
	m.Filter = filterOf(entries, b.transactions)
	payload, err := json.Marshal(&m)
	if err != nil {
		return Segment{}, nil, fmt.Errorf("audit: encode a manifest: %w", err)
	}
	head, err := json.Marshal(dsse.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []dsse.Signature{{KeyID: keys.id, Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(keys.signs, dsse.PAE(payloadType, payload)))}},
	})
	if err != nil {
		return Segment{}, nil, fmt.Errorf("audit: encode an envelope: %w", err)
	}
	head = append(head, '\n')
	s := Segment{Manifest: m, Digest: digestOf(payload), Key: keys.id, head: len(head)}
	s.Name = m.name(s.Digest)
	return s, append(head, body...), nil
}

func encodeLines[L any](e *json.Encoder, lines []L) error {
	for i := range lines {
		if err := e.Encode(&lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// decodeLines decodes the next n lines.
func decodeLines[L any](d *json.Decoder, n int) ([]L, error) {
	if n < 0 { // n is signed, and may be wrong all the same
		return nil, fmt.Errorf("%w: its manifest counts %d lines", ErrChanged, n)
	}
	lines := make([]L, 0, min(n, booksInSegment))
	for len(lines) < n {
		var l L
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("%w: line %d of %d cannot be decoded", ErrChanged, len(lines)+1, n)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func digestOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// errShort: the envelope does not end within the given bytes.
var errShort = errors.New("audit: the envelope is truncated")

// openHead reads the manifest of the object name, at the start of data, and verifies
// its signature and its deployment; a nil trust accepts every key, and a nil of every
// deployment. It returns errShort if data is too short.
func openHead(name string, data []byte, trust Trust, of uuid.UUID) (Segment, error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return Segment{}, errShort
	}
	var e dsse.Envelope
	if err := json.Unmarshal(data[:end], &e); err != nil {
		return Segment{}, fmt.Errorf("%w: its envelope cannot be decoded", ErrChanged)
	}
	payload, err := e.DecodeB64Payload()
	if err != nil || e.PayloadType != payloadType || len(e.Signatures) != 1 {
		return Segment{}, fmt.Errorf("%w: its envelope does not hold a manifest with one signature", ErrChanged)
	}
	s := Segment{Digest: digestOf(payload), Name: name, Key: e.Signatures[0].KeyID, head: end + 1}
	if trust != nil {
		key, ok := trust[s.Key]
		if !ok {
			return s, fmt.Errorf("%w: %s", ErrUnknownKey, s.Key)
		}
		signature, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
		if err != nil || !ed25519.Verify(key, dsse.PAE(payloadType, payload), signature) {
			return s, fmt.Errorf("%w: its signature is not valid", ErrChanged)
		}
	}
	if err := json.Unmarshal(payload, &s.Manifest); err != nil {
		return s, fmt.Errorf("%w: its manifest cannot be decoded", ErrChanged)
	}
	return s, s.checkDeployment(of)
}

// checkDeployment refuses a segment of another deployment than of.
func (s *Segment) checkDeployment(of uuid.UUID) error {
	if of == uuid.Nil || s.Deployment == of {
		return nil
	}
	return fmt.Errorf("%w: it is of %v, and this is %v; give each deployment a bucket and keys of its own", ErrOtherDeployment, s.Deployment, of)
}

// open reads a whole object.
func open(name string, data []byte, trust Trust, of uuid.UUID) (Segment, []Entry, error) {
	s, err := openHead(name, data, trust, of)
	if errors.Is(err, errShort) {
		err = fmt.Errorf("%w: its envelope is truncated", ErrChanged)
	}
	if err != nil {
		return s, nil, err
	}
	body := data[s.head:]
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != s.SHA256 || len(body) != s.Size {
		return s, nil, fmt.Errorf("%w: its body differs from the signed one", ErrChanged)
	}
	if s.Encoding != encodingZstd {
		return s, nil, fmt.Errorf("audit: segment %s is encoded as %q, which this build cannot read", name, s.Encoding)
	}
	_, decoder := codec()
	lines, err := decoder.DecodeAll(body, nil)
	if err != nil || len(lines) != s.Length {
		return s, nil, fmt.Errorf("%w: its body cannot be decompressed", ErrChanged)
	}
	d := json.NewDecoder(bytes.NewReader(lines))
	entries, err := decodeLines[Entry](d, s.Entries)
	if err == nil {
		s.booked.transactions, err = decodeLines[ledger.Transaction](d, s.Books)
	}
	if err == nil {
		s.booked.accounts, err = decodeLines[account](d, s.Accounts)
	}
	if err != nil {
		return s, nil, err
	}
	if d.More() {
		return s, nil, fmt.Errorf("%w: it has more lines than its manifest counts", ErrChanged)
	}
	return s, entries, s.check(entries)
}

// check compares the manifest with the entries and the name.
func (s *Segment) check(entries []Entry) error {
	if s.name(s.Digest) != s.Name {
		return fmt.Errorf("%w: its manifest is of segment %d of %s on %s", ErrMoved, s.Number, s.Region, s.Day)
	}
	var lost uint64
	for i := range entries {
		e := &entries[i]
		if e.At.Before(s.From) || !e.At.Before(s.To) || e.ID == "" {
			return fmt.Errorf("%w: entry %d is outside its window", ErrChanged, i+1)
		}
		lost += e.lost()
	}
	if lost != s.RepliesLost {
		return fmt.Errorf("%w: its manifest counts %d lost replies, its entries %d", ErrChanged, s.RepliesLost, lost)
	}
	return s.checkBooks()
}

// ErrMoved: the object has the name of another segment.
var ErrMoved = errors.New("audit: the segment has the name of another one")
