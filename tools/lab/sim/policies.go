package sim

import (
	"cmp"
	"slices"
)

// Maker makes policies of one kind.
type Maker struct {
	Name string
	// Family is the name of a group of policies that differ only in a parameter. It is tuned: on each workload the
	// policy counts that does best on a training seed. Empty: the policy is alone in it.
	Family string
	New    func(*Env) Policy
	// Lanes is how many batches may be in flight for a number of models. Nil: one.
	Lanes func(models int) int
	// Overlap is the work done per unit of time while several are in flight. 0 counts as 1; as many as there are lanes:
	// each has a processor of its own.
	Overlap float64
	// Copying is the part of each execution in which it copies, while another may compute.
	Copying float64
	// Telemetry says how often the policy learns the state of the device. None for policies that are not observers.
	Telemetry Telemetry
}

func (m *Maker) lanes(models int) int {
	if m.Lanes == nil {
		return 1
	}
	return m.Lanes(models)
}

// Family is policies that differ only in a parameter, which is tuned to each workload.
type Family struct {
	Name    string
	Members []Maker
}

// member returns the one of that name, which must be in the family.
func (f *Family) member(name string) *Maker {
	return &f.Members[slices.IndexFunc(f.Members, func(m Maker) bool { return m.Name == name })]
}

// Families groups makers, in the order in which their families appear.
func Families(makers []Maker) []Family {
	var all []Family
	for _, m := range makers {
		name := cmp.Or(m.Family, m.Name)
		i := slices.IndexFunc(all, func(f Family) bool { return f.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, Family{Name: name})
		}
		all[i].Members = append(all[i].Members, m)
	}
	return all
}

// Ours is the name of the server's scheduler as the server runs it.
const Ours = "weft"

// Policies returns every policy: the server's scheduler as it has a GPU, and the baselines.
func Policies() []Maker {
	return append([]Maker{Core(Ours, CoreOptions{Handover: Handover})}, Baselines()...)
}

// OneLane returns the policies, the server's scheduler first, with one batch in flight for everybody. Those that have
// one for each model mean nothing then.
func OneLane(policies []Maker) []Maker {
	all := []Maker{Core(Ours, CoreOptions{})}
	for _, m := range policies[1:] {
		if m.Lanes == nil {
			all = append(all, m)
		}
	}
	return all
}

// TwoLanes returns the policies, the server's scheduler first, which has two batches in flight. Each of the others may
// have two as well where that suits it better.
func TwoLanes(policies []Maker) []Maker {
	all := policies[:1:1]
	for _, m := range policies[1:] {
		m.Family = cmp.Or(m.Family, m.Name)
		if all = append(all, m); m.Lanes == nil {
			m.Name += ", two lanes"
			m.Lanes = func(int) int { return 2 }
			all = append(all, m)
		}
	}
	return all
}
