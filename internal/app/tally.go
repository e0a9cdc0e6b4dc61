package app

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/runtime/catalog"
)

// slotOf returns the name of the traffic entry that leads to a version, for labels of metrics; "" for none. Without a
// split the newest version is in the default slot.
func slotOf(m *catalog.Model, v *catalog.Version) string {
	if m.Traffic != nil && len(m.Traffic.Split) > 0 {
		return m.Traffic.SlotOf(v.Number)
	}
	if m.Newest() == v {
		return catalog.DefaultSlot
	}
	return ""
}

// failure is a model, or a version of one, that could not be loaded.
type failure struct{ name, cause string }

// tally counts the versions that serve, and lists the versions that have failed and the models that cannot be read.
func tally(s *catalog.Snapshot) (serving int, failed []failure) {
	for _, m := range s.Models.All() {
		if m.Cause != "" {
			failed = append(failed, failure{m.Name, m.Cause})
		}
		for _, v := range m.Versions {
			switch v.State {
			case catalog.Ready:
				serving++
			case catalog.Failed:
				failed = append(failed, failure{fmt.Sprintf("%s/%d", v.Model, v.Number), v.Cause})
			case catalog.Loading, catalog.Unloading:
			}
		}
	}
	return serving, failed
}

// nothingLoadedError says that there is nothing to serve. Its text has only names: the causes are in the log, each
// where it happened.
type nothingLoadedError struct{ failed []failure }

func (e *nothingLoadedError) Error() string {
	var names []string
	for _, f := range e.failed {
		names = append(names, f.name)
	}
	return fmt.Sprintf("no model could be loaded (%s), as told above and by weft check; a server starts only if it "+
		"can serve one at least, and ends instead of trying again",
		strings.Join(names, ", "))
}
