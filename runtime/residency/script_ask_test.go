package residency_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/runtime/residency"
)

// ask returns the true form of a line about the state, which begins with its subject:
//
//	m/1 ready on gpu0 [for pipelines] | m absent   of a version or a model
//	asked m/1 BY and BY
//	cause m/1 TEXT | cause m TEXT | scarce m/1 TEXT | settings m/1 weight=2 proven=1
//	labels m stable=1 | traffic m a=1 shadow=2 by SetTraffic [waits for 2] | named m/1 BY and BY
//	unloaded m/3 | rolled back m 3 | rollout m "x" at 2
//	outlook m/1 gpu0 gpu1 need=5 [full gpu1] | further m/1 gpu1 | watched m/1 false | blamed m/1 TEXT | taken out 1
//	loading m/1 OUTCOME | unloading m/1 OUTCOME | lost gpu0 | known m n
func (s *script) ask(line string) string {
	words := strings.Fields(line)
	kind := words[0]
	if kind == "rolled" || kind == "taken" {
		kind, words = strings.Join(words[:2], " "), words[1:]
	}
	if strings.Contains(kind, "/") || len(words) == 2 && words[1] == "absent" {
		kind, words = "", append([]string{""}, words...)
	}
	words = append(words, "") // of a line that is its subject alone
	name := words[1]
	model, number := split(name)
	m := s.machine.Model(model)
	var v *residency.Version
	if m != nil {
		v = m.Versions[number]
	}
	answer := func(what ...string) string {
		return strings.Join(slices.DeleteFunc(append([]string{kind, name}, what...),
			func(s string) bool { return s == "" }), " ")
	}
	switch kind {
	case "lost":
		var all []string
		for d := range s.machine.Lost() {
			all = append(all, d.Name)
		}
		slices.Sort(all)
		return strings.TrimSpace("lost " + strings.Join(all, " "))
	case "known":
		return strings.TrimSpace("known " + strings.Join(slices.Sorted(maps.Keys(s.machine.Models())), " "))
	case "asked":
		return answer(strings.Join(s.machine.AskedBy(model, number), " and "))
	case "taken out":
		return fmt.Sprint("taken out ", s.machine.TakenOut())
	case "loading":
		over, failed, err := m.LoadOutcome(number)
		if failed != nil {
			return answer("failed:", failed.Hide(err).Text)
		}
		return answer(outcome(over, err))
	case "unloading":
		return answer(outcome(m.UnloadOutcome(number)))
	}
	if m == nil {
		return model + " absent"
	}
	switch kind {
	case "cause":
		if number == 0 {
			return answer(m.Cause)
		}
	case "labels":
		var all []string
		for _, label := range slices.Sorted(maps.Keys(m.Labels)) {
			all = append(all, fmt.Sprint(label, "=", m.Labels[label]))
		}
		return answer(all...)
	case "traffic":
		return answer(traffic(m)...)
	case "rolled back":
		var all []string
		for _, r := range m.Decided.RolledBack {
			all = append(all, strconv.FormatInt(r.Version, 10))
		}
		return answer(all...)
	case "rollout":
		return answer(string(m.Decided.Rollout), "at", strconv.FormatUint(m.Decided.RolloutRevision, 10))
	case "unloaded":
		if !slices.Contains(m.UnloadedByHand(), number) {
			return "loaded " + name
		}
		return answer()
	case "named":
		return answer(strings.Join(m.NamedBy(number), " and "))
	}
	if v == nil {
		return name + " absent"
	}
	return s.askVersion(kind, name, v, answer)
}

func outcome(over bool, err error) string {
	switch {
	case !over:
		return "undecided"
	case err == nil:
		return "done"
	}
	return err.Error()
}

// traffic words the published traffic of a model.
func traffic(m *residency.Model) (all []string) {
	for _, slot := range m.Traffic.Public.Split {
		all = append(all, fmt.Sprint(slot.Name, "=", slot.Version))
	}
	for _, shadow := range m.Traffic.Public.Shadow {
		all = append(all, fmt.Sprint("shadow=", shadow.Version))
		if shadow.PerRequest {
			all = append(all, "per request")
		}
	}
	all = append(all, "by", m.Traffic.Public.Source)
	if len(m.Traffic.WaitsFor) > 0 {
		all = append(all, fmt.Sprintf("waits for %v", m.Traffic.WaitsFor))
	}
	return all
}

var stateNames = map[residency.State]string{
	residency.Loading: "loading", residency.Ready: "ready", residency.Replacing: "replacing",
	residency.Draining: "draining", residency.Failed: "failed",
}

func (s *script) askVersion(kind, name string, v *residency.Version, answer func(...string) string) string {
	model, number := split(name)
	switch kind {
	case "cause":
		if v.Cause == nil {
			return answer()
		}
		return answer(v.Cause.Text)
	case "blamed":
		if err := s.machine.Blamed(&v.Of); err != nil {
			return answer(err.Error())
		}
		return answer()
	case "outlook":
		for _, o := range s.machine.Outlooks(s.now) {
			if o.Model == model && o.Number == number {
				var all []string
				for _, site := range o.Above {
					all = append(all, site.Device)
				}
				all = append(all, fmt.Sprint("need=", o.Need))
				if len(o.Full) > 0 {
					all = append(all, "full "+strings.Join(o.Full, " "))
				}
				return answer(all...)
			}
		}
		return answer()
	}
	r := v.Resident
	if kind == "" {
		got := []string{name, stateNames[v.State]}
		if r != nil && len(r.Replicas) > 0 {
			got = append(got, "on")
			for _, replica := range r.Replicas {
				got = append(got, replica.Device.Name)
			}
		}
		if v.StepOnly {
			got = append(got, "for pipelines")
		}
		return strings.Join(got, " ")
	}
	if r == nil {
		return name + " is not resident"
	}
	switch kind {
	case "scarce":
		return answer(r.Scarce())
	case "settings":
		return answer(fmt.Sprintf("weight=%v proven=%v", r.Settings.Weight, r.Proven.Weight))
	case "further":
		return answer(r.Further()...)
	case "watched":
		return answer(strconv.FormatBool(r.Watched()))
	}
	return "nobody knows of " + kind
}
