package simulator

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	journalName = "journal.jsonl"
	lockName    = "LOCK"
	// journalHeader is the first line. A different version is a different line.
	journalHeader = `{"journal":"homeward-psp-simulator","version":1}` + "\n"
	// maxLine bounds a journal line in bytes: three texts of maxText, each byte
	// of which may need escaping, and the fixed members.
	maxLine = 2048
)

// journal is the append-only file of outcomes. One goroutine uses it.
type journal struct {
	file *os.File
	lock io.Closer
}

// entry is one line: an outcome, and a checksum of the bytes before it.
type entry struct {
	N         int    `json:"n"`  // from 1, without gaps
	At        int64  `json:"at"` // ns since the Unix epoch
	Kind      string `json:"kind"`
	Verdict   string `json:"verdict"`
	Key       string `json:"key"`
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Source    string `json:"source"`
	SumHex    string `json:"sum"`
	CRC       string `json:"crc"`

	Sum [16]byte `json:"-"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcMember precedes the checksum; the checksum covers all bytes before it.
const crcMember = `,"crc":"`

// appendEntry appends record n (from 1) as a line. All texts are visible ASCII,
// for which Go's quoting and JSON's agree.
func appendEntry(b []byte, n int, r record, source string) []byte {
	start := len(b)
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, `,"at":`...)
	b = strconv.AppendInt(b, r.at, 10)
	b = append(b, `,"kind":"`...)
	b = append(b, r.kind()...)
	b = append(b, `","verdict":"`...)
	b = append(b, outcomes[r.outcome].Code...)
	b = append(b, `","key":`...)
	b = strconv.AppendQuote(b, r.key())
	b = append(b, `,"reference":`...)
	b = strconv.AppendQuote(b, r.reference())
	b = append(b, `,"amount":`...)
	b = strconv.AppendInt(b, r.amount, 10)
	b = append(b, `,"currency":"`...)
	b = append(b, r.currency[:]...)
	b = append(b, `","source":`...)
	b = strconv.AppendQuote(b, source)
	b = append(b, `,"sum":"`...)
	b = hex.AppendEncode(b, r.sum[:])
	b = append(b, '"')
	crc := crc32.Checksum(b[start:], castagnoli)
	b = append(b, crcMember...)
	b = fmt.Appendf(b, "%08x", crc)
	return append(b, '"', '}', '\n')
}

// parseEntry is the inverse of appendEntry, without the newline.
func parseEntry(line []byte) (entry, error) {
	var e entry
	at := bytes.LastIndex(line, []byte(crcMember))
	if at < 0 {
		return e, errors.New("no checksum")
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, errors.New("not JSON")
	}
	if fmt.Sprintf("%08x", crc32.Checksum(line[:at], castagnoli)) != e.CRC {
		return e, errors.New("checksum does not match")
	}
	if n, err := hex.Decode(e.Sum[:], []byte(e.SumHex)); err != nil || n != len(e.Sum) {
		return e, errors.New("malformed sum")
	}
	return e, nil
}

// openJournal locks dir, hands every entry to apply, in order, and leaves the
// file ready to append to.
func openJournal(dir string, logger *slog.Logger, apply func(entry) error) (_ *journal, err error) {
	notOurs := func(err error) error {
		return fmt.Errorf("simulator: directory %s may not be written by this user; change its owner or choose another directory: %w", dir, err)
	}
	switch err := os.MkdirAll(dir, 0o700); {
	case errors.Is(err, fs.ErrPermission):
		return nil, notOurs(err)
	case err != nil:
		return nil, fmt.Errorf("simulator: create directory: %w; choose another one", err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(dir, lockName))
	switch {
	case err == nil:
	case held(err):
		return nil, fmt.Errorf("simulator: directory %s is in use: stop the other simulator or choose another directory: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, notOurs(err)
	default:
		return nil, fmt.Errorf("simulator: directory %s cannot be locked: %w; it must be writable, on a local file system, with open files to spare (ulimit -n)", dir, err)
	}
	path := filepath.Join(dir, journalName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("simulator: open journal: %w", err), lock.Close())
	}
	j := &journal{file: file, lock: lock}
	if err := j.load(dir, logger, apply); err != nil {
		_ = j.close() // the first error is the one to act on
		return nil, err
	}
	return j, nil
}

// held reports whether err, of a lock on a file, means that a process has it: the kernel's errors
// (fcntl(2) has two) or vfs's own, for this process.
func held(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return true
	}
	_, opening := errors.AsType[*fs.PathError](err)
	return !opening && (errno == syscall.EAGAIN || errno == syscall.EACCES)
}

func (j *journal) load(dir string, logger *slog.Logger, apply func(entry) error) error {
	good, err := j.replay(apply)
	if err != nil {
		return err
	}
	end, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("simulator: seek journal: %w", err)
	}
	if end > good {
		logger.Warn("dropped the journal's last line: it was cut short and never answered",
			"journal", j.file.Name(), "bytes", end-good)
		if err := j.file.Truncate(good); err != nil {
			return fmt.Errorf("simulator: truncate journal: %w", err)
		}
		if _, err := j.file.Seek(good, io.SeekStart); err != nil {
			return fmt.Errorf("simulator: seek journal: %w", err)
		}
	}
	if good == 0 {
		if err := j.append([]byte(journalHeader)); err != nil {
			return err
		}
	} else if err := j.file.Sync(); err != nil {
		return fmt.Errorf("simulator: sync journal: %w", err)
	}
	return syncDir(dir)
}

// replay returns the offset up to which the file is whole. A line without its newline
// is a write that was cut short; any other damage is an error.
func (j *journal) replay(apply func(entry) error) (good int64, err error) {
	in := bufio.NewReaderSize(j.file, 1<<16) // larger than maxLine, so ReadSlice never fills up on a good line
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && n == 1 && !strings.HasPrefix(journalHeader, string(line)):
			return 0, j.foreign()
		case errors.Is(err, io.EOF) && len(line) <= maxLine:
			return good, nil
		case errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull):
			return 0, j.corrupt(n, errors.New("line too long"))
		case err != nil:
			return 0, fmt.Errorf("simulator: read journal: %w", err)
		}
		if n == 1 {
			if string(line) != journalHeader {
				return 0, j.foreign()
			}
		} else {
			e, err := parseEntry(bytes.TrimSuffix(line, []byte("\n")))
			if err == nil {
				err = apply(e)
			}
			if err != nil {
				return 0, j.corrupt(n, err)
			}
		}
		good += int64(len(line))
	}
}

func (j *journal) foreign() error {
	return fmt.Errorf("simulator: %s is not a simulator journal of version 1: choose another directory", j.file.Name())
}

func (j *journal) corrupt(line int, why error) error {
	return fmt.Errorf("simulator: journal %s is corrupt at line %d (%w): restore it from a copy, or move it away to start with nothing", j.file.Name(), line, why)
}

// append writes lines and syncs them. After an error the file's end is unknown, so the caller must
// not append again.
func (j *journal) append(lines []byte) error {
	if _, err := j.file.Write(lines); err != nil {
		return fmt.Errorf("simulator: write journal: %w: make room and restart", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("simulator: sync journal: %w: check the disk and restart", err)
	}
	return nil
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// syncDir makes a new file's name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("simulator: open directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("simulator: sync directory: %w", err)
	}
	return nil
}
