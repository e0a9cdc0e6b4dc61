package app

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/host"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/roster"
)

// division divides the models of the repositories among the replicas of a roster, as each replica does by itself. Safe
// for concurrent use.
type division struct {
	from, self string
	copies     int
	memory     int64 // of a replica that names none

	mu       sync.Mutex
	replicas []roster.Replica        // guarded by mu: as they were last read without a fault
	known    map[string]roster.Model // guarded by mu: of each model, as it was last found without a fault
	sizes    map[string]size         // guarded by mu: of each version, by directory
}

// size is how much memory a version takes that has a fingerprint.
type size struct {
	fingerprint string
	bytes       int64
}

// newDivision reads the roster. self says that this server must be on it; else there need not be one.
func newDivision(s *config.Server, self bool) (*division, error) {
	d := &division{
		from: s.Roster, self: s.Self, copies: s.Copies, memory: int64(s.ModelMemory),
		known: map[string]roster.Model{}, sizes: map[string]size{},
	}
	if self && d.self == "" {
		var err error
		if d.self, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("--self: the name of this host cannot be read: %w; name this server as the roster does", err)
		}
	}
	if !self {
		d.self = ""
	}
	return d, d.read()
}

// read reads the roster. After a fault the one that was read before holds.
func (d *division) read() error {
	replicas, err := roster.Read(d.from, d.memory)
	if err != nil {
		return fmt.Errorf("--roster: %w", err)
	}
	names := make([]string, len(replicas))
	for i, r := range replicas {
		names[i] = r.Name
	}
	if d.self != "" && !slices.Contains(names, d.self) {
		return fmt.Errorf("--self: %s is not on the roster (%s), which has %s; name this server as the roster does, or put "+
			"it there", d.self, d.from, strings.Join(names, ", "))
	}
	d.replicas = replicas
	return nil
}

// divide marks what is elsewhere in a listing, and reads the roster before that.
func (d *division) divide(l *modelrepo.Listing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.read(); err != nil {
		l.Faults = append(l.Faults, fmt.Errorf("%w; until then the roster is as it was", err))
	}
	t := d.place(l)
	for i := range l.Models {
		m := &l.Models[i]
		placed := t.Of(m.Name)
		names := t.Names(placed)
		if slices.Contains(names, d.self) {
			continue
		}
		*m = modelrepo.Model{
			Name: m.Name, Dir: m.Dir, Manifest: m.Manifest,
			Elsewhere: &catalog.ElsewhereError{Model: m.Name, Self: d.self, Replicas: names, Why: noRoom(t, placed)},
		}
	}
}

// place returns the table of a listing, in which nothing is marked. The caller holds mu.
func (d *division) place(l *modelrepo.Listing) *roster.Table {
	sizes, models := map[string]size{}, make([]roster.Model, 0, len(l.Models))
	selected := map[string]bool{} // by directory
	for _, m := range l.Models {
		for _, v := range m.Selected {
			selected[v.Dir] = true
		}
	}
	for i := range l.Models {
		m := &l.Models[i]
		if was, known := d.known[m.Name]; known && m.Err != nil {
			models = append(models, was) // a mistake moves no model
			continue
		}
		next := roster.Model{Name: m.Name, Copies: cmp.Or(m.Manifest.Copies, d.copies)}
		for j := range m.Selected {
			v := &m.Selected[j]
			if v.Pipeline == nil || !v.Pipeline.Staged() {
				next.Size += d.size(sizes, v, m.Settings(v))
				continue
			}
			alone := map[string]bool{} // versions that are there for the pipeline only
			for _, s := range v.Pipeline.Steps {
				next.Needs = append(next.Needs, s.Model)
				if !selected[s.Of.Dir] && !alone[s.Of.Dir] {
					alone[s.Of.Dir] = true
					next.Size += d.size(sizes, &s.Of, m.Settings(v))
				}
			}
		}
		models = append(models, next)
	}
	d.sizes = sizes
	clear(d.known)
	for _, m := range models {
		d.known[m.Name] = m
	}
	return roster.Place(d.replicas, models)
}

// size returns the estimate for a version. Its files are looked at once, as long as they do not change.
func (d *division) size(sizes map[string]size, v *modelrepo.Version, m *modelrepo.Manifest) int64 {
	now := d.sizes[v.Dir]
	if now.fingerprint != v.Fingerprint || v.Fingerprint == "" {
		now = size{v.Fingerprint, host.Estimate(v, m)}
	}
	sizes[v.Dir] = now
	return now.bytes
}

// noRoom says why a model has fewer copies than it is to have; "": it has enough.
func noRoom(t *roster.Table, m *roster.Placed) string {
	if len(m.On) >= min(m.Copies, len(t.Replicas)) {
		return ""
	}
	most, at := int64(0), ""
	for r := range t.Replicas {
		if room, _ := t.Room(r); !slices.Contains(m.On, r) && (room > most || at == "") {
			most, at = room, t.Replicas[r].Name
		}
	}
	steps := ""
	if len(m.Needs) > 0 {
		steps = " and what its steps need"
	}
	return fmt.Sprintf("it needs %s%s, and the most room is %s on %s; give replicas more memory, add one, or lower copies",
		about(m.Size), steps, about(max(0, most)), at)
}

// about gives a number of bytes with one decimal, in the unit that suits it.
func about(bytes int64) string {
	unit, name := config.KiB, "KiB"
	switch {
	case bytes >= int64(config.GiB):
		unit, name = config.GiB, "GiB"
	case bytes >= int64(config.MiB):
		unit, name = config.MiB, "MiB"
	}
	return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit), name)
}

// elsewhere counts the models of a listing that other replicas have.
func elsewhere(l modelrepo.Listing) (n int) {
	for _, m := range l.Models {
		if m.Elsewhere != nil {
			n++
		}
	}
	return n
}
