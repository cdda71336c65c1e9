package embedded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A head is believed for a while after a look at everything, however often looks from
// the head itself move it on.
func TestHeadsAreForgotten(t *testing.T) {
	var h heads
	now := time.Now()
	require.Zero(t, h.at(notices, 1, now))
	h.saw(notices, 1, 0, 10, now)
	require.EqualValues(t, 10, h.at(notices, 1, now))
	require.Zero(t, h.at(notices, 2, now), "of another region")
	require.Zero(t, h.at(events, 1, now), "of another queue")
	later := now.Add(headFor - 1)
	h.saw(notices, 1, 10, 20, later)
	require.EqualValues(t, 20, h.at(notices, 1, later))
	require.Zero(t, h.at(notices, 1, now.Add(headFor)), "too long since everything was looked at")
	require.Zero(t, h.at(notices, 1, now.Add(-1)), "a clock that was set back")
	h.saw(notices, 1, 0, 5, later)
	require.EqualValues(t, 5, h.at(notices, 1, now.Add(headFor)), "a row before the head")
}
