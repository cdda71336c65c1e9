package node

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/seal"
)

var sealRow = seal.Row{Table: "notice", Region: "us-east1", ID: "sim:evt_1"}

func sealKey(t testing.TB) string {
	t.Helper()
	key, err := NewSealKey()
	require.NoError(t, err)
	return key
}

func openSeal(t testing.TB, text string) *seal.Ring {
	t.Helper()
	r, err := OpenSeal(t.Context(), text, false, nil)
	require.NoError(t, err)
	return r
}

// TestLocalKeysSeal, and go from one to the next; a value that another local key sealed
// under the same name, or that was altered, is lost and not retried.
func TestLocalKeysSeal(t *testing.T) {
	a, b := sealKey(t), sealKey(t)
	require.NotEqual(t, a, b)
	first := openSeal(t, a)
	stored, err := first.Seal(t.Context(), sealRow, []byte("hush"))
	require.NoError(t, err)
	require.NotContains(t, string(stored), "hush")
	std := strings.Replace(a, localScheme, "", 1)
	raw, err := base64.URLEncoding.DecodeString(std)
	require.NoError(t, err)
	for _, text := range []string{a, b + "," + a, " " + b + "\n" + a + "\n", localScheme + base64.StdEncoding.EncodeToString(raw)} {
		plain, err := openSeal(t, text).Open(t.Context(), sealRow, stored)
		require.NoError(t, err)
		require.Equal(t, "hush", string(plain))
	}
	_, err = openSeal(t, b).Open(t.Context(), sealRow, stored)
	require.ErrorIs(t, err, seal.ErrLost)
	altered := append([]byte(nil), stored...)
	altered[20] ^= 1 // in the encrypted data key
	_, err = openSeal(t, a).Open(t.Context(), sealRow, altered)
	require.ErrorIs(t, err, seal.ErrLost)
	require.NotErrorIs(t, err, seal.ErrNoAnswer)
	require.False(t, openSeal(t, "").Seals())
}

// TestSealKeysThatCannotBeUsed: each error says what to write, and never has a key.
func TestSealKeysThatCannotBeUsed(t *testing.T) {
	good := sealKey(t)
	for name, c := range map[string]struct{ text, want string }{
		"empty, which would be another at each start": {localScheme, "homeward secrets key"},
		"short":           {"base64key://aHVudGVyMg==", "32 bytes"},
		"a bare key":      {strings.TrimPrefix(good, localScheme), "base64key://"},
		"twice":           {good + " " + good, "key 2: it is listed twice"},
		"no driver of it": {"tape://library", "docs/SECURITY.md"},
	} {
		_, err := OpenSeal(t.Context(), c.text, false, nil)
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), strings.TrimPrefix(good, localScheme), name)
		require.NotContains(t, err.Error(), "aHVudGVyMg", name)
		_, _, err = LoadServeSettings("", []string{SealKeys + "=" + c.text})
		require.ErrorContains(t, err, SealKeys, name)
	}
	_, secrets, err := LoadServeSettings("", []string{SealKeys + "=" + good, "HOMEWARD_SEAL=false"})
	require.NoError(t, err)
	require.Equal(t, good, secrets.SealKeys)
	path := settingsPath(t, "seal_keys: hunter2")
	_, _, err = LoadServeSettings(path, nil)
	require.ErrorContains(t, err, SealKeys)
	require.NotContains(t, err.Error(), "hunter2")
}

func settingsPath(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestTheDemoMakesItsKeyOnce, for its owner alone.
func TestTheDemoMakesItsKeyOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, err := DemoSeal(context.Background(), dir, nil)
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(dir, sealFile))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
	again, err := DemoSeal(context.Background(), dir, nil)
	require.NoError(t, err)
	require.Equal(t, first.Names(), again.Names())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing but the key is left")

	require.NoError(t, os.WriteFile(filepath.Join(dir, sealFile), []byte("\n"), 0o600))
	_, err = DemoSeal(context.Background(), dir, nil)
	require.ErrorContains(t, err, sealFile)
}
