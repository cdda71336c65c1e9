package cli

import (
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// shown is an output for people. Stored text, which merchants, providers and operators wrote, is
// printed among ours: control characters, which a terminal would obey, become U+FFFD, except tab
// and line feed. Text that is JSON stays JSON. It is safe for concurrent use.
type shown struct {
	out io.Writer

	mu  sync.Mutex
	cut []byte // the beginning of a rune
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.cut, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	s.cut = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(s.out, harmless(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// harmless returns text without what steers a terminal. In tables [visible] also keeps it within its column.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, text)
}

// steered returns the writer behind a [shown], for what is to steer a terminal.
func steered(w io.Writer) io.Writer {
	if s, ok := w.(*shown); ok {
		return s.out
	}
	return w
}
