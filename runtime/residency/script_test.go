package residency_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// A script is a history, one event a line, and after each event the expected effects and states:
//
//	list m 1 2 [policy=latest:1|all] [transition=resource] [replicas=2] [files=b]
//	loaded m/1 on gpu0 gpu1 | loaded m/1 waiting on cpu | failed m/1 | drained m/1 | retired gpu0
//	upgraded m/1 to gpu0 | grown m/1 to gpu1 | reconfigured m/1 | idle m/1 | busy m/1
//	load m/1 | unload m/1 | lost gpu0 [by m/1] | back gpu0 | crashed m/1
//	room m/1 gpu0 | after 5s | freed 5 | closing | closed
//	> what is begun, in any order; nothing else may be
//	= m/1 ready on gpu0
//
// Each event must be followed by all that begins; states are looked at where a line asks for them.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := newScript().play(string(text)); err != nil {
				t.Errorf("%s:%v", file, err)
			}
		})
	}
}

// TestAScriptIsWatched: a script that disagrees with the machine is found out.
func TestAScriptIsWatched(t *testing.T) {
	const good = "list m 1\n> load m/1\nloaded m/1 on gpu0\n= m/1 ready on gpu0\n"
	if err := newScript().play(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"list m 1\n", "list m 1\n> load m/2\n", "list m 1\n> load m/1\n> load m/1\n", good + "= m/1 ready on gpu1\n",
		good + "= m/1 failed\n",
	} {
		if newScript().play(bad) == nil {
			t.Errorf("nothing is wrong with %q", bad)
		}
	}
}

type script struct {
	*shell

	on map[residency.ReplicaID]string // devices
}

func newScript() *script {
	return &script{shell: newShell(residency.Config{AsksBusy: true}), on: map[residency.ReplicaID]string{}}
}

// play runs the lines of a script. The error names the line.
func (s *script) play(text string) error {
	var begun []string // and not mentioned by the script yet
	for i, line := range append(strings.Split(text, "\n"), "end") {
		var err error
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "", "#":
			continue
		case ">":
			at := slices.Index(begun, rest)
			if at < 0 {
				return fmt.Errorf("%d: %q does not begin; these do: %q", i+1, rest, begun)
			}
			begun = slices.Delete(begun, at, at+1)
			continue
		case "=":
			err = s.compare(rest)
		default:
			if len(begun) > 0 {
				return fmt.Errorf("%d: these begin, too: %q", i+1, begun)
			}
			if kind != "end" {
				err = s.event(kind, strings.Fields(rest))
				begun = s.begun()
			}
		}
		if err != nil {
			return fmt.Errorf("%d: %s: %w", i+1, line, err)
		}
	}
	return nil
}

// begun words the effects of the latest step.
func (s *script) begun() (all []string) {
	for _, effect := range s.seen {
		switch e := effect.(type) {
		case residency.Publish, residency.Log, residency.WakeAt, residency.Keep:
		case residency.Retire:
			all = append(all, "retire "+s.on[e.Replica])
		case residency.Abandon:
			all = append(all, "abandon "+s.on[e.Replica])
		default:
			model, number := about(effect)
			name := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", e), "residency."))
			all = append(all, fmt.Sprintf("%s %s/%d", name, model, number))
		}
	}
	return all
}

// compare compares a line such as "m/1 ready on gpu0" with the actual state.
func (s *script) compare(want string) error {
	name, _, _ := strings.Cut(want, " ")
	model, number := split(name)
	got := name + " absent"
	if m := s.machine.Model(model); m != nil && m.Versions[number] != nil {
		v := m.Versions[number]
		got = name + " " + map[residency.State]string{
			residency.Loading: "loading", residency.Ready: "ready", residency.Replacing: "replacing",
			residency.Draining: "draining", residency.Failed: "failed",
		}[v.State]
		if v.Resident != nil && len(v.Resident.Replicas) > 0 {
			on := []string{got, "on"}
			for _, r := range v.Resident.Replicas {
				on = append(on, r.Device.Name)
			}
			got = strings.Join(on, " ")
		}
	}
	if got != want {
		return errors.New(got)
	}
	return nil
}

func split(name string) (model string, number int64) {
	model, digits, _ := strings.Cut(name, "/")
	number, _ = strconv.ParseInt(digits, 10, 64)
	return model, number
}

