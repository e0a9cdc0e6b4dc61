package routing_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/servertest/script"
)

// world is a router and the snapshot that it routes by. Its model "m" has four ready versions to begin with. Scripts
// change these by events without an answer:
//
//	states ready - failed       of the versions 1, 2...; "-" is not there
//	labels stable=1             unreadable CAUSE
//	traffic a=90 b=10>2         slots with their weights, the i-th on version i unless it says another
//	shadows 3=0.25 4=1/request  unfit 1 2
//	remember 1m, remember 3 episodes    with a router that remembers so much
//	end e    report e
//
// The others are answered:
//
//	ask [of MODEL] [version 1 | label x] [episode e] [request r]    the route
//	spread N, without N, running N    so many routes, of episodes that have not begun, of no episode, and of one each
//	moves SLOTS to SLOTS        the parts of all episodes that move
//	both N, shown N, keeps N SHADOWS, again N    counts that their comments explain
//	most, late, episodes, version e, unfinished, used 1
type world struct {
	t      *testing.T
	router *routing.Router
	s      *catalog.Snapshot
	first  *catalog.Snapshot
	unfit  refusing
	serial uint64
	drawn  int // episodes
}

// refusing allows all versions but these.
type refusing []int64

func (r refusing) Allow(_ string, version int64) bool { return !slices.Contains(r, version) }

type healthFunc func(model string, version int64) bool

func (f healthFunc) Allow(model string, version int64) bool { return f(model, version) }
func (f healthFunc) Fit(model string, version int64) bool   { return f(model, version) }

func newWorld(t *testing.T) *world {
	w := &world{t: t, s: serving(1, nil)}
	w.first = w.s
	w.remember(routing.Config{MaxEpisodes: 1e6})
	return w
}

func (w *world) remember(c routing.Config) {
	c.Health = healthFunc(func(m string, v int64) bool { return w.unfit.Allow(m, v) })
	w.router = routing.NewRouter(c)
}

// change makes the successor of the snapshot.
func (w *world) change(f func(m *catalog.Model)) string {
	s := changed(w.s)
	f(s.Model("m"))
	w.s = s
	return ""
}

func slotsOf(words []string) (all []catalog.Slot) {
	for i, word := range words {
		name, rest, _ := strings.Cut(word, "=")
		weight, on, has := strings.Cut(rest, ">")
		slot := catalog.Slot{Name: name, Version: int64(i + 1)}
		slot.Weight, _ = strconv.ParseFloat(weight, 64)
		if has {
			slot.Version = number(on)
		}
		all = append(all, slot)
	}
	return all
}

