package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestUntilWorks: attempts come after 1, 2, 4, ... s, and at least every 5 min, and end with the context.
func TestUntilWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, tries := time.Now(), 0
		err := untilWorks(t.Context(), func() error {
			if tries++; tries < 11 {
				return errors.New("it is still lost")
			}
			return nil
		})
		// 1 + 2 + 4 + ... + 256 s, then twice 5 min.
		if took := time.Since(start); err != nil || took != 511*time.Second+10*time.Minute {
			t.Errorf("%v after %d attempts in %v", err, tries, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := untilWorks(ctx, func() error { return errors.New("never") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
	})
}
