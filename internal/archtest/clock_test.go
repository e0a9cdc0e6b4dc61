package archtest

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// sleepsInTests forbids time.Sleep in test files outside testing/synctest, whose sleeps take no time.
func sleepsInTests(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if !f.test || slices.Contains(f.imports(), "testing/synctest") {
			continue
		}
		for _, use := range f.uses("time", "Sleep") {
			complaints = append(complaints, f.at(use.Pos())+": a test must not sleep to wait for something: "+
				"use a channel, or testing/synctest where a sleep takes no time")
		}
	}
	return complaints
}

// clockInCore keeps the clock and goroutines out of the state machines of the scheduler and of residency, of everything
// they are made of, and of the simulator. sharedsched/shell brings both to the scheduler, and schedtest is the harness
// that tests put around that.
func clockInCore(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test || !covers("sharedsched/...", f.dir) && f.dir != "runtime/residency" &&
			f.dir != "tools/lab/sim" ||
			f.dir == "sharedsched/schedtest" || f.dir == "sharedsched/shell" {
			continue
		}
		for _, use := range f.uses("time", "Now", "Since", "Until", "After", "AfterFunc", "Sleep",
			"Tick", "NewTicker", "NewTimer", "Timer", "Ticker") {
			complaints = append(complaints,
				fmt.Sprintf("%s: time.%s: a state machine is told the time; only sharedsched/shell may look",
					f.at(use.Pos()), use.Sel.Name))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if n, ok := n.(*ast.GoStmt); ok {
				complaints = append(complaints,
					f.at(n.Pos())+": a state machine starts no goroutine; only sharedsched/shell does")
			}
			return true
		})
	}
	return complaints
}

func TestSleepsInTests(t *testing.T) { holds(t, sleepsInTests) }

func TestSleepsInTestsComplain(t *testing.T) {
	const sleep = "func f() { time.Sleep(time.Second) }\n"
	wantComplaint(t, sleepsInTests, map[string]string{"a/a_test.go": "import \"time\"\n" + sleep}, "a/a_test.go:3")
	wantComplaint(t, sleepsInTests, map[string]string{
		"a/a_test.go": "import clock \"time\"\nfunc f() { clock.Sleep(1) }\n",
	}, "a/a_test.go:3")
	wantNone(t, sleepsInTests, map[string]string{
		"a/a_test.go":    "import (\n\"time\"\n\"testing/synctest\"\n)\nvar _ = synctest.Test\n" + sleep,
		"a/a.go":         "import \"time\"\n" + sleep,
		"a/data_test.go": "import \"time\"\nvar s = \"time.Sleep(1)\"\nvar _ time.Duration\n",
	})
}

func TestClockInCore(t *testing.T) { holds(t, clockInCore) }

func TestClockInCoreComplains(t *testing.T) {
	for _, call := range []string{"Now()", "Since(x)", "After(1)", "NewTimer(1)"} {
		src := "import \"time\"\nvar x time.Time\nvar _ = time." + call + "\n"
		wantComplaint(t, clockInCore, map[string]string{"sharedsched/core_pick.go": src},
			"time."+strings.TrimRight(call, "(x1)"))
		wantComplaint(t, clockInCore, map[string]string{"sharedsched/cost/cost.go": src}, "sharedsched/cost/cost.go:4")
		wantComplaint(t, clockInCore, map[string]string{"runtime/residency/step.go": src},
			"runtime/residency/step.go:4")
		wantNone(t, clockInCore, map[string]string{
			"sharedsched/shell/timer.go": src, "sharedsched/core_test.go": src, "server/server.go": src,
			"sharedsched/schedtest/executor.go": src,
		})
	}
	wantComplaint(t, clockInCore, map[string]string{"sharedsched/core.go": "func f() { go f() }\n"},
		"starts no goroutine")
	wantNone(t, clockInCore,
		map[string]string{"sharedsched/core.go": "import \"time\"\nvar _ time.Duration = time.Second\n"})
}
