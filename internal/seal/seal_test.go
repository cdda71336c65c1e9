package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// vault is a sealing key that counts its calls, and can be out of reach. It encrypts nothing: these
// tests need only the calls.
type vault struct {
	pad                  byte
	encrypted, decrypted atomic.Int64
	down                 atomic.Bool
	refuses              atomic.Bool
}

var errDown = errors.New("no route to the KMS")

func (v *vault) turn(in []byte) []byte {
	out := bytes.Clone(in)
	for i := range out {
		out[i] ^= v.pad
	}
	return out
}

func (v *vault) Encrypt(_ context.Context, plain []byte) ([]byte, error) {
	v.encrypted.Add(1)
	if v.down.Load() {
		return nil, errDown
	}
	return v.turn(plain), nil
}

func (v *vault) Decrypt(_ context.Context, sealed []byte) ([]byte, error) {
	v.decrypted.Add(1)
	switch {
	case v.refuses.Load():
		return nil, fmt.Errorf("%w: the key was destroyed", ErrLost)
	case v.down.Load():
		return nil, errDown
	}
	return v.turn(sealed), nil
}

func keyOf(name string, v *vault) Key { return Key{NameOf(name), v} }

var row = Row{"notice", "us-east1", "sim:evt_1"}

const secret = "whsec_of the merchant"

func sealed(t *testing.T, r *Ring, plain string) []byte {
	t.Helper()
	stored, err := r.Seal(t.Context(), row, []byte(plain))
	require.NoError(t, err)
	return stored
}

func opens(t *testing.T, r *Ring, stored []byte, want string) {
	t.Helper()
	plain, err := r.Open(t.Context(), row, stored)
	require.NoError(t, err)
	require.Equal(t, want, string(plain))
}

func TestSealedValuesOpenInTheirRowAlone(t *testing.T) {
	r := New([]Key{keyOf("a", &vault{pad: 1})}, nil)
	stored := sealed(t, r, secret)
	require.NotContains(t, string(stored), "whsec_")
	opens(t, r, stored, secret)
	require.NotEqual(t, stored, sealed(t, r, secret), "two equal values do not look equal")
	opens(t, r, sealed(t, r, ""), "")

	for _, other := range []Row{
		{"notice", "us-east1", "sim:evt_2"}, {"notice", "europe-west1", "sim:evt_1"}, {"endpoint", "us-east1", "sim:evt_1"},
		{"notice", "us-east1sim", ":evt_1"}, {"noticeus-east1", "", "sim:evt_1"},
	} {
		_, err := r.Open(t.Context(), other, stored)
		require.ErrorIs(t, err, ErrLost, "%v", other)
		require.NotErrorIs(t, err, ErrNoAnswer)
	}
}

// TestAlteredValues: no bit of a stored value can be changed, and no end cut off, so
// that it opens as another, and the answer is an error and no panic.
func TestAlteredValues(t *testing.T) {
	r := New([]Key{keyOf("a", &vault{pad: 1})}, nil)
	stored := sealed(t, r, secret)
	for i := len(magic); i < len(stored); i++ {
		altered := bytes.Clone(stored)
		altered[i] ^= 0x40
		_, err := r.Open(t.Context(), row, altered)
		require.Error(t, err, "byte %d", i)
		require.NotContains(t, err.Error(), "whsec_")
	}
	for n := len(magic); n < len(stored); n++ {
		_, err := r.Open(t.Context(), row, stored[:n])
		require.ErrorIs(t, err, ErrLost, "%d bytes", n)
	}
}

func TestUnsealedValues(t *testing.T) {
	r := New([]Key{keyOf("a", &vault{pad: 1})}, nil)
	for _, none := range []*Ring{nil, New(nil, nil), Clear(nil, nil)} {
		unsealed(t, r, none)
	}
}

// TestClearTextIsChosen: a ring without keys stores nothing, and one that is clear never
// unseals what is stored.
func TestClearTextIsChosen(t *testing.T) {
	for _, none := range []*Ring{nil, New(nil, nil)} {
		stored, err := none.Seal(t.Context(), row, []byte(secret))
		require.ErrorIs(t, err, ErrNoKey)
		require.Nil(t, stored)
		require.NotContains(t, err.Error(), secret)
	}
	key := keyOf("a", &vault{pad: 1})
	before := sealed(t, New([]Key{key}, nil), secret)
	for _, clear := range []*Ring{Clear(nil, nil), Clear([]Key{key}, nil)} {
		require.False(t, clear.Seals())
		stored, err := clear.Seal(t.Context(), row, []byte(secret))
		require.NoError(t, err)
		require.Equal(t, secret, string(stored))
		again, err := clear.Again(t.Context(), row, before)
		require.NoError(t, err)
		require.Nil(t, again)
	}
	opens(t, Clear([]Key{key}, nil), before, secret)
}

func unsealed(t *testing.T, r, none *Ring) {
	t.Helper()
	for _, plain := range []string{"", secret, `{"id":"evt_1"}`, "raw \xff\x00 body"} {
		opens(t, r, []byte(plain), plain)
		opens(t, none, []byte(plain), plain)
	}
	_, err := none.Open(t.Context(), row, sealed(t, r, secret))
	require.ErrorIs(t, err, ErrLost)
	require.NoError(t, none.Ready(t.Context()))
	require.NoError(t, none.Close())
}

