package sqlstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMaxOffsetOfACommandLine(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want time.Duration
	}{
		"not said":       {[]string{"cockroach", "start", "--insecure"}, 500 * time.Millisecond},
		"joined":         {[]string{"cockroach", "start", "--max-offset=250ms"}, 250 * time.Millisecond},
		"apart":          {[]string{"cockroach", "start", "--max-offset", "1s", "--insecure"}, time.Second},
		"the last":       {[]string{"cockroach", "--max-offset=250ms", "--max-offset=300ms"}, 300 * time.Millisecond},
		"another's name": {[]string{"cockroach", "--no-max-offset=250ms"}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := maxOffset(c.args)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	_, err := maxOffset([]string{"--max-offset=experimental-clockless"})
	require.ErrorContains(t, err, "experimental-clockless")
}
