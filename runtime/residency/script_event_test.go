package residency_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/fleet/placement"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

func split(name string) (model string, number int64) {
	model, digits, _ := strings.Cut(name, "/")
	number, _ = strconv.ParseInt(digits, 10, 64)
	return model, number
}

// value returns the rest of the word that begins with a key and "=".
func value(words []string, key string) (string, bool) {
	for _, word := range words {
		if rest, is := strings.CutPrefix(word, key+"="); is {
			return rest, true
		}
	}
	return "", false
}

// after returns the words that follow a word; nil: it is not there.
func after(words []string, word string) []string {
	if i := slices.Index(words, word); i >= 0 {
		return words[i+1:]
	}
	return nil
}

// event lets the event of a line happen.
func (s *script) event(kind string, words []string) error {
	var model string
	var number int64
	if len(words) > 0 {
		model, number = split(words[0])
	}
	m := s.machine.Model(model)
	switch kind {
	case "config":
		s.start(residency.Config{AsksBusy: words[0] != "deaf", TryOnce: words[0] == "once"})
		return nil
	case "restart":
		s.start(s.config)
		return nil
	case "list", "glimpse":
		return s.step(residency.Listed{Models: s.models(words), Gone: kind == "list"})
	case "load", "unload":
		return s.override(m, model, number, kind == "load", words[1:])
	case "keep":
		after, news := m.KeepOverride(number)
		if !news {
			s.refused = "no news"
			return nil
		}
		return s.decide(model, after, true)
	case "gaveup":
		return s.step(residency.GaveUp{Model: model, Number: number, Failed: slices.Contains(words, "failed")})
	case "withdrawn":
		return s.step(residency.Withdrawn{Model: model, Number: number})
	case "divide":
		return s.divide(m, words[1:])
	case "label":
		label, to, _ := strings.Cut(words[1], "=")
		n, _ := strconv.ParseInt(to, 10, 64)
		after, err := m.Relabel(label, decisions.Label{Version: n, By: "me"})
		if err != nil {
			return s.refuse(err)
		}
		return s.decide(model, after, true)
	case "deciding":
		return s.step(residency.Deciding{Model: model})
	case "decided":
		return s.step(residency.Decided{Model: model})
	case "lost":
		var by *residency.Candidate
		if len(words) == 3 {
			model, number = split(words[2])
			by = &residency.Candidate{Model: model, Version: file(model, number, "a")}
			if v := s.machine.Model(model).Versions[number]; v != nil {
				by = &v.Of
			}
		}
		return s.lose(words[0], by)
	case "back":
		return s.restore(words[0])
	case "discarded":
		return s.step(residency.Discarded{Replica: s.put(words[0])})
	case "crashed", "judged", "fared", "room":
		return s.observed(kind, model, number, words[1:])
	case "after":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			return err
		}
		return s.pass(d)
	case "freed":
		free, err := strconv.ParseInt(words[0], 10, 64)
		return cmp.Or(err, s.step(residency.MemoryFreed{Free: free}))
	case "closing":
		return s.step(residency.Closing{})
	case "closed":
		return s.step(residency.Closed{})
	}
	return s.ended(kind, words)
}

// refuse notes why an event was refused.
func (s *script) refuse(err error) error {
	s.refused = err.Error()
	return nil
}

// pass has time pass, and the models woken that asked for that.
func (s *script) pass(d time.Duration) error {
	until := s.now.Add(d)
	for {
		at, ok := s.nextWake()
		if !ok || at.After(until) {
			s.now = until
			return nil
		}
		s.now = at
		for _, name := range s.due() {
			if err := s.step(residency.Tick{Model: name}); err != nil {
				return err
			}
		}
	}
}

// override loads or unloads a version by override, as far as that may be.
func (s *script) override(m *residency.Model, model string, number int64, load bool, words []string) error {
	e := residency.Overridden{Model: model, Number: number, Load: load, By: "me"}
	if len(words) > 0 { // "in m 1 2", as it is looked at now
		listing := modelrepo.Listing{}
		all := s.models(words[1:])
		for _, l := range all {
			listing.Models = append(listing.Models, *l.Model)
		}
		found, err := residency.Lookup(listing, model, number)
		if err != nil {
			return s.refuse(err)
		}
		if found != nil {
			e.Found = &residency.ListedModel{
				Model: found, Present: all[0].Present, Recalled: all[0].Recalled,
			}
		}
	}
	var found *modelrepo.Model
	if e.Found != nil {
		found = e.Found.Model
	}
	if err := m.MayOverride(found, number, load); err != nil {
		return s.refuse(err)
	}
	return s.step(e)
}

