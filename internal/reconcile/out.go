package reconcile

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// outFile is --out: a temporary file until it is complete. Without a name it discards
// everything.
type outFile struct {
	name string
	f    *os.File
	buf  *bufio.Writer
}

func newOutFile(name string) (*outFile, error) {
	if name == "" {
		return &outFile{}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return &outFile{name, f, bufio.NewWriter(f)}, nil
}

func (o *outFile) write(m Mismatch) error {
	if o.f == nil {
		return nil
	}
	if err := json.NewEncoder(o.buf).Encode(m); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// finish renames the file to its name, unless there was an error.
func (o *outFile) finish(failed error) error {
	if o.f == nil {
		return failed
	}
	err := errors.Join(o.buf.Flush(), o.f.Close())
	if err == nil && failed == nil {
		err = os.Rename(o.f.Name(), o.name)
	}
	if err != nil {
		err = fmt.Errorf("--out: %w", err)
	}
	if err != nil || failed != nil {
		_ = os.Remove(o.f.Name()) // the other error is more useful
	}
	return errors.Join(failed, err)
}
