package node

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/internal/runs"
)

func TestRunsInBuckets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "bucket")
	for _, url := range []string{"file://" + dir, "mem://"} {
		t.Run(url[:4], func(t *testing.T) {
			ctx := t.Context()
			r, err := OpenRuns(ctx, url)
			require.NoError(t, err)
			defer func() { require.NoError(t, r.Close()) }()
			none, err := r.Book().List(ctx, runs.Drill, 5)
			require.NoError(t, err)
			require.Empty(t, none)
			for i := range 3 {
				k, err := r.Book().Begin(ctx, runs.Run{Kind: runs.Drill, Of: fmt.Sprint(i)})
				require.NoError(t, err)
				k.Step(ctx, "a step")
				require.NoError(t, k.End(ctx, func(r *runs.Run) { r.Verdict, r.Sentence = runs.Good, "card 4242 4242 4242 4242" }))
			}
			all, err := r.Book().List(ctx, runs.Drill, 5)
			require.NoError(t, err)
			require.Len(t, all, 3)
			for _, one := range all {
				require.Equal(t, runs.Good, one.Verdict)
				require.NotContains(t, one.Sentence, "4242")
			}
			_, err = r.Book().Get(ctx, runs.Verify, all[0].ID)
			require.ErrorIs(t, err, runs.ErrNone)
		})
	}
	// What another process does not see, or a crash leaves, is no report.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "drill", "fileblob0815"), []byte("{"), 0o600))
	r, err := OpenRuns(t.Context(), "file://"+dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	all, err := r.Book().List(t.Context(), runs.Drill, 5)
	require.NoError(t, err)
	require.Len(t, all, 3)

	none, err := OpenRuns(t.Context(), "")
	require.NoError(t, err)
	require.Nil(t, none.Book())
	require.NoError(t, none.Close())
}

// A node's memory is seen by no command, and holds nothing that has to last.
func TestMemoryIsNoBucketOfSettings(t *testing.T) {
	for _, name := range []string{"runs", "objects", "audit.bucket"} {
		require.ErrorContains(t, bucketMistake(name, "mem://", ""), name)
	}
	require.NoError(t, bucketMistake("runs", "file:///runs", ""))
}

// keptHere names the bucket in which the test's own child keeps a run until it is killed.
const keptHere = "HOMEWARD_TEST_RUNS_OF_A_CHILD"

// Whenever a command is killed, its run is there, whole, as one that has not ended.
func TestARunOfAKilledProcessStaysOpen(t *testing.T) {
	if url := os.Getenv(keptHere); url != "" {
		r, err := OpenRuns(t.Context(), url)
		require.NoError(t, err)
		k, err := r.Book().Begin(t.Context(), runs.Run{Kind: runs.Drill, Of: "region-loss us-east1"})
		require.NoError(t, err)
		fmt.Println("begun")
		for {
			k.Step(t.Context(), strings.Repeat("a step ", 50))
		}
	}
	url := "file://" + t.TempDir()
	for i := range 4 {
		child := exec.Command(os.Args[0], "-test.run=^TestARunOfAKilledProcessStaysOpen$")
		child.Env = append(os.Environ(), keptHere+"="+url)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "begun" {
		}
		time.Sleep(time.Duration(i) * 3 * time.Millisecond) // somewhere in a write
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // it was killed
	}
	r, err := OpenRuns(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	all, err := r.Book().List(t.Context(), runs.Drill, 10)
	require.NoError(t, err)
	require.Len(t, all, 4)
	for _, one := range all {
		require.Equal(t, runs.Open, one.Verdict, one.Sentence)
	}
}
