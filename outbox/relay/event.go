package relay

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/homeward-io/homeward/outbox"
)

// Event is one event on its way to one sink.
type Event struct {
	// ID is the same for all sinks and all repetitions.
	ID string
	// Type is the event's type, as in "charge.succeeded".
	Type string
	// Object is the id of the charge, transfer or refund.
	Object string
	Tenant string
	// Payload is the JSON that consumers receive, the same bytes each time.
	Payload []byte
}

// errNotAnEvent: the row does not parse, so no retry can succeed.
var errNotAnEvent = errors.New("this row holds no event; park it")

// readEvent parses the event of a row.
func readEvent(m outbox.Message) (Event, error) {
	var envelope struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(m.Payload, &envelope); err != nil {
		return Event{}, fmt.Errorf("%w (its payload is not JSON: %v)", errNotAnEvent, err)
	}
	id, _, _ := strings.Cut(m.ID, "/")
	switch {
	case envelope.ID != id:
		return Event{}, fmt.Errorf("%w (row %q carries event %q)", errNotAnEvent, m.ID, envelope.ID)
	case envelope.Type == "" || envelope.Data.ID == "":
		return Event{}, fmt.Errorf("%w (its payload lacks type or data.id)", errNotAnEvent)
	}
	return Event{ID: id, Type: envelope.Type, Object: envelope.Data.ID, Tenant: m.Tenant, Payload: m.Payload}, nil
}
