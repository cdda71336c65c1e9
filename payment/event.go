package payment

import (
	"strconv"
	"strings"

	"github.com/homeward-io/homeward/outbox"
)

// What became of an object: its status in an event, and the second half of the
// event's type.
const (
	statusSucceeded = "succeeded"
	statusDeclined  = "declined" // for now: the same key may try again
	statusFailed    = "failed"   // for good
	statusExpired   = "expired"
)

// events are the messages that tell every sink of one event about the object, whose
// rendering is given. All bytes follow from stored values: whoever makes the attempt
// again under the same fence makes the same event.
func (t *attempt) events(status string, object []byte) []outbox.Message {
	if len(t.o.Sinks) == 0 {
		return nil
	}
	fence := t.Record.Fence
	if t.Closing {
		// Closing raises no fence, and the decline before it has an event of its own.
		// Whoever takes the next fence keeps the closing from being recorded.
		fence++
	}
	id := "evt_" + t.Record.Minted.ID + "_" + strconv.FormatUint(fence, 10)
	b := make([]byte, 0, renderRoom+len(object))
	b = append(b, `{"id":`...)
	b = appendString(b, id)
	b = append(b, `,"type":"`...)
	b = append(b, Object(t.op)...)
	b = append(b, '.')
	b = append(b, status...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, t.Now.Unix(), 10)
	b = append(b, `,"data":`...)
	b = append(b, object...)
	b = append(b, '}')
	all := make([]outbox.Message, len(t.o.Sinks))
	for i, sink := range t.o.Sinks {
		all[i] = outbox.Message{ID: id + "/" + strings.TrimPrefix(string(sink), "event_"), Kind: sink, Payload: b}
	}
	return all
}

// failure is the event of an object for which no money moved, or is not known to
// have: as it was asked for, with a status and the code that says why.
func (t *attempt) failure(status, code string) []outbox.Message {
	if len(t.o.Sinks) == 0 || t.intent.Operation == "" {
		return nil // nobody to tell, or nothing to tell of a request that does not parse
	}
	b := appendObject(make([]byte, 0, renderRoom+t.intent.sent()), t.Record.Minted, &t.intent, status)
	b = append(b, `,"code":`...)
	b = appendString(b, code)
	return t.events(status, append(b, '}'))
}