func shadowsOf(words []string) (all []catalog.Shadow) {
	for _, word := range words {
		version, rest, _ := strings.Cut(word, "=")
		sample, _, each := strings.Cut(rest, "/")
		shadow := catalog.Shadow{Version: number(version), PerRequest: each}
		shadow.Sample, _ = strconv.ParseFloat(sample, 64)
		all = append(all, shadow)
	}
	return all
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func stateOf(word string) catalog.State {
	for _, s := range []catalog.State{catalog.Loading, catalog.Ready, catalog.Unloading} {
		if strings.EqualFold(s.String(), word) {
			return s
		}
	}
	return catalog.Failed
}

func (w *world) event(line string) string {
	words := strings.Fields(line)
	event, rest := words[0], words[1:]
	first, of := append(rest, "")[0], "m"
	if i := slices.Index(rest, "of"); i >= 0 {
		of = rest[i+1]
	}
	switch event {
	case "states":
		return w.change(func(m *catalog.Model) {
			m.Versions = nil
			for i, word := range rest {
				if v := version("m", int64(i+1), stateOf(word)); word != "-" {
					v.TakenOut = word == "taken-out"
					m.Versions = append(m.Versions, v)
				}
			}
		})
	case "labels":
		return w.change(func(m *catalog.Model) {
			m.Labels = map[string]int64{}
			for _, word := range rest {
				label, version, _ := strings.Cut(word, "=")
				m.Labels[label] = number(version)
			}
		})
	case "unreadable":
		return w.change(func(m *catalog.Model) { m.Cause = strings.Join(rest, " ") })
	case "traffic":
		return w.divide(slotsOf(rest))
	case "shadows":
		return w.change(func(m *catalog.Model) {
			m.Traffic = &catalog.Traffic{Split: m.Traffic.Split, Shadow: shadowsOf(rest)}
		})
	case "unfit":
		w.unfit = nil
		for _, word := range rest {
			w.unfit = append(w.unfit, number(word))
		}
		return ""
	case "remember":
		c := routing.Config{}
		if len(rest) == 2 {
			c.MaxEpisodes = int(number(first))
		} else {
			c.EpisodeTTL, _ = time.ParseDuration(first)
		}
		w.remember(c)
		return ""
	case "end":
		w.router.End(of, first)
		return ""
	case "report":
		w.router.Reported(of, first)
		return ""
	}
	return w.answer(event, first, of, rest)
}

func (w *world) divide(split []catalog.Slot) string {
	return w.change(func(m *catalog.Model) { m.Traffic = &catalog.Traffic{Split: split, Shadow: m.Traffic.Shadow} })
}

func (w *world) answer(event, first, of string, rest []string) string {
	n, _ := strconv.Atoi(first)
	switch event {
	case "ask":
		return w.ask(of, rest)
	case "late": // a reader of the first snapshot
		route, _ := w.router.Route(w.first, routing.Request{Model: "m"})
		once, again := w.router.Table(w.s), w.router.Table(w.s)
		return fmt.Sprint("version ", route.Version.Number, ", one table: ", once == again)
	case "most":
		route, err := routing.NewTable(w.s).Resolve("m", routing.Choice{})
		if (err == nil) != w.s.Model("m").Answers() {
			return "Answers is wrong"
		} else if err != nil {
			return err.Error()
		}
		return fmt.Sprint("version ", route.Version.Number)
	case "episodes":
		return strconv.Itoa(w.router.Episodes())
	case "version":
		if v, known := w.router.VersionOf(of, first); known {
			return strconv.FormatInt(v, 10)
		}
		return "unknown"
	case "unfinished":
		return fmt.Sprint(slices.Sorted(slices.Values(w.router.Unfinished(of))))
	case "used":
		if last := w.router.LastUse(of, int64(n)); !last.IsZero() {
			return fmt.Sprint(time.Since(last), " ago")
		}
		return "never"
	case "spread":
		w.drawn++
		return w.count(n, func(i int) routing.Request { return routing.Request{Episode: fmt.Sprint(w.drawn, "-", i)} })
	case "running":
		return w.count(n, func(i int) routing.Request { return routing.Request{Episode: strconv.Itoa(i)} })
	case "without": // Clients give all of their requests the same id, or number them from 1 each.
		return w.count(n, func(i int) routing.Request { return routing.Request{RequestID: "1", Serial: uint64(i)} })
	}
	return w.compare(event, n, rest)
}

// compare plays the events that ask for two things of each episode.
func (w *world) compare(event string, n int, rest []string) string {
	seen := map[string]int{}
	switch event {
	case "moves":
		to := slices.Index(rest, "to")
		const n = 20_000
		w.divide(slotsOf(rest[:to]))
		before := w.slots(n)
		w.divide(slotsOf(rest[to+1:]))
		for i, after := range w.slots(n) {
			if before[i] != after {
				seen[before[i]+">"+after]++
			}
		}
		var parts []string
		for _, move := range slices.Sorted(maps.Keys(seen)) {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", move, 100*float64(seen[move])/n))
		}
		return strings.Join(parts, ", ")
	case "both": // the slots of an episode of one name with either model
		other := *w.s.Model("m")
		other.Name = "n"
		s := &catalog.Snapshot{Revision: w.s.Revision + 1, Models: w.s.Models.With("n", &other)}
		for i := range n {
			one := mustRoute(w.t, w.router, s, routing.Request{Episode: episodeName(i)})
			two := mustRoute(w.t, w.router, s, routing.Request{Model: "n", Episode: episodeName(i)})
			seen[one.Slot+" "+two.Slot]++
		}
	case "shown": // the shadows of requests, by their episodes, or also by their ids or serials
		for i := range n {
			q := routing.Request{Episode: episodeName(i % 5000), RequestID: episodeName(i)}
			if len(rest) > 1 {
				q.RequestID, q.Serial = "", uint64(i)
			}
			route := mustRoute(w.t, w.router, w.s, q)
			what := []string{route.Slot}
			for _, shadow := range route.Shadows {
				what = append(what, strconv.FormatInt(shadow.Version, 10))
			}
			seen[strings.Join(what, " ")]++
		}
	case "keeps": // the shadows of requests before and after other samples
		for i := range n {
			before := mustRoute(w.t, w.router, w.s, routing.Request{Episode: episodeName(i)})
			s := changed(w.s)
			s.Model("m").Traffic = &catalog.Traffic{Shadow: shadowsOf(rest[1:])}
			r := routing.NewRouter(routing.Config{})
			after := mustRoute(w.t, r, s, routing.Request{Episode: episodeName(i)})
			seen[fmt.Sprint(len(before.Shadows), " then ", len(after.Shadows))]++
		}
	case "again": // the slots of one episode that begins again and again, and how many numbers it drew
		draws := map[uint64]bool{}
		for range n {
			route := mustRoute(w.t, w.router, w.s, routing.Request{Episode: "robot-7"})
			draws[route.Draw] = true
			seen[route.Slot]++
			if second := mustRoute(w.t, w.router, w.s, routing.Request{Episode: "robot-7"}); second.Version != route.Version {
				return "an episode left its version"
			}
			w.router.End("m", "robot-7")
		}
		return inOrder(seen) + fmt.Sprint(", draws: ", len(draws))
	default:
		return "no event"
	}
	return inOrder(seen)
}

func (w *world) ask(of string, words []string) string {
	q := routing.Request{Model: of, Serial: w.serial}
	for i := range words {
		next := append(words, "")[i+1]
		switch words[i] {
		case "version":
			q.Choice.Version = new(number(next))
		case "label":
			q.Choice.Label = new(strings.Trim(next, `"`))
		case "episode":
			q.Episode = next
		case "request":
			q.RequestID = next
		}
	}
	route, err := w.router.Route(w.s, q)
	if err != nil {
		return err.Error()
	}
	if began := !route.Began.IsZero(); began != (q.Episode != "" && !route.Pinned && q.Choice == (routing.Choice{})) ||
		began && !route.Began.Equal(time.Now()) {
		return fmt.Sprintf("it began at %v", route.Began)
	}
	return routeText(&route)
}

// routeText has of a route what is not as usual.
func routeText(route *routing.Route) string {
	text := []string{fmt.Sprint("version ", route.Version.Number)}
	for _, part := range []struct {
		is   bool
		text string
	}{
		{route.Slot != "", "by " + route.Slot},
		{route.FailedOverFrom > 0, fmt.Sprint("for ", route.FailedOverFrom)},
		{route.Drawn, "drawn"},
		{route.Pinned, "pinned"},
		{route.Degraded, "degraded"},
	} {
		if part.is {
			text = append(text, part.text)
		}
	}
	for i := range route.Shadows {
		text = append(text, fmt.Sprint("shadow ", route.Shadows[i].Version))
	}
	return strings.Join(text, " ")
}

// count counts the routes of so many requests. What the first one of an episode gets, others get too.
func (w *world) count(n int, request func(i int) routing.Request) string {
	seen := map[string]int{}
	for i := range n {
		q := request(i)
		q.Model = "m"
		route, err := w.router.Route(w.s, q)
		if err != nil {
			return err.Error()
		}
		seen[routeText(&route)]++
		if q.Episode == "" || route.Pinned {
			continue
		}
		again := mustRoute(w.t, w.router, w.s, q)
		if again.Pinned = !again.Pinned; again.Drawn != (route.FailedOverFrom == 0 && len(w.s.Model("m").Traffic.Split) > 0) {
			w.t.Errorf("%+v, then %+v", route, again)
		}
		if again.Version != route.Version || again.Slot != route.Slot || again.Pinned ||
			again.FailedOverFrom != route.FailedOverFrom {
			w.t.Errorf("%+v, then %+v", route, again)
		}
	}
	return inOrder(seen)
}

// slots returns the slots of as many episodes.
func (w *world) slots(n int) []string {
	r, all := routing.NewRouter(routing.Config{MaxEpisodes: 2 * n}), make([]string, n)
	for i := range all {
		all[i] = mustRoute(w.t, r, w.s, routing.Request{Episode: episodeName(i)}).Slot
	}
	return all
}

func inOrder(counts map[string]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprint(what, ": ", counts[what]))
	}
	return strings.Join(all, ", ")
}

func TestScripts(t *testing.T) {
	for _, name := range []string{"versions", "split", "episodes"} {
		t.Run(name, func(t *testing.T) {
			script.Play(t, "testdata/"+name+".txt", func(t *testing.T) func(string) string { return newWorld(t).event })
		})
	}
}
