package claim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"strings"
)

// FingerprintVersion names the rules by which a fingerprint was computed. It is stored
// beside the sum, so that the rules can change while old claims are alive.
type FingerprintVersion uint8

const (
	// FingerprintV1 is SHA-256 over a label, method, path, tenant, normal media
	// type and canonical body, each preceded by its length.
	FingerprintV1 FingerprintVersion = 1

	// CurrentFingerprint is the version that new claims are given.
	CurrentFingerprint = FingerprintV1
)

// ErrFingerprintVersion is returned for a version that this build does not support, most likely
// because a newer build wrote the claim. The request can then be neither matched nor refused: the
// outcome of the comparison is unknown.
var ErrFingerprintVersion = errors.New("unknown fingerprint version; a newer node must answer this request")

// Fingerprint identifies a request under its key. It is comparable: two
// requests are the same if their fingerprints of the same version are equal.
// Fingerprints of different versions cannot be compared: compute the new
// request's in the stored version.
type Fingerprint struct {
	Version FingerprintVersion
	Sum     [sha256.Size]byte
}

// String returns the version and the sum in lower-case hexadecimal, "v1:9f86…".
func (f Fingerprint) String() string {
	return fmt.Sprintf("v%d:%s", f.Version, hex.EncodeToString(f.Sum[:]))
}

// FingerprintInput is everything that a fingerprint covers. It excludes what
// may differ between retries of one request: the key itself, User-Agent,
// request and trace ids, the client's address.
type FingerprintInput struct {
	Method      string // as received: POST
	Path        string // the URL's path without the query: /v1/charges
	Tenant      string // the merchant account
	ContentType string // the header as received; it is normalised here
	Canonical   []byte // the body that [Canonical] returned; it is not modified
}

// fingerprintLabel separates these hashes from every other use of SHA-256.
const fingerprintLabel = "homeward/fingerprint/v1"

// Fingerprint computes the fingerprint by the rules of version v. It returns
// [ErrFingerprintVersion] for a version that this build does not support. It is safe for concurrent
// use.
func (in FingerprintInput) Fingerprint(v FingerprintVersion) (Fingerprint, error) {
	if v != FingerprintV1 {
		return Fingerprint{}, fmt.Errorf("version %d: %w", v, ErrFingerprintVersion)
	}
	// The length prefix keeps one part from being read as the end of another.
	var stack [512]byte // enough for all but the body in most requests
	text := stack[:0]
	for _, part := range [...]string{fingerprintLabel, in.Method, in.Path, in.Tenant, normalMediaType(in.ContentType)} {
		text = binary.BigEndian.AppendUint64(text, uint64(len(part)))
		text = append(text, part...)
	}
	text = binary.BigEndian.AppendUint64(text, uint64(len(in.Canonical)))

	f := Fingerprint{Version: v}
	if len(text)+len(in.Canonical) <= len(stack) {
		f.Sum = sha256.Sum256(append(text, in.Canonical...))
		return f, nil
	}
	// Hash a large body in place rather than copy it.
	h := sha256.New()
	h.Write(text)
	h.Write(in.Canonical)
	h.Sum(f.Sum[:0])
	return f, nil
}

// normalMediaType reduces a Content-Type to what affects parsing. Type and parameter
// names are lower case, parameters are sorted, and a UTF-8 charset is dropped because
// JSON implies it. It only trims a value that is not a media type.
func normalMediaType(header string) string {
	if header == "application/json" || header == "" {
		return header
	}
	mediaType, params, err := mime.ParseMediaType(header)
	if err != nil {
		return strings.TrimSpace(header)
	}
	if cs := params["charset"]; strings.EqualFold(cs, "utf-8") || strings.EqualFold(cs, "utf8") {
		delete(params, "charset")
	}
	if normal := mime.FormatMediaType(mediaType, params); normal != "" {
		return normal
	}
	return strings.TrimSpace(header)
}
