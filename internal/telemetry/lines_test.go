package telemetry

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestALogWaitsForNoReader: lines beyond what a stalled reader reads are dropped and counted. A
// line has their number once it reads again.
func TestALogWaitsForNoReader(t *testing.T) {
	r, w := io.Pipe() // a write waits for its reader
	log, lines := NewLog(w, slog.LevelInfo)
	const logged = 2 * maxLines
	for range logged {
		log.Info("a line")
	}
	log.Info(strings.Repeat("x", maxLineBytes))
	dropped := lines.Dropped()
	require.GreaterOrEqual(t, dropped, int64(logged-maxLines), "one line is with the reader, and one is too long")
	read := bufio.NewScanner(r)
	count := int64(0)
	for read.Scan() && !strings.Contains(read.Text(), "were dropped") {
		count++
	}
	require.Contains(t, read.Text(), `"level":"WARN"`)
	require.Contains(t, read.Text(), `"lines":`)
	require.Equal(t, logged+1-count, dropped)
	log.Info("and from here on")
	require.True(t, read.Scan())
	require.Contains(t, read.Text(), "and from here on")
	require.Equal(t, dropped, lines.Dropped(), "it is logged once")
	go func() { _, _ = io.Copy(io.Discard, r) }()
	lines.Close()
}

// TestAStalledReaderDoesNotKeepAProcess from its end, nor does one that has ended.
func TestAStalledReaderDoesNotKeepAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		lines := NewLines(w)
		_, err := lines.Write([]byte("a line\n"))
		require.NoError(t, err)
		lines.Close()
		require.NoError(t, r.CloseWithError(errors.New("gone")))
		synctest.Wait()
		require.Equal(t, int64(1), lines.Dropped(), "a line that the reader refuses is lost")
	})
}

// TestTheLastLinesAreWritten before a process ends.
func TestTheLastLinesAreWritten(t *testing.T) {
	var out strings.Builder
	log, lines := NewLog(&out, slog.LevelInfo)
	for range 100 {
		log.Info("a line")
	}
	lines.Close()
	require.Equal(t, 100, strings.Count(out.String(), "\n"))
	require.Zero(t, lines.Dropped())
}
