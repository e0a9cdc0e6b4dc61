package breaker_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/server/breaker"
	"github.com/weftserve/weft/server/servertest/script"
)

// bench is a breaker and the changes that it reported.
type bench struct {
	*breaker.Breaker

	told []string
}

func newBench() *bench {
	b := &bench{}
	b.Breaker = breaker.New(func(s breaker.State) {
		b.told = append(b.told, fmt.Sprintf("%s/%d %s: %s", s.Model, s.Version, s.State, s.Reason))
	})
	return b
}

var outcomes = map[string]breaker.Outcome{
	"ignored": breaker.Ignored, "answers": breaker.OK, "slow": breaker.Slow, "faults": breaker.Fault,
}

// event plays one of a script; testdata says which there are.
func (b *bench) event(line string) string {
	b.told = nil
	words := append(strings.Fields(line), "", "")
	model, number, by := "m", int64(1), uint64(0)
	for i, word := range words {
		if of, n, is := strings.Cut(word, "/"); is {
			model = of
			number, _ = strconv.ParseInt(n, 10, 64)
		} else if word == "by" {
			by, _ = strconv.ParseUint(words[i+1], 10, 64)
		}
	}
	answer := ""
	switch words[0] {
	case "allow":
		answer = map[bool]string{true: "yes", false: "no"}[b.Allow(model, number)]
	case "probes": // at most 100
		n := 0
		for n < 100 && b.Allow(model, number) {
			n++
		}
		answer = strconv.Itoa(n)
	case "trials":
		n := -1
		for tried := true; tried; n++ {
			tried = false
			b.Excuse(model, number, 2, func() breaker.Trial { tried = true; return breaker.Untried })
		}
		answer = strconv.Itoa(n)
	case "states":
		var all []string
		for _, s := range b.States() {
			pause := ""
			if s.State == breaker.Open {
				pause = fmt.Sprintf(" of %v", s.Until.Sub(s.Since))
			}
			all = append(all, fmt.Sprintf("%s/%d %s for %v%s, %d requests, %d errors, %d slow", s.Model, s.Version, s.State,
				time.Since(s.Since), pause, s.Requests, s.Errors, s.Slow))
		}
		answer = strings.Join(all, "; ")
	default:
		outcome, known := outcomes[words[1]]
		n, err := strconv.Atoi(words[0])
		if !known || err != nil {
			return "no event"
		}
		for range n {
			b.Done(model, number, outcome, by)
		}
	}
	if answer != "" {
		b.told = append(b.told, answer)
	}
	return strings.Join(b.told, "; ")
}

func TestScripts(t *testing.T) {
	script.Play(t, "testdata/breaker.txt", func(*testing.T) func(string) string { return newBench().event })
}

// TestExcuses: of the requests that are not tried elsewhere, the same part is excused as of the requests that were
// tried, and none where nobody was answered lately.
func TestExcuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		tried := func(trial breaker.Trial) bool {
			b.event("10 slow") // which earn a trial, and are answers
			return b.Excuse("m", 1, 2, func() breaker.Trial { return trial })
		}
		excuse := func(trial breaker.Trial) bool {
			return b.Excuse("m", 1, 2, func() breaker.Trial { return trial })
		}
		if excuse(breaker.FailedToo) || excuse(breaker.Untried) {
			t.Error("a version that never answered, nor did the other, is excused")
		}
		excused := 0
		for i := range 1000 {
			trial := []breaker.Trial{breaker.AnsweredElsewhere, breaker.FailedToo}[min(i%4, 1)]
			if failed := trial == breaker.FailedToo; tried(trial) != failed {
				t.Fatalf("request %d failed elsewhere: %v", i, failed)
			}
			if excuse(breaker.Untried) {
				excused++
			}
		}
		if excused < 700 || excused > 800 {
			t.Errorf("%d of 1000 are excused, want some 750", excused)
		}
		b.event("100 slow")
		time.Sleep(10 * time.Second)
		if excuse(breaker.FailedToo) {
			t.Error("a version is excused by none that has answered for ten seconds")
		}
	})
}

// TestManyAtOnce is for the race detector, and for properties that must hold in any order.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes sync.Map
		b := breaker.New(func(s breaker.State) { changes.Store(s.State, s) })
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for j := range 2_000 {
					outcome := breaker.OK
					if j/100%2 == 0 {
						outcome = breaker.Fault
					}
					if version := int64(j % 3); b.Allow("m", version) {
						b.Done("m", version, outcome, 0)
					}
					b.States()
					if j%50 == 0 {
						time.Sleep(10 * time.Minute) // the longest pause, twice
					}
				}
			})
		}
		wg.Wait()
		for _, phase := range []breaker.Phase{breaker.Open, breaker.HalfOpen, breaker.Closed} {
			if _, ok := changes.Load(phase); !ok {
				t.Errorf("no circuit was ever %s", phase)
			}
		}
	})
}
