package claim

import (
	"regexp"
	"strings"
	"testing"
)

// TestAPIKeys: ReadAPIKey distinguishes a key of ours from one that is made up, without a look-up.
// A key of another form needs one.
func TestAPIKeys(t *testing.T) {
	form := regexp.MustCompile(`^hw_(live|test)_[0-9A-Za-z]{49}$`) // what secret scanners rely on
	seen := map[string]bool{}
	for i := range 1000 {
		key := NewAPIKey([]string{"acme", TestTenant("acme")}[i%2])
		if !form.MatchString(key) || APIKeyMadeUp(key) || seen[key] {
			t.Fatalf("minted %q", key)
		}
		seen[key] = true
	}
	key := NewAPIKey("acme")
	for i := len(liveKeyPrefix); i < len(key); i++ {
		other := byte('0')
		if key[i] == other {
			other = '1'
		}
		if wrong := key[:i] + string(other) + key[i+1:]; !APIKeyMadeUp(wrong) {
			t.Errorf("%q passes for a key", wrong)
		}
	}
	for _, wrong := range []string{"hw_live_", "hw_test_", key[:len(key)-1], key + "0", "hw_test_" + strings.Repeat("0", 49), "hw_test_" + key[len(liveKeyPrefix):]} {
		if !APIKeyMadeUp(wrong) {
			t.Errorf("%q passes for a key", wrong)
		}
	}
	for _, old := range []string{"sk_demo_acme", "sk_live_" + strings.Repeat("a", 43), "hw_", "HW_LIVE_x", ""} {
		if APIKeyMadeUp(old) {
			t.Errorf("%q is not looked up any more", old)
		}
	}
	// The form never changes: keys are out there.
	if random := "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"; APIKeyMadeUp("hw_live_"+random+"1j9Kdc") || APIKeyMadeUp("hw_test_"+random+"1ImjCq") {
		t.Error("a key that was issued is refused")
	}
}

// A key opens no tenant of the other side than it says, and one that does not say opens any.
func TestAKeySaysItsSide(t *testing.T) {
	live, test := "acme", TestTenant("acme")
	for key, opens := range map[string][2]bool{
		NewAPIKey(live): {true, false}, NewAPIKey(test): {false, true}, "sk_demo_acme": {true, true},
	} {
		if got := [2]bool{APIKeyFits(key, live), APIKeyFits(key, test)}; got != opens {
			t.Errorf("%s fits live and test: %v, want %v", key, got, opens)
		}
	}
	if !Livemode(live) || Livemode(test) || LiveTenant(test) != live || LiveTenant(live) != live {
		t.Error("the id of a tenant does not say its side")
	}
	for _, c := range []struct {
		tenant, provider string
		may              bool
	}{{live, "stripe", true}, {live, "", true}, {live, TestProvider, false}, {test, TestProvider, true}, {test, "stripe", false}, {test, "", false}} {
		if MayCall(c.tenant, c.provider) != c.may {
			t.Errorf("MayCall(%s, %q) is %v", c.tenant, c.provider, !c.may)
		}
	}
}
