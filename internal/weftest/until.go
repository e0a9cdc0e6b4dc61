package weftest

import (
	"testing"
	"time"
)

// Until polls and returns when a condition holds. It fails the test, whose goroutine must be the caller's, if the
// condition does not hold within Patience; what names the condition.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}
