// Package spill partitions more rows than fit into memory into temporary files, so that
// rows of one key can be processed together, one part at a time.
package spill

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

const (
	// writeBuffer is small because every part has one while rows arrive; readBuffer is
	// not, as one part is read at a time.
	writeBuffer = 4 << 10
	readBuffer  = 64 << 10
)

// Parts are rows in temporary files. Put all of them first, then take the parts one
// after the other. Not safe for concurrent use; Close it.
type Parts[T any] struct {
	files []*os.File
	bufs  []*bufio.Writer
	encs  []*gob.Encoder
}

// New makes n files in dir, which the caller deletes after Close. The name is for
// people who look into dir.
func New[T any](dir, name string, n int) (*Parts[T], error) {
	p := &Parts[T]{}
	for i := range n {
		f, err := os.CreateTemp(dir, fmt.Sprintf("%s-%d-", name, i))
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("make a temporary file: %w", err)
		}
		buf := bufio.NewWriterSize(f, writeBuffer)
		p.files, p.bufs, p.encs = append(p.files, f), append(p.bufs, buf), append(p.encs, gob.NewEncoder(buf))
	}
	return p, nil
}

// Put adds a row. Rows of one key are in one part.
func (p *Parts[T]) Put(key string, row T) error {
	h := fnv.New32a()
	_, _ = io.WriteString(h, key) // a hash takes everything
	if err := p.encs[h.Sum32()%uint32(len(p.encs))].Encode(row); err != nil {
		return fmt.Errorf("write a temporary file: %w; make room for it", err)
	}
	return nil
}

// Each passes the rows of part i to take, in the order in which they were put.
func (p *Parts[T]) Each(i int, take func(T)) error {
	if err := p.bufs[i].Flush(); err != nil {
		return fmt.Errorf("write a temporary file: %w; make room for it", err)
	}
	if _, err := p.files[i].Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read a temporary file: %w", err)
	}
	for dec := gob.NewDecoder(bufio.NewReaderSize(p.files[i], readBuffer)); ; {
		var row T
		switch err := dec.Decode(&row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a temporary file: %w", err)
		}
		take(row)
	}
}

// Len is the number of parts.
func (p *Parts[T]) Len() int { return len(p.files) }

// Close closes the files; it deletes none.
func (p *Parts[T]) Close() {
	for _, f := range p.files {
		_ = f.Close() // its content is not needed any more
	}
}
