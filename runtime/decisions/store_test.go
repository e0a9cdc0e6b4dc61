package decisions

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftserve/weft/runtime/catalog"
)

const dir = "/repository/.weft-state"

// of returns the nth decision about a model.
func of(n uint64) Model {
	return Model{Traffic: &catalog.Traffic{
		Revision: n, Source: "SetTraffic", By: "me", At: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Split: []catalog.Slot{{Name: "a", Version: int64(n), Weight: 1}},
	}}
}

func expect(t *testing.T, s *Store, name string, want Model) {
	t.Helper()
	got, _ := s.Recall(name)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("of %s is kept (-want +got):\n%s", name, diff)
	}
}

func mustOpen(t *testing.T, f files) (*Store, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	s, err := open(f, dir, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// TestEveryDecisionIsReadAsItWasWritten, by people too.
func TestEveryDecisionIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 4711, time.UTC)
	m := Model{
		Traffic: &catalog.Traffic{
			Revision: 7, Source: "rollout", By: "gate", At: at,
			Split: []catalog.Slot{{Name: "baseline", Version: 2, Weight: 100}},
			Shadow: []catalog.Shadow{{
				Version: 1, Sample: 0.1, PerRequest: true, Tolerance: 1e-5,
				Tolerances: map[string]float64{"y": 0},
			}},
		},
		RolledBack: []catalog.RolledBack{{Version: 3, At: at, By: "gate", Why: "the gate said ROLLBACK"}},
		Labels:     map[string]Label{"stable": {2, "127.0.0.1:4711", at}, "old": {0, "", at}},
		ByHand:     map[int64]ByHand{1: {true, "127.0.0.1:4711", at}, 4: {false, "", at}},
		Unbatched:  []Unbatched{{5, "4f2a", "81b0", "rows meet", at}},
		Rollout:    []byte(`{"model":"cartpole"}`), RolloutRevision: 7,
		Manifest: Manifest{
			Traffic: &catalog.Traffic{Source: "model.yaml", Split: []catalog.Slot{{Name: "a", Version: 2, Weight: 1}}},
			Labels:  map[string]int64{"old": 1}, Policy: "latest 1",
		},
	}
	state := filepath.Join(t.TempDir(), "state")
	s, err := Open(state, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keep("cartpole", m); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(state, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), state+" is in use by another server") {
		t.Errorf("a second server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(state, "cartpole.json"))
	if want := "{\n  \"format\": 2,\n  \"model\": \"cartpole\",\n  \"traffic\": {\n    \"revision\": 7,\n    " +
		"\"split\": [\n      {\n        \"slot\": \"baseline\","; err != nil ||
		!strings.HasPrefix(string(text), want) {
		t.Errorf("the file is %s, %v", text, err)
	}
	if s, err = Open(state, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	got, ok := s.Recall("cartpole")
	got.Rollout = bytes.Join(bytes.Fields(got.Rollout), nil)
	if diff := cmp.Diff(m, got); diff != "" || !ok {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := s.Recall("hopper"); ok {
		t.Error("something was kept of a model of which nothing was decided")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLongNames: what is decided about models whose names are as long as a name of a file may be is kept like all else.
func TestLongNames(t *testing.T) {
	m := Model{Traffic: &catalog.Traffic{Revision: 7, Split: []catalog.Slot{{Name: "a", Version: 2, Weight: 1}}}}
	dir := t.TempDir()
	long := strings.Repeat("n", 254)
	names := []string{long + "a", long + "b", long[:230], long[:229]}
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := s.Keep(name, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, is := s.Recall(name); !is {
			t.Errorf("a name of %d bytes is not found", len(name))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestADirectoryThatIsRemoved while a server runs is another one's from then on, also where only the lock is gone: the
// first server keeps nothing there any more, and says so.
func TestADirectoryThatIsRemoved(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for what, removed := range map[string]string{"all of it": state, "the lock": filepath.Join(state, lockName)} {
		first, err := Open(state, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(what, err)
		}
		if err := first.Keep("m", of(1)); err != nil {
			t.Fatal(what, err)
		}
		if err := os.RemoveAll(removed); err != nil {
			t.Fatal(err)
		}
		if err := first.Keep("m", of(2)); !errors.Is(err, ErrLost) {
			t.Errorf("%s is removed: %v", what, err)
		}
		second, err := Open(state, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(what, err)
		}
		if err := first.Keep("m", of(3)); !errors.Is(err, ErrLost) {
			t.Errorf("%s is removed, and another server has it: %v", what, err)
		}
		expect(t, first, "m", of(1))
		if err := errors.Join(second.Keep("m", of(4)), second.Close(), first.Close(), os.RemoveAll(state)); err != nil {
			t.Errorf("%s is removed, and the second server: %v", what, err)
		}
	}
}

// TestACrashLeavesOneStateOrTheOther stops the writing of a decision before each of its steps, and tries every
// combination of the changes that are not lasting by then, there or not: the old decision is found or the new one,
// whole, and the new one if its caller was told that it lasts.
func TestACrashLeavesOneStateOrTheOther(t *testing.T) {
	cases, stops := 0, 0
	for _, before := range []uint64{0, 1} {
		for stop := 0; ; stop++ {
			disk := newMemory()
			s, _ := mustOpen(t, disk)
			for n := range before {
				if err := s.Keep("m", of(n+1)); err != nil {
					t.Fatal(err)
				}
			}
			disk.left = stop
			told := s.Keep("m", of(before+1)) == nil
			if told && disk.left > 0 {
				break // it came to its end before
			}
			stops++
			for which := range 1 << len(disk.changes) {
				for _, bytes := range []int{0, 1, 100, 1 << 20} {
					cases++
					s, log := mustOpen(t, disk.crash(which, bytes))
					got, is := s.Recall("m")
					want := before
					if told || got.Traffic != nil && got.Traffic.Revision == before+1 {
						want++
					}
					if log.Len() > 0 || is != (want > 0) {
						t.Fatalf("stopped before step %d, which %b: kept %v, %s", stop, which, got, log)
					}
					if is {
						expect(t, s, "m", of(want))
					}
					if left := s.files.(*memory).files(); left != "" && left != "m.json" {
						t.Errorf("stopped before step %d, which %b: after the next start there are %s", stop, which,
							left)
					}
				}
			}
		}
	}
	t.Logf("%d crashes, at %d points", cases, stops)
	if stops < 10 {
		t.Errorf("%d points: that is not every step", stops)
	}
}

// TestAFailureChangesNothing makes each step of a decision fail: the decision kept before still is, also after a power
// failure, and the next decision is kept.
func TestAFailureChangesNothing(t *testing.T) {
	for _, before := range []uint64{0, 1} {
		for step := 0; ; step++ {
			disk := newMemory()
			s, _ := mustOpen(t, disk)
			for n := range before {
				if err := s.Keep("m", of(n+1)); err != nil {
					t.Fatal(err)
				}
			}
			disk.left, disk.fails = step, syscall.ENOSPC
			err := s.Keep("m", of(before+1))
			if disk.left >= 0 {
				break // no step failed any more
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("step %d fails and Keep says %v", step, err)
			}
			for which := range 1 << len(disk.changes) {
				after, log := mustOpen(t, disk.crash(which, 1<<20))
				if got, is := after.Recall("m"); is != (before > 0) || is && got.Traffic.Revision != before ||
					log.Len() > 0 {
					t.Errorf("step %d failed, %b is lasting: kept %v, %s", step, which, got, log)
				}
			}
			if err := s.Keep("m", of(before+2)); err != nil {
				t.Errorf("after a failure in step %d: %v", step, err)
			}
			after, _ := mustOpen(t, disk.crash(0, 0))
			expect(t, after, "m", of(before+2))
		}
	}
}

// TestWhatCannotBeReadIsPutAside: the server starts, says so, and writes over nothing.
func TestWhatCannotBeReadIsPutAside(t *testing.T) {
	whole, err := encode("m", of(1))
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, with string) string { return strings.Replace(string(whole), old, with, 1) }
	for what, c := range map[string]struct{ text, why string }{
		"empty":      {"", "it is no JSON"},
		"cut short":  {string(whole[:len(whole)/2]), "it is no JSON"},
		"zeros":      {strings.Repeat("\x00", len(whole)), "it is no JSON"},
		"older":      {replaced(`"format": 2`, `"format": 1`), "it has format 1, and this server reads 2"},
		"newer":      {replaced(`"format": 2`, `"format": 3`), "it has format 3, and this server reads 2"},
		"of another": {replaced(`"model": "m"`, `"model": "n"`), `it is of model \"n\"`},
		"mistyped":   {replaced(`"traffic"`, `"traffics"`), `unknown field \"traffics\"`},
		"two":        {string(whole) + string(whole), "it is no JSON"},
		"no traffic": {`{"format": 2, "model": "m", "manifest": {}}`, "it has no revision"},
		"last revision": {
			replaced(`"revision": 1`, `"revision": 18446744073709551615`),
			"it has no revision of the traffic from 1 to 9223372036854775807",
		},
		"impossible traffic": {replaced(`"weight": 1`, `"weight": -1`), "expected a number of at least 0"},
		"impossible label": {replaced(`"traffic"`,
			`"labels": {"a": {"version": -1, "at": "2026-01-01T00:00:00Z"}}, "traffic"`), "names version -1"},
	} {
		t.Run(what, func(t *testing.T) {
			disk := newMemory()
			for _, name := range []string{"m.json", "m.json.aside1", "note.txt"} {
				disk.entries[filepath.Join(dir, name)] = &node{text: []byte(c.text)}
			}
			other, err := encode("n", of(5))
			if err != nil {
				t.Fatal(err)
			}
			disk.entries[filepath.Join(dir, "n.json")] = &node{text: other}
			s, log := mustOpen(t, disk)
			if _, is := s.Recall("m"); is {
				t.Error("it is in force")
			}
			expect(t, s, "n", of(5))
			for _, part := range []string{
				"level=ERROR", "event=decisions_unreadable", "model=m",
				"file=" + dir + "/m.json.aside2", c.why,
			} {
				if !strings.Contains(log.String(), part) {
					t.Errorf("the log lacks %s: %s", part, log)
				}
			}
			if err := s.Keep("m", of(1)); err != nil {
				t.Error(err)
			}
			if got := disk.files(); got != "m.json m.json.aside1 m.json.aside2 n.json note.txt" {
				t.Errorf("there are %s", got)
			}
			if got, _ := disk.Read(filepath.Join(dir, "m.json.aside2")); string(got) != c.text {
				t.Errorf("what was put aside is %q", got)
			}
		})
	}
}

// TestWhereNothingCanBeWritten the kept decisions are in force, and new ones are said not to last.
func TestWhereNothingCanBeWritten(t *testing.T) {
	disk := newMemory()
	s, _ := mustOpen(t, disk)
	if err := s.Keep("m", of(1)); err != nil {
		t.Fatal(err)
	}
	disk.entries[filepath.Join(dir, "n.json")] = &node{}
	disk.entries[filepath.Join(dir, "o.json.tmp")] = &node{} // nor is a leftover of a crash removed
	disk.locked = false
	log := &bytes.Buffer{}
	if _, err := open(readOnly{disk}, dir, slog.New(slog.NewTextHandler(log, nil))); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a directory that was asked for: %v", err)
	}
	s, err := openIfWritable(readOnly{disk}, dir, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, "m", of(1))
	if err := s.Keep("m", of(2)); err != nil || !strings.Contains(s.NotLasting(), "--state-dir") {
		t.Errorf("Keep: %v, not lasting %q", err, s.NotLasting())
	}
	expect(t, s, "m", of(2)) // while the process lives
	for _, part := range []string{
		"level=WARN", "event=state_dir_unusable", "dir=" + dir,
		"--state-dir", "read-only file system", "file=" + dir + "/n.json ",
	} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log lacks %s: %s", part, log)
		}
	}
	if got := disk.files(); got != "m.json n.json o.json.tmp" {
		t.Errorf("there are %s", got)
	}
	disk.locked = true
	if _, err := openIfWritable(disk, dir, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(fmt.Sprint(err), "in use") {
		t.Errorf("a directory that another server has: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestNowhere: no Store keeps nothing.
func TestNowhere(t *testing.T) {
	var s *Store
	if _, is := s.Recall("m"); is || len(s.Rollouts()) > 0 || s.Keep("m", of(1)) != nil || s.NotLasting() == "" ||
		s.Close() != nil {
		t.Error("it keeps something")
	}
}

// TestWhatWasSetAsideIsToldOfAgain at each start until something else is decided.
func TestWhatWasSetAsideIsToldOfAgain(t *testing.T) {
	disk := newMemory()
	disk.entries[filepath.Join(dir, "m.json.aside1")] = &node{text: []byte("nonsense")}
	s, log := mustOpen(t, disk)
	const told = `event=decisions_still_aside model=m`
	if !strings.Contains(log.String(), told) {
		t.Errorf("the log says nothing of it: %s", log)
	}
	if err := errors.Join(s.Keep("m", of(1)), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, log := mustOpen(t, disk); strings.Contains(log.String(), told) {
		t.Errorf("something was decided since, and the log says: %s", log)
	}
}

// TestStartIsNotHeldUp by a file that is huge or a pipe, and files that were put aside do not pile up.
func TestStartIsNotHeldUp(t *testing.T) {
	dir := t.TempDir()
	huge, pipe := filepath.Join(dir, "huge.json"), filepath.Join(dir, "pipe.json")
	err := errors.Join(os.WriteFile(huge, []byte("{"), 0o600), os.Truncate(huge, 1<<40), syscall.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for start := range 20 {
		var log bytes.Buffer
		s, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for _, why := range []string{"it has 1099511627776 bytes", "it is not a regular file"} {
			if start == 0 && !strings.Contains(log.String(), why) {
				t.Errorf("the log does not say %s: %s", why, &log)
			}
		}
		err = errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, "m.json"), fmt.Append(nil, start), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	first, err1 := os.ReadFile(filepath.Join(dir, "m.json.aside1"))
	last, err2 := os.ReadFile(filepath.Join(dir, "m.json.aside8"))
	asides, err3 := filepath.Glob(filepath.Join(dir, "m.json.aside*"))
	err = errors.Join(err1, err2, err3)
	if err != nil || string(first) != "0" || string(last) != "18" || len(asides) != 8 {
		t.Errorf("%q: the first has %q and the last %q; %v", asides, first, last, err)
	}
}
