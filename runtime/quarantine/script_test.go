package quarantine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftserve/weft/runtime/tensor"
)

// script plays events, one a line, and compares what is said to each:
//
//	find a | begin a | leave a [endless] | end a crashed because SIGFPE | review | poison | waiting a | versions > answer
//	wait 10m
//
// A request is one to version 1, unless its name ends in @ and another. A line may have several events, with ";"
// between them; one that begins with "1..9:" is played for each number, in the place of "#". An event without an answer
// must have none.
type script struct {
	Requests
	retries map[string]*Retry // the latest of a request
	stopped string
	endless bool
	// released: the context of a run was, which has ended
	released bool
}

var ranged = regexp.MustCompile(`^(\d+)\.\.(\d+): (.*)`)

func play(text string) error {
	s := &script{retries: map[string]*Retry{}}
	for at, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		from, to := 0, 0
		if m := ranged.FindStringSubmatch(line); m != nil {
			from, _ = strconv.Atoi(m[1])
			to, _ = strconv.Atoi(m[2])
			line = m[3]
		}
		for i := from; i <= to; i++ {
			for one := range strings.SplitSeq(strings.ReplaceAll(line, "#", strconv.Itoa(i)), ";") {
				event, want, _ := strings.Cut(one, ">")
				if got := s.event(event); got != strings.TrimSpace(want) {
					return fmt.Errorf("%d: %s> %s", at+1, event, got)
				}
			}
		}
	}
	return nil
}

func (s *script) event(line string) (answer string) {
	line, cause, _ := strings.Cut(line, " because ")
	words := append(strings.Fields(line), "", "", "")
	name, version, _ := strings.Cut(words[1], "@")
	of, inputs := Origin{Model: "m", Files: version}, []tensor.Tensor{{Data: []byte(name)}}
	t := s.retries[words[1]]
	s.stopped, s.released, s.endless = "", false, words[2] == "endless"
	switch words[0] {
	case "wait":
		d, _ := time.ParseDuration(words[1])
		time.Sleep(d)
	case "find":
		return said(s.Find(of, inputs))
	case "begin":
		stop := func(err error) {
			if s.released = err == nil; !s.released {
				s.stopped += "stop"
			}
		}
		known, begins := s.Begin(of, inputs, stop, func() bool { return s.endless })
		if !begins {
			return said(known)
		}
		s.retries[words[1]] = known.Retry
		return "begins"
	case "leave":
		t.Leave()
	case "end":
		for outcome := Answered; outcome <= Undecided; outcome++ {
			if outcome.String() == words[2] {
				err := errors.New(strings.TrimSpace(cause))
				t.End(outcome, err, func() { answer = "take it out" })
				if <-t.Ended(); !errors.Is(t.Err(), err) || !s.released {
					return "it has not ended"
				}
				return answer
			}
		}
		return "no outcome"
	case "review":
		s.endless = true
		s.Review(of)
	case "poison":
		return strconv.Itoa(s.Poison(of))
	case "versions": // the ones that anything is known about
		if s.some.Load() != (len(s.of) > 0) {
			return "are not looked up"
		}
		return strconv.Itoa(len(s.of))
	case "waiting":
		return strconv.Itoa(t.callers)
	default:
		return "no event"
	}
	return s.stopped
}

func said(k Known) string {
	switch {
	case k.Poison != nil:
		return "poison: " + k.Poison.Error()
	case k.Suspect != nil:
		return "suspect: " + k.Suspect.Error()
	case k.Retry != nil:
		return "wait"
	}
	return "nothing"
}

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			if err := play(string(text)); err != nil {
				t.Errorf("%s:%v", file, err)
			}
		})
	}
}

// TestAScriptIsWatched: a script that disagrees is found out.
func TestAScriptIsWatched(t *testing.T) {
	for _, bad := range []string{
		"begin a", "begin a > wait", "begin a > begins\nend a crashed > take it out", "look a",
		"begin a > begins\nend a nowhere", "begin a > begins\nend a crashed because SIGFPE\nfind a > poison: SIGSEGV",
	} {
		if play(bad) == nil {
			t.Errorf("nothing is wrong with %q", bad)
		}
	}
}
