package history

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// Fault is what was done to the cluster, from Call to Return.
type Fault struct {
	Fault        string
	Call, Return int64
}

// AddFault adds a fault that began at start and ended just now.
func (h *History) AddFault(what string, start time.Time) {
	f := Fault{what, at(start), at(time.Now())}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, f)
}

// Write writes operations and faults, in the order of their beginnings: a line of JSON each. Times
// are Unix time in nanoseconds. An operation without an answer has the last of all times as its
// Return.
func (h *History) Write(w io.Writer) error {
	type line struct {
		call int64
		what any
	}
	var all []line
	for _, o := range h.Operations() {
		all = append(all, line{o.Call, o})
	}
	h.mu.Lock()
	for _, f := range h.faults {
		all = append(all, line{f.Call, f})
	}
	h.mu.Unlock()
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.call, b.call) })
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, l := range all {
		if err := enc.Encode(l.what); err != nil {
			return err
		}
	}
	return nil
}

// Read reads what [History.Write] wrote.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	for dec := json.NewDecoder(r); ; {
		var l struct {
			Fault
			ClientId int
			Input    Sent
			Output   Got
			Metadata string
		}
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return h, nil
		} else if err != nil {
			return nil, err
		}
		if l.Fault.Fault != "" {
			h.faults = append(h.faults, l.Fault)
			continue
		}
		o := porcupine.Operation{ClientId: l.ClientId, Input: l.Input, Call: l.Call, Output: l.Output, Return: l.Return}
		if l.Metadata != "" {
			o.Metadata = l.Metadata
		}
		h.ops = append(h.ops, o)
	}
}

// Of returns the history of one key, and the faults that it saw.
func (h *History) Of(key string) *History {
	one := &History{}
	from, to := int64(math.MaxInt64), int64(0)
	for _, o := range h.Operations() {
		if o.Input.(Sent).Key == key {
			one.ops = append(one.ops, o)
			from, to = min(from, o.Call), max(to, o.Call)
			if o.Return != math.MaxInt64 { // else it was never answered
				to = max(to, o.Return)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.faults {
		if f.Call <= to && f.Return >= from {
			one.faults = append(one.faults, f)
		}
	}
	return one
}

// perKey bounds the check of one key's order. One takes milliseconds.
const perKey = time.Minute
