// Package roster says which replica serves which models: each computes it alone, from names and sizes.
//
// Rendezvous hashing gives each model its own order of the replicas. Each copy of a model goes to the first of that
// order that has room and does not have the model yet. The order of one model does not depend on others, so that a
// replica that comes or goes moves the models that lead there, and a few more that find less room than before.
package roster

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Replica is one server of a roster.
type Replica struct {
	Name string
	// Address is where callers reach it, HOST:PORT; "": nobody said.
	Address string
	// Memory is the bytes that its models may take; 0: there is no bound.
	Memory int64
}

// Model is a model to be placed.
type Model struct {
	Name string
	Size int64 // bytes
	// Copies is on how many replicas it is to be; on each, if there are not so many.
	Copies int
	// Needs are the models that must be wherever it is: the steps of a pipeline. They need none themselves.
	Needs []string
}

// Table says where each model is. It is the same for the same replicas and models, in whatever order they are given.
type Table struct {
	Replicas []Replica // by name
	Models   []Placed  // by name
	Used     []int64   // bytes of each replica
}

// Placed is a model with its replicas.
type Placed struct {
	Model

	On []int // indexes of Table.Replicas, ascending; it may be fewer than Copies, for lack of room
}

// Place places the models. In the first round each gets one copy, the largest first, so that all find room if they can.
// Each further round gives one more to each model that is to have so many, the smallest first, so that few are short.
// Pipelines come before other models, since they bring their steps along.
func Place(replicas []Replica, models []Model) *Table {
	t := &Table{Replicas: slices.Clone(replicas), Used: make([]int64, len(replicas))}
	slices.SortFunc(t.Replicas, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range models {
		t.Models = append(t.Models, Placed{Model: m})
	}
	slices.SortFunc(t.Models, func(a, b Placed) int { return cmp.Compare(a.Name, b.Name) })
	byName, prefers, most := map[string]*Placed{}, map[string][]int{}, 0
	order := make([]*Placed, len(t.Models))
	for i := range t.Models {
		m := &t.Models[i]
		order[i], byName[m.Name], prefers[m.Name], most = m, m, t.order(m.Name), max(most, m.Copies)
	}
	for round := 1; round <= min(most, len(replicas)); round++ {
		slices.SortStableFunc(order, func(a, b *Placed) int {
			bySize := cmp.Compare(a.Size, b.Size)
			if round == 1 {
				bySize = -bySize
			}
			return cmp.Or(cmp.Compare(min(1, len(b.Needs)), min(1, len(a.Needs))), bySize, cmp.Compare(a.Name, b.Name))
		})
		for _, m := range order {
			if round <= m.Copies && len(m.On) < round {
				t.add(m, prefers[m.Name], byName)
			}
		}
	}
	return t
}

// add puts a copy of a model, and of what it needs, on the first replica that has room.
func (t *Table) add(m *Placed, prefers []int, byName map[string]*Placed) {
	for _, r := range prefers {
		if slices.Contains(m.On, r) {
			continue
		}
		lacks, bytes := []*Placed{m}, m.Size
		for _, name := range m.Needs {
			if s := byName[name]; s != nil && !slices.Contains(lacks, s) && !slices.Contains(s.On, r) {
				lacks, bytes = append(lacks, s), bytes+s.Size
			}
		}
		if most := t.Replicas[r].Memory; most > 0 && t.Used[r]+bytes > most {
			continue
		}
		t.Used[r] += bytes
		for _, l := range lacks {
			l.On = append(l.On, r)
			slices.Sort(l.On)
		}
		return
	}
}

// order returns all replicas, the one with the highest hash first.
func (t *Table) order(model string) []int {
	all, hashes := make([]int, len(t.Replicas)), make([]uint64, len(t.Replicas))
	for i, r := range t.Replicas {
		all[i], hashes[i] = i, xxhash.Sum64String(r.Name+"\x00"+model)
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(hashes[b], hashes[a]) })
	return all
}

// Of returns what there is of a model; nil: it is not in the table.
func (t *Table) Of(model string) *Placed {
	i, found := slices.BinarySearchFunc(t.Models, model, func(p Placed, name string) int {
		return cmp.Compare(p.Name, name)
	})
	if !found {
		return nil
	}
	return &t.Models[i]
}

// Names returns the names of the replicas that have a model, in order.
func (t *Table) Names(m *Placed) []string {
	names := []string{}
	for _, r := range m.On {
		names = append(names, t.Replicas[r].Name)
	}
	return names
}

// Room returns how many bytes a replica has left; false: there is no bound.
func (t *Table) Room(replica int) (bytes int64, bounded bool) {
	r := t.Replicas[replica]
	return r.Memory - t.Used[replica], r.Memory > 0
}

// ModelsOf returns the names of the models that a replica has, in order.
func (t *Table) ModelsOf(replica int) (names []string) {
	for _, m := range t.Models {
		if slices.Contains(m.On, replica) {
			names = append(names, m.Name)
		}
	}
	return names
}
