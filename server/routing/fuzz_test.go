package routing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
)

// FuzzRoute plays any sequence of changes and requests and compares with a list of running episodes, without bound:
// nothing is routed to a version that is not ready, and no running episode moves without need.
func FuzzRoute(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte{0x40, 9, 1, 0, 0x80, 1, 0, 2, 0x41, 200, 3, 0, 0x80, 1, 0xc0, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		const ttl = time.Minute
		c := &clock{}
		var unfit refusing
		r := routing.NewRouter(routing.Config{
			Now: c.Now, EpisodeTTL: ttl, Health: healthFunc(func(m string, v int64) bool { return unfit.Allow(m, v) }),
		})
		type oracle struct {
			version int64
			last    time.Time
		}
		running := map[string]oracle{}
		s := serving(1, nil)
		next := func() byte {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return b
		}
		for len(script) > 0 {
			switch op := next(); op >> 6 {
			case 0: // states, two bits for each version
				s = changed(s)
				bits := next()
				for i, v := range s.Model("m").Versions {
					s.Model("m").Versions[i] = version("m", v.Number, catalog.State(1+bits>>(2*i)&3))
				}
			case 1: // traffic
				s = changed(s)
				slots := weights(float64(next()), float64(next()), float64(op&3))
				s.Model("m").Traffic = &catalog.Traffic{Split: slots[:next()%4], Shadow: []catalog.Shadow{
					{Version: int64(op & 7), Sample: 0.5}, {Version: 2, Sample: 1, PerRequest: true},
				}}
			case 2:
				e := episodeName(int(op & 7))
				was, runs := running[e]
				runs = runs && c.Now().Sub(was.last) <= ttl
				route, err := r.Route(s, routing.Request{Model: "m", Episode: e, RequestID: episodeName(len(script))})
				if err != nil {
					for _, p := range s.Model("m").Versions {
						if p.State == catalog.Ready && (takesPart(s, p.Number) || runs && was.version == p.Number) {
							t.Fatalf("%v, but version %d is ready", err, p.Number)
						}
					}
					if runs { // it was heard of, and goes on if its version returns
						running[e] = oracle{was.version, c.Now()}
					}
					continue
				}
				if v := s.Model("m").Version(route.Version.Number); v != route.Version || v.State != catalog.Ready {
					t.Fatalf("routed to %+v, the catalog has %+v", route.Version, v)
				}
				for _, shadow := range route.Shadows {
					if v := s.Model("m").Version(shadow.Version); v == nil || v.State != catalog.Ready ||
						v == route.Version {
						t.Fatalf("%+v is in the shadow of %+v", v, route.Version)
					}
				}
				if stays := runs && s.Model("m").Version(was.version).State == catalog.Ready; stays != route.Pinned {
					t.Fatalf("pinned is %v, want %v", route.Pinned, stays)
				}
				if route.Pinned && route.Version.Number != was.version {
					t.Fatalf("a running episode went from %d to %d", was.version, route.Version.Number)
				}
				if !route.Pinned && !takesPart(s, route.Version.Number) {
					t.Fatalf("a new episode went to %d, which takes none", route.Version.Number)
				}
				running[e] = oracle{route.Version.Number, c.Now()}
			case 3:
				switch arg := next(); op & 3 {
				case 0:
					r.End("m", episodeName(int(arg&7)))
					delete(running, episodeName(int(arg&7)))
				case 1:
					c.advance(time.Duration(arg) * time.Second)
				case 2:
					unfit = refusing{int64(arg & 3), int64(arg >> 2 & 3)}
				}
			}
		}
	})
}

// changed returns a copy of a snapshot that may be changed, as its successor.
func changed(s *catalog.Snapshot) *catalog.Snapshot {
	m := *s.Model("m")
	m.Versions = slices.Clone(m.Versions)
	return &catalog.Snapshot{Revision: s.Revision + 1, Models: catalog.ByName(&m)}
}

// takesPart reports whether new episodes may go to a version: one that has weight, or one that has none if no other is
// ready.
func takesPart(s *catalog.Snapshot, number int64) bool {
	m := s.Model("m")
	divided, served := false, false
	for _, slot := range m.Traffic.Split {
		if slot.Weight > 0 {
			v := m.Version(slot.Version)
			divided, served = true, served || v != nil && v.State == catalog.Ready
		}
	}
	if !divided {
		return m.Newest() != nil && m.Newest().Number == number
	}
	return slices.ContainsFunc(m.Traffic.Split, func(slot catalog.Slot) bool {
		return slot.Version == number && (slot.Weight > 0 || !served)
	})
}
