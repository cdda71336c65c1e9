package fault

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func breaks(value any) (err error) {
	defer Recover(&err)
	err = errors.New("lost")
	panic(value)
}

func TestAPanicBecomesAnError(t *testing.T) {
	err := breaks("one\n\x00two\xff")
	require.EqualError(t, err, "our code panicked: one \uFFFDtwo\uFFFD")
	var caught *Error
	require.ErrorAs(t, err, &caught)
	require.Contains(t, string(caught.Stack), "fault.breaks", "it shows where")

	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Error("x", "fault", caught)
	require.Contains(t, out.String(), "fault.stack=")
	require.Contains(t, out.String(), "fault.breaks")
}

func TestWhatIsKeptOfAPanicIsShort(t *testing.T) {
	text := breaks(strings.Repeat("ä", 10_000)).Error()
	require.Less(t, len(text), 2*maxText)
	require.True(t, utf8.ValidString(text))
}

func TestNoPanicIsNoError(t *testing.T) {
	require.Nil(t, Caught(func() {}))
	require.NotNil(t, Caught(func() { panic(1) }))
	err := func() (err error) { defer Recover(&err); return errors.New("kept") }()
	require.EqualError(t, err, "kept")
}
