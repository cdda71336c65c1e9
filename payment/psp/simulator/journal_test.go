package simulator

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// story leaves every kind of record behind and returns how each key is answered.
func story(t *testing.T, s *Simulator) map[string]reply {
	t.Helper()
	return map[string]reply{
		"visa":   charge(s, "visa", "ch_1", "pm_card_visa"),
		"quoted": charge(s, `q"\<&>`, `ch_"2\`, "pm_card_visa"),
		"once":   charge(s, "once", "ch_3", "pm_card_insufficient_funds_once"),
		"none":   charge(s, "", "ch_1", "pm_card_visa"),
		"closed": do(s, "POST", "/v1/transfers", "closed", body("tr_1", 7, "acct_closed")),
		"refund": do(s, "POST", "/v1/refunds", "refund", body("re_1", 1000, "psp_ch_000000000001")),
	}
}

var storySummary = Summary{Effects: 4, Keys: 5, DuplicateEffects: 1, Refunds: 1}

// TestOnlyAHeldLockIsInUse: another obstacle is named as that.
func TestOnlyAHeldLockIsInUse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	_, err := Open(Config{Dir: dir})
	require.ErrorContains(t, err, "is in use: stop the other simulator")
	require.NoError(t, s.Close())

	broken := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(broken, lockName), 0o700)) // no process can open it for writing
	_, err = Open(Config{Dir: broken})
	require.ErrorContains(t, err, broken+" cannot be locked: ")
	require.ErrorContains(t, err, syscall.EISDIR.Error())
	require.NotContains(t, err.Error(), "in use")

	opening := func(err error) error { return &fs.PathError{Op: "open", Path: lockName, Err: err} }
	for err, want := range map[error]bool{
		syscall.EAGAIN: true, syscall.EACCES: true, errors.New("lock held by current process"): true,
		syscall.ENOLCK: false, opening(syscall.EACCES): false, opening(syscall.EROFS): false, opening(syscall.EMFILE): false,
	} {
		require.Equal(t, want, held(err), "%v", err)
	}
}

func TestReopenRemembersEverything(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	first := story(t, s)
	effects := s.Effects()
	wantSummary(t, s, storySummary)
	for range 2 {
		closeNow(t, s)
		s = open(t, Config{Dir: dir})
		wantSummary(t, s, storySummary)
		if got := s.Effects(); fmt.Sprint(got) != fmt.Sprint(effects) {
			t.Errorf("effects %+v, want %+v", got, effects)
		}
		for name, again := range map[string]reply{
			"visa":   charge(s, "visa", "ch_1", "pm_card_visa"),
			"quoted": charge(s, `q"\<&>`, `ch_"2\`, "pm_card_visa"),
			"once":   charge(s, "once", "ch_3", "pm_card_insufficient_funds_once"),
			"closed": do(s, "POST", "/v1/transfers", "closed", body("tr_1", 7, "acct_closed")),
			"refund": do(s, "POST", "/v1/refunds", "refund", body("re_1", 1000, "psp_ch_000000000001")),
		} {
			if again != first[name] {
				t.Errorf("%s: %+v, want %+v", name, again, first[name])
			}
		}
		charge(s, "visa", "ch_1", "pm_card_stolen").want(t, 409, "key_reuse")
	}
	do(s, "POST", "/v1/refunds", "refund2", body("re_2", 251, "psp_ch_000000000001")).want(t, 402, "refund_exceeds_charge")
	charge(s, "once2", "ch_3", "pm_card_insufficient_funds_once").want(t, 200, "succeeded")
}

// TestTornLastLine cuts the file at every byte of its last line: the outcome on it is lost, all
// others are there, and the key can be used as if new.
func TestTornLastLine(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	story(t, s)
	last := charge(s, "last", "ch_last", "pm_card_visa")
	closeNow(t, s)
	whole := readJournal(t, dir)
	start := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := start; cut < len(whole); cut++ {
		dir := writeJournal(t, whole[:cut])
		s := open(t, Config{Dir: dir})
		wantSummary(t, s, storySummary)
		if again := charge(s, "last", "ch_last", "pm_card_visa"); again != last {
			t.Fatalf("cut at %d: %+v, want %+v", cut, again, last)
		}
		closeNow(t, s)
		if got := readJournal(t, dir); !bytes.Equal(got, whole) {
			t.Fatalf("cut at %d: the repaired journal differs:\n%s", cut, got)
		}
	}
}

// What replaces a torn line may be shorter than it was.
func TestTornLineLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	charge(s, strings.Repeat("k", maxText), "ch_long", "pm_card_visa")
	closeNow(t, s)
	whole := readJournal(t, dir)
	dir = writeJournal(t, whole[:len(whole)-1])
	s = open(t, Config{Dir: dir})
	charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
	closeNow(t, s)
	if got := readJournal(t, dir); bytes.Count(got, []byte("\n")) != 2 || got[len(got)-1] != '\n' {
		t.Errorf("want the header and one line, got\n%s", got)
	}
	wantSummary(t, open(t, Config{Dir: dir}), Summary{Effects: 1, Keys: 1})
}

func TestTornHeaderStartsEmpty(t *testing.T) {
	for cut := range len(journalHeader) {
		s := open(t, Config{Dir: writeJournal(t, []byte(journalHeader[:cut]))})
		wantSummary(t, s, Summary{})
		charge(s, "k", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
		closeNow(t, s)
	}
}

// TestDamageIsRefused changes every byte before the last line, one at a time.
func TestDamageIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	charge(s, "a", "ch_1", "pm_card_visa")
	charge(s, "b", "ch_2", "pm_card_visa")
	charge(s, "c", "ch_3", "pm_card_visa")
	closeNow(t, s)
	whole := readJournal(t, dir)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	dir = t.TempDir()
	for i := range last {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1
		refuses(t, dir, damaged, fmt.Sprintf("byte %d", i))
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	join := func(at ...int) (out []byte) {
		for _, i := range at {
			out = append(out, lines[i]...)
		}
		return out
	}
	refuses(t, dir, join(0, 1, 3), "a line is missing")
	refuses(t, dir, join(0, 2, 1, 3), "lines changed places")
	refuses(t, dir, join(0, 1, 1, 2, 3), "a line is there twice")
	refuses(t, dir, join(1, 2, 3), "no header")
	refuses(t, dir, []byte("notes\n"), "some other file")
	refuses(t, dir, []byte("notes"), "some other file, unfinished")
	refuses(t, dir, append(join(0, 1), make([]byte, maxLine+1)...), "a long tail of zeros")
	refuses(t, dir, append(join(0, 1), bytes.Repeat([]byte("x"), 1<<17)...), "a line without end")
	// Damage on a whole last line is damage too: the line was answered.
	damaged := bytes.Clone(whole)
	damaged[len(damaged)-10] ^= 1
	refuses(t, dir, damaged, "last line")
}

func refuses(t *testing.T, dir string, journal []byte, what string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, journalName), journal, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Dir: dir})
	if err == nil {
		_ = s.Close()
		t.Errorf("%s: opened", what)
		return
	}
	if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), dir) {
		t.Errorf("%s: not one line that names the file: %q", what, err)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	if second, err := Open(Config{Dir: dir}); err == nil {
		_ = second.Close()
		t.Fatal("two simulators share a directory")
	}
	closeNow(t, s)
	closeNow(t, open(t, Config{Dir: dir}))
}

func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: filepath.Join(file, "dir")}); err == nil {
		t.Error("opened below a file")
	}
}

// When the journal cannot be written nothing is answered or counted, then or
// later.
func TestBrokenJournalStopsEverything(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	charge(s, "good", "ch_1", "pm_card_visa").want(t, 200, "succeeded")
	if err := s.journal.file.Close(); err != nil { // as a disk that failed
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if r := charge(s, fmt.Sprint("k", i), fmt.Sprint("ch_", i), "pm_card_visa"); r.status != 503 {
				t.Errorf("got %+v, want 503", r)
			}
		})
	}
	wg.Wait()
	charge(s, "good", "ch_1", "pm_card_visa").want(t, 503, "storage")
	found := 0
	for i := range 50 {
		if r := do(s, "GET", fmt.Sprintf("/v1/lookup?kind=charge&reference=ch_%d", i), "", ""); r.status == 200 {
			found++
		}
	}
	if found != 1 { // ch_1, which was durable before
		t.Errorf("%d references found, want 1", found)
	}
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
	if s.Close() == nil {
		t.Error("Close returned no error")
	}
	s = open(t, Config{Dir: dir})
	wantSummary(t, s, Summary{Effects: 1, Keys: 1})
}

// victimDir makes the test binary the process that TestSIGKILL kills.
const victimDir = "HOMEWARD_TEST_SIMULATOR_DIR"

// victim charges for ever from many goroutines and prints each answered key.
func victim(dir string) int {
	s, err := Open(Config{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
				if r := charge(s, key, "ch_"+key, "pm_card_visa"); r.status == 200 {
					fmt.Println(key)
				}
			}
		})
	}
	wg.Wait()
	return 0
}

// TestSIGKILL kills a real process in the middle of its work, several times on
// the same directory: whatever was answered is on the books, once.
func TestSIGKILL(t *testing.T) {
	dir := t.TempDir()
	answered := map[string]bool{}
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		enough := len(answered) + 300
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil { // the process is dead; a line without end was no answer
				break
			}
			answered[strings.TrimSuffix(line, "\n")] = true
			if len(answered) == enough {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		if len(answered) < enough {
			t.Fatalf("round %d: only %d answers", round, len(answered))
		}
		s := open(t, Config{Dir: dir})
		booked := map[string]int{}
		for _, e := range s.Effects() {
			booked[e.ProviderKey]++
		}
		for key := range answered {
			if booked[key] != 1 {
				t.Errorf("round %d: key %s was answered and is on the books %d times", round, key, booked[key])
			}
		}
		if sum := s.Summary(); sum.DuplicateEffects != 0 || sum.Effects != sum.Keys || int(sum.Effects) < len(answered) {
			t.Errorf("round %d: %+v with %d answers", round, sum, len(answered))
		}
		closeNow(t, s)
	}
}

func readJournal(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeJournal(t *testing.T, b []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
