package region

import (
	"testing"

	"go.uber.org/goleak"
)

// memberlist's last probe waits for its answer for up to a second after Shutdown
// and then ends by itself. So does its Leave, by LeaveTimeout, if all others have left.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).Leave"))
}