// divide decides about the traffic of a model, a rollback, or both.
func (s *script) divide(m *residency.Model, words []string) error {
	next := &catalog.Traffic{Source: "SetTraffic", By: "me", At: s.now}
	d := catalog.Decision{Traffic: next}
	unkept := false
	for _, word := range words {
		key, rest, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseInt(rest, 10, 64)
		switch key {
		case "shadow":
			next.Shadow = append(next.Shadow, catalog.Shadow{Version: n, Sample: 1})
		case "since":
			d.Expected = uint64(n)
		case "rollback":
			d.RollBack = &catalog.RolledBack{Version: n}
		case "unkept":
			unkept = true
		case "unchanged":
			next = nil
		case "rollout":
			d.Rollout = []byte(`"` + rest + `"`)
		default:
			n, _ = strconv.ParseInt(word, 10, 64)
			next.Split = append(next.Split, catalog.Slot{Name: string(rune('a' + len(next.Split))), Version: n, Weight: 1})
		}
	}
	after, err := m.Decide(d, next, s.now)
	if err != nil {
		return s.refuse(err)
	}
	return s.decide(m.Name, after, !unkept)
}

// decide has a decision kept, or not, and made if it is.
func (s *script) decide(model string, after decisions.Model, kept bool) error {
	if err := s.step(residency.Deciding{Model: model}); err != nil || !kept {
		return errors.Join(err, s.step(residency.Decided{Model: model}))
	}
	s.kept[model] = after
	return s.step(residency.Decided{Model: model, After: &after})
}

// observed reports an observation of a version.
func (s *script) observed(kind, model string, number int64, words []string) error {
	var v *residency.Version
	if m := s.machine.Model(model); m != nil {
		v = m.Versions[number]
	}
	resident := s.latest[v]
	switch kind {
	case "crashed":
		return s.step(residency.Crashed{
			Model: model, Number: number, Resident: resident, Cause: errors.New("it crashes"),
		})
	case "judged":
		e := residency.Judged{Model: model, Number: number, Resident: resident}
		if why := strings.Join(words, " "); why != "" {
			e.Demoted, e.Files = &why, "files"
		}
		return s.step(e)
	case "room":
		e := residency.RoomSeen{Model: model, Number: number, Resident: resident, Open: words}
		if i := slices.Index(words, "full"); i >= 0 {
			e.Open = words[:i]
			for _, name := range words[i+1:] {
				e.Full = append(e.Full, catalog.FullDevice{Name: name})
			}
		}
		return s.step(e)
	}
	times, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	e := residency.Fared{Model: model, Number: number, Resident: resident, Further: slices.Contains(words, "further")}
	if v != nil && v.Resident != nil {
		e.Fare.Replicas = len(v.Resident.Replicas)
	}
	for key, to := range map[string]func(float64){
		"refused": func(x float64) { e.Fare.Refused = int(x) },
		"used":    func(x float64) { e.Fare.Used = x },
		"spare":   func(x float64) { e.Fare.Spare = x },
	} {
		if text, is := value(words, key); is {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			to(x)
		}
	}
	for range times {
		if err := s.step(e); err != nil {
			return err
		}
	}
	return nil
}

// models reads several models after each other, each as "m 1 2@b 3! policy=all": its name, its versions and its
// manifest. A version has files "a" or those named after "@"; with "!" it has no model.onnx, with "~" it is being
// copied, with "*" it has changed since. "1>m/2+n/1" is a pipeline that asks these.
func (s *script) models(words []string) (all []residency.ListedModel) {
	for len(words) > 0 {
		n := 1
		for n < len(words) && (strings.Contains(words[n], "=") || words[n][0] >= '0' && words[n][0] <= '9') {
			n++
		}
		all = append(all, s.model(words[0], words[1:n]))
		words = words[n:]
	}
	return all
}

