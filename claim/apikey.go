package claim

import (
	"crypto/rand"
	"hash/crc32"
	"strings"
)

// An API key is "hw_live_" or, of a test side, "hw_test_", then 43 random characters and a check value
// of 6 characters. Secret scanners can find keys by this form and verify that this program made them.
const (
	liveKeyPrefix = "hw_live_"
	testKeyPrefix = "hw_test_"
	// apiKeyRandom characters hold 256 bits, too many to search a plain hash of a key
	// for.
	apiKeyRandom = 43
	// apiKeyCheck characters hold a CRC-32.
	apiKeyCheck  = 6
	apiKeyLength = len(liveKeyPrefix) + apiKeyRandom + apiKeyCheck
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewAPIKey mints an API key for the tenant of that id.
func NewAPIKey(tenant string) string {
	prefix := liveKeyPrefix
	if !Livemode(tenant) {
		prefix = testKeyPrefix
	}
	key := append(make([]byte, 0, apiKeyLength), prefix...)
	var random [2 * apiKeyRandom]byte
	for len(key) < apiKeyLength-apiKeyCheck {
		_, _ = rand.Read(random[:]) // never fails
		for _, b := range random {
			// Skip bytes that would bias the distribution of characters.
			if int(b) < 256-256%len(base62) && len(key) < apiKeyLength-apiKeyCheck {
				key = append(key, base62[int(b)%len(base62)])
			}
		}
	}
	return string(appendAPIKeyCheck(key, string(key)))
}

// APIKeyMadeUp reports whether key has the prefix of our keys but a wrong length or
// check value, so that it was never issued. It returns false for any other text, such
// as one of the demo's keys, which the caller must look up. The check value is not
// secret and proves nothing; it only saves the look-up.
func APIKeyMadeUp(key string) bool {
	if !strings.HasPrefix(key, liveKeyPrefix) && !strings.HasPrefix(key, testKeyPrefix) {
		return false
	}
	if len(key) != apiKeyLength {
		return true
	}
	var check [apiKeyCheck]byte
	body := key[:apiKeyLength-apiKeyCheck]
	return string(appendAPIKeyCheck(check[:0], body)) != key[len(body):]
}

// APIKeyFits reports whether key may be one of the tenant of that id: a key says whether money
// moves, so none that says otherwise may open a tenant.
func APIKeyFits(key, tenant string) bool {
	wrong := liveKeyPrefix
	if Livemode(tenant) {
		wrong = testKeyPrefix
	}
	return !strings.HasPrefix(key, wrong)
}

func appendAPIKeyCheck(to []byte, body string) []byte {
	sum := crc32.ChecksumIEEE([]byte(body))
	var check [apiKeyCheck]byte
	for i := len(check) - 1; i >= 0; i-- {
		check[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return append(to, check[:]...)
}
