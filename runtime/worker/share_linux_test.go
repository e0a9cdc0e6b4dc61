package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns: a run in quarantine keeps the turn for so long, and for longer while there is no place apart for it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuarantine(nil)
		turn := func(turn time.Duration) (ended chan struct{}, apart chan bool) {
			q.turn <- struct{}{}
			ended, apart = make(chan struct{}), make(chan bool, 1)
			go func() { apart <- q.share(turn, ended) }()
			return ended, apart
		}
		begin := time.Now()
		for i := range quarantineApart {
			if _, apart := turn(time.Second); !<-apart || time.Since(begin) != time.Duration(i+1)*time.Second {
				t.Fatalf("run %d does not leave its turn after a second: %v", i, time.Since(begin))
			}
		}
		_, apart := turn(time.Second)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(apart) != 0 || len(q.turn) != 1 {
			t.Error("a run gives its turn away, but there is no place for it")
		}
		<-q.apart
		if !<-apart || len(q.turn) != 0 {
			t.Error("a run does not take the place that another one left")
		}
		<-q.apart
		ended, apart := turn(0)
		time.Sleep(time.Hour)
		close(ended)
		if <-apart || len(q.turn) != 1 {
			t.Error("a run gives its turn away that it has until its end")
		}
	})
}