func (s *script) model(name string, words []string) residency.ListedModel {
	manifest := modelrepo.Defaults()
	var traffic modelrepo.Traffic
	var versions []modelrepo.Version
	var fault, missing error
	files, present := "a", map[string]bool{}
	var elsewhere *catalog.ElsewhereError
	for _, word := range words {
		key, rest, setting := strings.Cut(word, "=")
		if !setting {
			versions = append(versions, version(name, word))
			continue
		}
		parts := strings.Split(rest, ":")
		n, _ := strconv.ParseInt(parts[len(parts)-1], 10, 64)
		switch key {
		case "policy":
			manifest.Versions.Policy = policy(parts)
		case "transition":
			manifest.Versions.Transition = modelrepo.ResourceFirst
		case "replicas":
			if manifest.Replicas = modelrepo.Replicas(n); rest == "auto" {
				manifest.Replicas = modelrepo.AutoReplicas
			}
		case "weight":
			manifest.Weight = float64(n)
		case "unbatched": // which needs a reload
			manifest.Batching.Unbatched = []string{rest}
		case "batching":
			manifest.Batching.Mode = modelrepo.BatchMode(rest)
		case "label":
			if manifest.Versions.Labels == nil {
				manifest.Versions.Labels = map[string]int64{}
			}
			manifest.Versions.Labels[parts[0]] = n
		case "slot":
			traffic.Split = append(traffic.Split, modelrepo.SplitEntry{Slot: parts[0], Version: n, Weight: 1})
		case "idle": // a slot without weight
			traffic.Split = append(traffic.Split, modelrepo.SplitEntry{Slot: parts[0], Version: n})
		case "shadow":
			e := modelrepo.ShadowEntry{Version: n, Sample: 1}
			if len(parts) > 1 { // "request:2"
				e.Per = modelrepo.PerRequest
			}
			traffic.Shadow = append(traffic.Shadow, e)
		case "fault":
			fault = errors.New(rest)
		case "elsewhere":
			elsewhere = &catalog.ElsewhereError{Model: name, Replicas: parts}
		case "missing":
			missing = fmt.Errorf("version %s does not exist", rest)
		case "files":
			files = rest
		case "there":
			present[fmt.Sprintf("/models/%s/%d", name, n)] = true
		}
	}
	for i := range versions {
		if v := &versions[i]; v.Fingerprint == "a" {
			v.Fingerprint = files
		}
	}
	if traffic.Split != nil || traffic.Shadow != nil {
		manifest.Traffic = &traffic
	}
	l := listing(name, manifest, versions...)
	l.Elsewhere = elsewhere
	l.Err, l.Missing, l.ManifestPath, l.Present = fault, missing, l.Dir+"/model.yaml", present
	if kept, is := s.kept[name]; is {
		l.Recalled = &kept
	}
	return l
}

func version(model, word string) modelrepo.Version {
	word, steps, staged := strings.Cut(word, ">")
	word, files, _ := strings.Cut(word, "@")
	number, _ := strconv.ParseInt(strings.TrimRight(word, "!~*"), 10, 64)
	v := file(model, number, cmp.Or(files, "a"))
	switch {
	case strings.HasSuffix(word, "!"):
		v.Err = fmt.Errorf("%s has no model.onnx", v.Dir)
	case strings.HasSuffix(word, "~"):
		v.Err, v.Fingerprint = fmt.Errorf("%s is %w", v.Dir, modelrepo.ErrCopying), ""
	case strings.HasSuffix(word, "*"):
		v.Held = true
	}
	if staged {
		v.Pipeline = pipeline(strings.Split(steps, "+")...)
	}
	return v
}

// policy reads "all", "latest:2" or "specific:1,3".
func policy(parts []string) modelrepo.Policy {
	if parts[0] == "all" {
		return modelrepo.Policy{All: true}
	}
	var numbers []int64
	for word := range strings.SplitSeq(parts[1], ",") {
		n, _ := strconv.ParseInt(word, 10, 64)
		numbers = append(numbers, n)
	}
	if parts[0] == "latest" {
		return modelrepo.Policy{Latest: int(numbers[0])}
	}
	return modelrepo.Policy{Specific: numbers}
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
	return errors.New("nothing is running for it, or there is no such event")
}

