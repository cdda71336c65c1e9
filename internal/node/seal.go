package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/gcerrors"
	"gocloud.dev/secrets"
	"gocloud.dev/secrets/localsecrets"

	"github.com/homeward-io/homeward/internal/seal"
)

// SealKeys is the variable of the sealing keys, as URLs with white space or commas
// between them; see [Secret]. The first seals, any of them opens, so that a deployment
// can rotate keys.
const SealKeys = "HOMEWARD_SEAL_KEYS"

// localScheme begins the URL of a key that contains its secret: 32 bytes in base64.
const localScheme = localsecrets.Scheme + "://"

// NewSealKey mints a local key.
func NewSealKey() (string, error) {
	key, err := localsecrets.NewRandomKey()
	if err != nil {
		return "", err
	}
	return localScheme + base64.URLEncoding.EncodeToString(key[:]), nil
}

// checkSealKeys returns what is wrong with the text of [SealKeys]. The error contains
// no key.
func checkSealKeys(text string) error {
	var errs []error
	seen := map[seal.KeyName]bool{}
	for i, url := range sealURLs(text) {
		name, err := sealName(url)
		if err == nil && seen[name] {
			err = errors.New("it is listed twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, key %d: %w", SealKeys, i+1, err))
		}
		seen[name] = true
	}
	return errors.Join(errs...)
}

func sealURLs(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == ',' })
}

// sealName derives a key's name from the key itself, or for a KMS from its URL.
func sealName(url string) (seal.KeyName, error) {
	if strings.HasPrefix(url, localScheme) {
		key, err := localKey(url)
		return seal.NameOf(localScheme + string(key[:])), err
	}
	scheme, _, found := strings.Cut(url, "://")
	if mux := secrets.DefaultURLMux(); !found || !mux.ValidKeeperScheme(scheme) {
		return seal.KeyName{}, fmt.Errorf("%s; or use a local key, as homeward secrets key makes; see docs/SECURITY.md", notBuiltIn(scheme, mux.KeeperSchemes()))
	}
	return seal.NameOf(url), nil
}

// localKey parses a local key. An empty one would be another at every start.
func localKey(url string) (key [32]byte, err error) {
	text := strings.TrimPrefix(url, localScheme)
	for _, encoding := range []*base64.Encoding{base64.URLEncoding, base64.StdEncoding} {
		if b, err := encoding.DecodeString(text); err == nil && len(b) == len(key) {
			return [32]byte(b), nil
		}
	}
	return key, fmt.Errorf("%s must be followed by 32 bytes in base64; make one with: homeward secrets key", localScheme)
}

// SealSetting is the variable of the setting seal, for tools that read no settings.
const SealSetting = "HOMEWARD_SEAL"

// ToolSeal opens the sealing keys of a tool's environment. Without keys it stores nothing
// that nodes seal, unless [SealSetting] is false there.
func ToolSeal(ctx context.Context, environ []string) (*seal.Ring, error) {
	text, err := Secret(environ, SealKeys)
	if err != nil {
		return nil, err
	}
	on, err := boolean(environ, SealSetting, true)
	if err != nil {
		return nil, err
	}
	return OpenSeal(ctx, text, !on, nil)
}

// OpenSeal opens the keys that the text of [SealKeys] names; inClear: they open only, and
// new values are stored in clear text. It contacts no KMS.
func OpenSeal(ctx context.Context, text string, inClear bool, log *slog.Logger) (_ *seal.Ring, err error) {
	if err := checkSealKeys(text); err != nil {
		return nil, err
	}
	var keys []seal.Key
	for i, url := range sealURLs(text) {
		k, err := openSealKey(ctx, url)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s, key %d: %w", SealKeys, i+1, err), seal.New(keys, log).Close())
		}
		keys = append(keys, k)
	}
	if inClear {
		return seal.Clear(keys, log), nil
	}
	return seal.New(keys, log), nil
}

// openSealKey opens a key that checkSealKeys has passed.
func openSealKey(ctx context.Context, url string) (seal.Key, error) {
	name, err := sealName(url)
	if err != nil {
		return seal.Key{}, err
	}
	if strings.HasPrefix(url, localScheme) {
		key, err := localKey(url)
		return seal.Key{Name: name, Keeper: keeper{localsecrets.NewKeeper(key), true}}, err
	}
	k, err := secrets.OpenKeeper(ctx, url)
	return seal.Key{Name: name, Keeper: keeper{k, false}}, err
}

// keeper marks an error of a key as final if it is.
type keeper struct {
	*secrets.Keeper
	local bool
}

// Decrypt implements [seal.Keeper]. A local key always answers. A KMS's refusal is
// final if the ciphertext is not its own, or if it has no such key.
func (k keeper) Decrypt(ctx context.Context, sealed []byte) ([]byte, error) {
	plain, err := k.Keeper.Decrypt(ctx, sealed)
	if err != nil && (k.local || slices.Contains([]gcerrors.ErrorCode{gcerrors.InvalidArgument, gcerrors.NotFound}, gcerrors.Code(err))) {
		return nil, fmt.Errorf("%w: %w", seal.ErrLost, err)
	}
	return plain, err
}

// sealFile is the file of the demo's key within its --data directory, beside the store:
// a copy of the store alone cannot be read.
const sealFile = "seal.key"

// DemoSeal opens the key of a demo's --data directory, and creates one that only its
// owner can read if there is none. homeward serve creates none: a key that the next
// start of a container does not find is lost.
func DemoSeal(ctx context.Context, data string, log *slog.Logger) (*seal.Ring, error) {
	path := filepath.Join(data, sealFile)
	text, err := DemoSealKeys(data)
	if err != nil {
		return nil, err
	}
	ring, err := OpenSeal(ctx, text, false, log)
	if err == nil && !ring.Seals() {
		err = errors.New("it holds no key; if you delete it, the values that it sealed are lost")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

// DemoSealKeys returns the text of [SealKeys] that [DemoSeal] opens.
func DemoSealKeys(data string) (string, error) {
	path := filepath.Join(data, sealFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeSealFile(data, path)
	}
	if err != nil {
		return "", fmt.Errorf("the demo's sealing key: %w", err)
	}
	return string(text), nil
}

// makeSealFile writes a new key.
func makeSealFile(data, path string) ([]byte, error) {
	key, err := NewSealKey()
	if err != nil {
		return nil, err
	}
	return writeSecret(data, path, key+"\n")
}

// writeSecret writes text into a file in the directory data that only its owner can
// read. The file gets its name only once it is on disk.
func writeSecret(data, path, text string) ([]byte, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(data, filepath.Base(path)+".*") // 0600
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()))
	}
	return []byte(text), syncPath(data)
}