// TestRotation: the first key seals, all open; a removed key is named, and what was sealed anew
// does not need it.
func TestRotation(t *testing.T) {
	a, b := keyOf("a", &vault{pad: 1}), keyOf("b", &vault{pad: 2})
	before := sealed(t, New([]Key{a}, nil), secret)
	first := New([]Key{a, b}, nil)
	opens(t, first, before, secret)
	under, ok := KeyOf(sealed(t, first, secret))
	require.True(t, ok)
	require.Equal(t, a.Name, under)

	both := New([]Key{b, a}, nil)
	require.Equal(t, []KeyName{b.Name, a.Name}, both.Names())
	c := Census{Ring: both}
	after, err := c.Value(t.Context(), row, before)
	require.NoError(t, err)
	opens(t, New([]Key{b}, nil), after, secret)
	again, err := c.Value(t.Context(), row, after)
	require.NoError(t, err)
	require.Nil(t, again, "it is under the first key")
	fromPlain, err := c.Value(t.Context(), row, []byte(secret))
	require.NoError(t, err)
	opens(t, both, fromPlain, secret)
	require.Equal(t, map[string]int{"": 1, a.Name.String(): 1, b.Name.String(): 1}, c.Under)
	require.Equal(t, []int{2, 0}, []int{c.Again, c.Lost})

	_, err = New([]Key{b}, nil).Open(t.Context(), row, before)
	require.ErrorIs(t, err, ErrLost)
	require.ErrorContains(t, err, a.Name.String())
	c = Census{Ring: New([]Key{b}, nil)}
	again, err = c.Value(t.Context(), row, before)
	require.NoError(t, err, "one that is lost does not stop the others")
	require.Nil(t, again)
	require.Equal(t, 1, c.Lost)
	require.ErrorIs(t, c.Why, ErrLost)
}

// TestTheKeyIsCalledSeldom: 100,000 values of one node cost one question to seal, and another node
// one to open them; an hour later one more each.
func TestTheKeyIsCalledSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{pad: 1}
		sealing, opening := New([]Key{keyOf("a", v)}, nil), New([]Key{keyOf("a", v)}, nil)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100_000 / 8 {
					stored, err := sealing.Seal(t.Context(), row, []byte(secret))
					if err == nil {
						_, err = opening.Open(t.Context(), row, stored)
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, v.encrypted.Load())
		require.EqualValues(t, 1, v.decrypted.Load())

		stored := sealed(t, sealing, secret)
		time.Sleep(sealFor)
		opens(t, opening, stored, secret)
		require.EqualValues(t, 2, v.decrypted.Load(), "an opened data key is forgotten")
		require.NotEqual(t, stored[:40], sealed(t, sealing, secret)[:40], "another data key")
		require.EqualValues(t, 2, v.encrypted.Load())
	})
}

// TestTheKeyIsOutOfReach: the last data key goes on sealing for a day, and opens what it has sealed, what
// else was opened goes on opening for an hour, and a key without an answer does not count as lost.
func TestTheKeyIsOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vault{pad: 1}
		r := New([]Key{keyOf("a", v)}, nil)
		v.down.Store(true)
		require.ErrorIs(t, r.Ready(t.Context()), ErrNoAnswer)
		for range 100 {
			_, err := r.Seal(t.Context(), row, []byte(secret))
			require.ErrorIs(t, err, ErrNoAnswer)
		}
		require.EqualValues(t, 1, v.encrypted.Load(), "a flood does not become one of questions")
		time.Sleep(askPause)
		v.down.Store(false)
		others := sealed(t, New([]Key{keyOf("a", v)}, nil), secret)
		opens(t, r, others, secret)
		stored := sealed(t, r, secret)

		v.down.Store(true)
		time.Sleep(oldest - time.Second)
		opens(t, r, sealed(t, r, secret), secret)
		opens(t, r, stored, secret)
		_, err := r.Open(t.Context(), row, others)
		require.ErrorIs(t, err, ErrNoAnswer)
		require.NotErrorIs(t, err, ErrLost)
		time.Sleep(time.Second)
		_, err = r.Seal(t.Context(), row, []byte(secret))
		require.ErrorIs(t, err, ErrNoAnswer)
		_, err = r.Open(t.Context(), row, stored)
		require.ErrorIs(t, err, ErrNoAnswer)

		time.Sleep(askPause)
		v.down.Store(false)
		opens(t, r, sealed(t, r, secret), secret)
		opens(t, r, stored, secret)
		time.Sleep(openFor)
		v.refuses.Store(true)
		_, err = r.Open(t.Context(), row, stored)
		require.ErrorIs(t, err, ErrLost)
		require.NotErrorIs(t, err, ErrNoAnswer)
	})
}

// TestAMissingKeyPagesOnce, whether the process has other keys or none.
func TestAMissingKeyPagesOnce(t *testing.T) {
	lost := keyOf("a", &vault{pad: 1})
	stored := sealed(t, New([]Key{lost}, nil), secret)
	for _, keys := range [][]Key{nil, {keyOf("b", &vault{pad: 2})}} {
		var log bytes.Buffer
		r := New(keys, slog.New(slog.NewTextHandler(&log, nil)))
		for range 3 {
			_, err := r.Open(t.Context(), row, stored)
			require.ErrorIs(t, err, ErrLost)
		}
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		require.Contains(t, log.String(), pageMissing)
		require.Contains(t, log.String(), lost.Name.String())
		for i := range 2 * maxMissing {
			_, _ = r.Open(t.Context(), row, append(append(bytes.Clone(magic), byte(i), 1, 2, 3, 4, 5, 6, 7), 0))
		}
		require.Equal(t, maxMissing, strings.Count(log.String(), "\n"))
	}
}