// ending returns the event of a kind that ends an effect.
func (s *script) ending(kind string, effect residency.Effect, words []string) (residency.Event, error) {
	var failed error
	if text := strings.Join(after(words, "failed"), " "); text != "" {
		failed = errors.New(text)
	}
	interrupted := slices.Contains(words, "interrupted")
	switch e := effect.(type) {
	case residency.Load:
		if kind == "failed" {
			return loadFailed(e, words), nil
		}
		done := residency.Loaded{Load: e, Replicas: s.putAll(after(words, "on")), Sites: sites}
		s.latest[s.version(e.Of)] = e.Resident
		if slices.Contains(words, "waiting") {
			done.Wait = &residency.Wait{
				Why: "it waits", Need: 5, Full: devicesOf(after(words, "full")), Failed: slices.Contains(words, "tried"),
			}
		}
		return done, nil
	case residency.Reconfigure:
		done := residency.Reconfigured{
			Reconfigure: e, Interrupted: interrupted, Err: failed, Proven: slices.Contains(words, "proven"),
			Reload: slices.Contains(words, "reload"), Moved: map[residency.ReplicaID]residency.Replica{},
		}
		for _, device := range devicesOf(after(words, "moved")) {
			r := residency.Replica{}
			if v := s.version(e.Of); v.Resident != nil {
				if i := slices.IndexFunc(v.Resident.Replicas,
					func(r residency.Replica) bool { return r.Device.Name == device }); i >= 0 {
					r = v.Resident.Replicas[i]
				}
			}
			done.Moved[r.ID] = s.put(device)
		}
		return done, nil
	case residency.Upgrade:
		done := residency.Upgraded{
			Upgrade: e, On: "cpu", Err: failed, Stay: slices.Contains(words, "stay"),
			Short: slices.Contains(words, "short"), Full: devicesOf(after(words, "full")),
		}
		if to := s.putAll(after(words, "to")); len(to) > 0 {
			done.To = &to[0]
		}
		return done, nil
	case residency.Grow:
		done := residency.Grown{Grow: e, Err: failed}
		if to := s.putAll(after(words, "to")); len(to) > 0 {
			done.Replica = &to[0]
		}
		return done, nil
	case residency.Shrink:
		i := slices.IndexFunc(e.Replicas, func(r residency.Replica) bool { return r.Device.Name == words[0] })
		return residency.Shrunk{Model: e.Model, Number: e.Number, Replica: e.Replicas[i].ID}, nil
	case residency.Drain:
		done := residency.Drained{Model: e.Model, Number: e.Number, Interrupted: interrupted, Err: failed}
		retiring := s.machine.Retiring()
		for _, id := range e.Replicas {
			if !interrupted && !slices.Contains(retiring, id) {
				delete(s.open, id)
			}
		}
		return done, nil
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

// loadFailed reads how a load failed: "memory 5 free 3", "unplaced", "interrupted cut short" or "cut short".
func loadFailed(e residency.Load, words []string) residency.Loaded {
	done := residency.Loaded{Load: e}
	number := func(words []string) int64 {
		if len(words) == 0 {
			return 0
		}
		n, _ := strconv.ParseInt(words[0], 10, 64)
		return n
	}
	done.Free = number(after(words, "free"))
	switch kind := append(words, "")[0]; kind {
	case "memory":
		done.Err = &catalog.MemoryError{Model: e.Of.Model, Version: e.Of.Version.Number, Need: number(words[1:]) << 20}
		done.Free <<= 20
	case "unplaced":
		done.Err = &catalog.PlacementError{Model: e.Of.Model, Version: e.Of.Version.Number, Need: 5 << 20}
	case "interrupted":
		words, done.Interrupted = words[1:], true
		fallthrough
	default:
		text, _, _ := strings.Cut(strings.Join(words, " "), " free ")
		done.Err = errors.New(cmp.Or(text, "cut short"))
	}
	return done
}

// devicesOf returns the first of the words that name devices.
func devicesOf(words []string) []string {
	i := slices.IndexFunc(words, func(word string) bool {
		return !slices.ContainsFunc(sites, func(x placement.Site) bool { return x.Device == word })
	})
	if i < 0 {
		return words
	}
	return words[:i]
}

func (s *script) putAll(words []string) (all []residency.Replica) {
	for _, device := range devicesOf(words) {
		all = append(all, s.put(device))
	}
	return all
}

func (s *script) put(device string) residency.Replica {
	r := s.replica(device)
	s.on[r.ID] = device
	return r
}