// event lets the event of a line happen.
func (s *script) event(kind string, words []string) error {
	var model string
	var number int64
	if len(words) > 0 {
		model, number = split(words[0])
	}
	switch kind {
	case "list":
		return s.step(residency.Listed{Models: s.models(words), Gone: true})
	case "loaded", "failed", "drained", "upgraded", "grown", "reconfigured", "idle", "busy", "retired":
		return s.ended(kind, words)
	case "load", "unload":
		return s.step(residency.Overridden{Model: model, Number: number, Load: kind == "load", By: "me"})
	case "lost":
		var by *residency.Candidate
		if len(words) == 3 {
			model, number = split(words[2])
			by = &s.machine.Model(model).Versions[number].Of
		}
		return s.lose(words[0], by)
	case "crashed":
		return s.step(residency.Crashed{
			Model: model, Number: number, Resident: s.machine.Model(model).Versions[number].Resident.ID,
			Cause: errors.New("it crashes"),
		})
	case "back":
		return s.restore(words[0])
	case "room":
		for _, o := range s.machine.Outlooks(s.now) {
			if o.Model == model && o.Number == number {
				return s.step(residency.RoomSeen{Model: model, Number: number, Resident: o.Resident, Open: words[1:]})
			}
		}
		return errors.New("it does not wait")
	case "after":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			return err
		}
		s.now = s.now.Add(d)
		for _, name := range slices.Sorted(maps.Keys(s.wakes)) {
			if err := s.step(residency.Tick{Model: name}); err != nil {
				return err
			}
		}
		return nil
	case "freed":
		return s.step(residency.MemoryFreed{Free: 5})
	case "closing":
		return s.step(residency.Closing{})
	case "closed":
		return s.step(residency.Closed{})
	}
	return errors.New("there is no such event")
}

// models reads "m 1 2 policy=all", several after each other.
func (s *script) models(words []string) (all []residency.ListedModel) {
	var name string
	var manifest modelrepo.Manifest
	var versions []modelrepo.Version
	files := "a"
	flush := func() {
		if name != "" {
			for i := range versions {
				versions[i].Fingerprint = files
			}
			all = append(all, listing(name, manifest, versions...))
		}
		versions, files = nil, "a"
	}
	for _, word := range words {
		key, value, setting := strings.Cut(word, "=")
		number, err := strconv.ParseInt(word, 10, 64)
		switch {
		case err == nil:
			versions = append(versions, file(name, number, ""))
		case !setting:
			flush()
			name, manifest = word, modelrepo.Defaults()
		case key == "policy" && value == "all":
			manifest.Versions.Policy = modelrepo.Policy{All: true}
		case key == "transition":
			manifest.Versions.Transition = modelrepo.ResourceFirst
		case key == "replicas":
			manifest.Replicas = 2
		case key == "weight":
			manifest.Weight = 2
		case key == "files":
			files = value
		}
	}
	flush()
	return all
}

// ended ends the effect that a line names.
func (s *script) ended(kind string, words []string) error {
	if kind == "retired" {
		for i, e := range s.running {
			if r, is := e.(residency.Retire); is && s.on[r.Replica] == words[0] {
				s.running = slices.Delete(s.running, i, i+1)
				delete(s.open, r.Replica)
				return s.step(residency.Retired(r))
			}
		}
		return errors.New("nothing is retired there")
	}
	model, number := split(words[0])
	for i, e := range s.running {
		m, n := about(e)
		if m != model || n != number {
			continue
		}
		s.running = slices.Delete(s.running, i, i+1)
		event, err := s.ending(kind, e, words[1:])
		if err != nil {
			return err
		}
		return s.step(event)
	}
	return errors.New("nothing is running for it")
}

// ending returns the event of a kind that ends an effect.
func (s *script) ending(kind string, effect residency.Effect, words []string) (residency.Event, error) {
	var to []residency.Replica
	for _, word := range words {
		if slices.ContainsFunc(sites, func(x placement.Site) bool { return x.Device == word }) {
			to = append(to, s.put(word))
		}
	}
	switch e := effect.(type) {
	case residency.Load:
		done := residency.Loaded{Load: e, Replicas: to, Sites: sites}
		if kind == "failed" {
			done.Err = errors.New("cut short")
		} else if slices.Contains(words, "waiting") {
			done.Wait = &residency.Wait{Why: "it waits", Need: 1}
		}
		return done, nil
	case residency.Reconfigure:
		return residency.Reconfigured{Reconfigure: e}, nil
	case residency.Upgrade:
		done := residency.Upgraded{Upgrade: e, On: "cpu"}
		if len(to) > 0 {
			done.To = &to[0]
		} else {
			done.Err = errors.New("it fails")
		}
		return done, nil
	case residency.Grow:
		return residency.Grown{Grow: e, Replica: &to[0]}, nil
	case residency.Drain:
		retiring := s.machine.Retiring()
		for _, id := range e.Replicas {
			if !slices.Contains(retiring, id) {
				delete(s.open, id)
			}
		}
		return residency.Drained{Model: e.Model, Number: e.Number}, nil
	case residency.AskBusy:
		done := residency.BusyAnswered{Model: e.Model, Number: e.Number}
		if kind == "busy" {
			ago := time.Duration(0)
			if len(words) > 0 {
				ago, _ = time.ParseDuration(words[0]) // "" of a line that does not say
			}
			done.LastUse = s.now.Add(-ago)
		}
		return done, nil
	}
	return nil, fmt.Errorf("%T is running", effect)
}

func (s *script) put(device string) residency.Replica {
	r := s.replica(device)
	s.on[r.ID] = device
	return r
}
