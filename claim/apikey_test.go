package claim

import (
	"regexp"
	"strings"
	"testing"
)

// TestAPIKeys: ReadAPIKey distinguishes a key of ours from one that is made up, without a look-up.
// A key of another form needs one.
func TestAPIKeys(t *testing.T) {
	form := regexp.MustCompile(`^hwk_[0-9A-Za-z]{49}$`) // what secret scanners rely on
	seen := map[string]bool{}
	for range 1000 {
		key := NewAPIKey()
		if !form.MatchString(key) || APIKeyMadeUp(key) || seen[key] {
			t.Fatalf("minted %q", key)
		}
		seen[key] = true
	}
	key := NewAPIKey()
	for i := len(apiKeyPrefix); i < len(key); i++ {
		other := byte('0')
		if key[i] == other {
			other = '1'
		}
		if wrong := key[:i] + string(other) + key[i+1:]; !APIKeyMadeUp(wrong) {
			t.Errorf("%q passes for a key", wrong)
		}
	}
	for _, wrong := range []string{"hwk_", key[:len(key)-1], key + "0", "hwk_" + strings.Repeat("0", 49)} {
		if !APIKeyMadeUp(wrong) {
			t.Errorf("%q passes for a key", wrong)
		}
	}
	for _, old := range []string{"sk_demo_acme", "sk_live_" + strings.Repeat("a", 43), "hwk", "HWK_x", ""} {
		if APIKeyMadeUp(old) {
			t.Errorf("%q is not looked up any more", old)
		}
	}
	// The form never changes: keys are out there.
	if random := "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"; APIKeyMadeUp("hwk_" + random + "3dNbVG") {
		t.Error("a key that was issued is refused")
	}
}
