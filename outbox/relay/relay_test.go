package relay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/homeward-io/homeward/outbox/relay"
)

func TestWhatADeliveryChanges(t *testing.T) {
	var never time.Time
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	const disableAfter = 10 * time.Minute
	for _, c := range []struct {
		failing, disabled time.Time
		ok                bool
		now               int
		thenFailing       time.Time
		thenDisabled      time.Time
	}{
		{never, never, true, 0, never, never},
		{never, never, false, 0, at(0), never},
		{at(0), never, false, 9, at(0), never},
		{at(0), never, false, 10, at(0), at(10)},
		{at(0), never, false, 11, at(0), at(11)},
		{at(0), never, true, 11, never, never},
		{at(0), at(10), false, 30, at(0), at(10)}, // it stays the time of the first
		{at(0), at(10), true, 30, never, at(10)},  // only its tenant enables it again
		{never, at(10), false, 30, at(30), at(10)},
		{at(5), never, false, 0, at(5), never}, // another node's clock is ahead
	} {
		t.Run(fmt.Sprintf("failing since %v, disabled %v, ok %v", c.failing.Minute(), c.disabled.Minute(), c.ok), func(t *testing.T) {
			e := relay.Endpoint{Tenant: "acme", URL: "u", Secrets: []string{"s"}, FailingSince: c.failing, DisabledAt: c.disabled}
			then := e
			then.FailingSince, then.DisabledAt = c.thenFailing, c.thenDisabled
			require.Equal(t, then, e.After(c.ok, disableAfter, at(c.now)))
		})
	}
}
