package weftest

import (
	"testing"
	"time"
)

// Until returns when a condition holds that nothing tells of but looking. It fails the test, which must be the
// caller's goroutine, when that does not come within Patience; what names the condition.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}
