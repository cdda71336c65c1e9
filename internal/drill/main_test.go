package drill

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// width is how many drills run side by side: they wait, most of the time.
const width = "12"

func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		_ = flag.Set("test.parallel", width) // the flag exists in every test
	}
	goleak.VerifyTestMain(m)
}
