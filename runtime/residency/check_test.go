package residency_test

import (
	"fmt"
	"slices"

	"github.com/weftserve/weft/runtime/residency"
)

// check returns an error for a contradiction to the invariants of the package documentation, as far as the machine
// itself shows it.
func check(m *residency.Machine) error {
	where := map[residency.ReplicaID]string{}
	place := func(id residency.ReplicaID, what string) error {
		if before, twice := where[id]; twice {
			return fmt.Errorf("replica %d is in two places: %s and %s", id, before, what)
		}
		where[id] = what
		return nil
	}
	for _, id := range m.Retiring() {
		if err := place(id, "retiring"); err != nil {
			return err
		}
	}
	lost := m.Lost()
	for name, model := range m.Models() {
		for n, v := range model.Versions {
			what := fmt.Sprintf("%s/%d", name, n)
			serves := slices.Contains([]residency.State{residency.Ready, residency.Replacing, residency.Draining},
				v.State)
			if v.Number != n || v.State == 0 || serves != (v.Resident != nil) {
				return fmt.Errorf("%s: state %d, resident %v", what, v.State, v.Resident)
			}
			if v.State == residency.Failed && v.Cause == nil {
				return fmt.Errorf("%s failed without a cause", what)
			}
			if v.Resident == nil {
				continue
			}
			if len(v.Resident.Replicas) == 0 && v.State != residency.Draining {
				return fmt.Errorf("%s takes requests without a replica", what)
			}
			for _, r := range v.Resident.Replicas {
				if err := place(r.ID, what); err != nil {
					return err
				}
				if lost[r.Device] != nil {
					return fmt.Errorf("%s is on the lost device %v", what, r.Device)
				}
			}
		}
	}
	return nil
}
