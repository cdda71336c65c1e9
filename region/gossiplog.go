package region

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// stdLogger passes memberlist's lines, "[WARN] memberlist: …", on to slog. Membership
// is a hint, so no operator needs to act on its errors: they are logged as warnings.
func stdLogger(to *slog.Logger) *log.Logger {
	return log.New(gossipLog{to.With("component", "memberlist")}, "", 0)
}

type gossipLog struct{ to *slog.Logger }

var gossipLevels = []struct {
	prefix string
	level  slog.Level
}{
	{"[DEBUG] ", slog.LevelDebug},
	{"[INFO] ", slog.LevelInfo},
	{"[WARN] ", slog.LevelWarn},
	{"[ERR] ", slog.LevelWarn},
	{"[ERROR] ", slog.LevelWarn},
}

// Write takes one line, as log.Logger guarantees.
func (g gossipLog) Write(line []byte) (int, error) {
	text, level := bytes.TrimSpace(line), slog.LevelInfo
	for _, l := range gossipLevels {
		if rest, ok := bytes.CutPrefix(text, []byte(l.prefix)); ok {
			text, level = rest, l.level
			break
		}
	}
	if bytes.Contains(text, []byte(otherEnd)) {
		return len(line), nil // the view logs whom it refuses, once and not each time
	}
	text = bytes.TrimPrefix(text, []byte("memberlist: "))
	if ctx := context.Background(); g.to.Enabled(ctx, level) {
		g.to.Log(ctx, level, string(text))
	}
	return len(line), nil
}
