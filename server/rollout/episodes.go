package rollout

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// maxEpisodes bounds the episodes of a rollout that are remembered, and as many draws.
	maxEpisodes = 50_000
	// maxHeard is how much may be heard between two looks. What comes beyond is not heard.
	maxHeard = 1 << 18
	// minPatience is how long an unfinished episode holds up the episodes that began after it, at least.
	minPatience = 10 * time.Minute
)

// episode is one that the split led to a version of a rollout. Whose is the identity that began it, by the one that
// reported it, which alone may correct its report. It is counted once, when it and all that began before it are over.
// Manager.mu guards it.
type episode struct {
	id    uint64 // a hash: an episode_id may be long
	began time.Time
	part  float64 // with which the candidate had got it
	side  int
	unit  unit
	over  bool // another one of the same name has begun
	whose string
	table string // that led to its version
	twice bool   // it was led by another one, too

	reported bool
	outcome  float64
	by       string // who reported it first
	counted  bool   // it has been counted, or is not waited for any more
	gave     Given  // to the outcome's score
	gives    bool   // it did
}

// heard is what the server told of a request, and was not looked at yet. It is kept so that a request waits for no more
// than an append: take is called with it at the next look, with Manager.mu held.
type heard struct {
	model  string
	number int64  // of the version
	id     uint64 // of its episode; 0: it is of none
	take   func(r *run, id uint64, side int)
}

// Beginning is that of an episode whose first request the split led to a version.
type Beginning struct {
	Episode string
	By      string // whose it is; "": nobody is told apart
	Draw    uint64 // decided it: the same number leads to the same version
	Table   string // the hash of the table that did
	At      time.Time
	Left    int64 // the version that it was on, which is not ready any more; 0: none
}

// Begun counts an episode, unless it was on another version before. It costs next to nothing for versions without a
// running rollout, and does not wait for a look at the others.
func (m *Manager) Begun(model string, number int64, b Beginning) {
	switch {
	case m.concerns(model, b.Left):
		m.hear(model, b.Left, b.Episode, func(r *run, id uint64, _ int) { r.episodes[id].leave() })
	case b.Left == 0 && m.concerns(model, number):
		b.By = strings.Clone(b.By) // which may lie in a message, and would keep all of it
		name := b.Episode
		b.Episode = ""
		m.hear(model, number, name, func(r *run, id uint64, side int) { r.begin(id, side, &b) })
	}
}

// leave has an episode left out, since it saw two tables. Nil is one that is not known.
func (e *episode) leave() {
	if e != nil {
		e.twice, e.over = true, true
	}
}

// Observe counts a request that came to a version. It costs next to nothing for versions without a running rollout.
func (m *Manager) Observe(model string, number int64, e Ending) {
	if m.concerns(model, number) {
		kept := e // here, so that nothing is kept of requests without a rollout
		kept.Episode, kept.Routed = "", cmp.Or(e.Routed, m.config.Now())
		m.hear(model, number, e.Episode, func(r *run, id uint64, side int) { r.ended(id, side, &kept) })
	}
}

// Shown counts a request that a version might have been shown as a shadow: outcome is done, failed, dropped or skipped,
// and agreed whether its answer agreed. episode is that of the request, "" for none.
func (m *Manager) Shown(model string, shadow int64, episode, outcome string, agreed bool) {
	if m.concerns(model, shadow) {
		m.hear(model, shadow, episode, func(r *run, id uint64, side int) {
			if side == candidate {
				r.compared(id, outcome, agreed)
			}
		})
	}
}

// idOf returns a hash of an episode's name, never 0, which stands for no episode. The seed is the process's own, so
// that a caller cannot choose names with equal hashes.
func (m *Manager) idOf(episode string) uint64 {
	if episode == "" {
		return 0
	}
	return maphash.String(m.seed, episode) | 1
}

// concerns reports whether a version takes part in a running rollout. It takes no lock.
func (m *Manager) concerns(model string, number int64) bool {
	plan := (*m.plans.Load())[model]
	if plan == nil {
		return false
	}
	_, takes := plan.side(number)
	return takes
}

// hear keeps what the server tells of an episode, or of a request without one, for the next look.
func (m *Manager) hear(model string, number int64, episode string, take func(*run, uint64, int)) {
	m.hearing.Lock()
	defer m.hearing.Unlock()
	if len(m.heard) < maxHeard {
		m.heard = append(m.heard, heard{model, number, m.idOf(episode), take})
	}
}

// listenLocked takes in what was heard, in order. The caller holds mu.
func (m *Manager) listenLocked() {
	m.hearing.Lock()
	all := m.heard
	m.heard = nil
	m.hearing.Unlock()
	for _, h := range all {
		if r := m.runs[h.model]; r != nil && r.State == Running {
			if side, takes := r.side(h.number); takes {
				h.take(r, h.id, side)
				r.fresh.Store(true)
			}
		}
	}
}

// side returns which version of the rollout a number is, if it takes part.
func (p *Plan) side(number int64) (side int, is bool) {
	if number == p.CandidateVersion {
		return candidate, true
	}
	return baseline, number == p.BaselineVersion
}

// begin takes in an episode that began. One that did while the candidate got all traffic has nothing to be compared
// with. A second one of the same draw does not count, nor do its requests: its side tells nothing new. Whenever
// maxEpisodes draws are known, every second one is forgotten, and of those to come only half count from then on: the
// others may have counted.
func (r *run) begin(id uint64, side int, b *Beginning) {
	if old := r.episodes[id]; old != nil {
		old.over = true // if it is not reported by now, it never will be
	}
	part, in := r.partAt(b.At)
	if !in {
		delete(r.episodes, id)
		return
	}
	e := &episode{id: id, began: b.At, side: side, part: part, whose: b.By, table: b.Table}
	r.episodes[id] = e
	if len(r.episodes) > 2*maxEpisodes { // the ones that are waited for stay
		maps.DeleteFunc(r.episodes, func(_ uint64, e *episode) bool { return e.counted })
	}
	// Half of a draw's bits are kept: where two agree by chance, an episode is lost to the evidence.
	draw, why := uint32(b.Draw^b.Draw>>32), ""
	switch {
	case part == 1:
	case r.drawn[draw]: // this says nothing new of the split, nor are its numbers those of another draw
		why = "same_draw"
	case len(r.waiting) >= maxEpisodes, r.thinned(draw):
		why = "no_room"
	}
	if why != "" {
		r.evidence.Excluded.add(why, side)
		e.counted = true
		return
	}
	// With all traffic there is no draw whose split could be tested.
	if part < 1 {
		r.drawn[draw], r.evidence.Drawn = true, append(r.evidence.Drawn, draw)
		r.evidence.Split.add(side, part)
		r.evidence.Fates[side].Begun++
	}
	r.waiting = append(r.waiting, e)
	for len(r.drawn) >= maxEpisodes {
		r.evidence.Thin++
		maps.DeleteFunc(r.drawn, func(draw uint32, _ bool) bool { return r.thinned(draw) })
		r.evidence.Drawn = slices.DeleteFunc(r.evidence.Drawn, r.thinned)
	}
}

// thinned reports whether a draw does not count, since it may have counted before.
func (r *run) thinned(draw uint32) bool { return draw&(1<<r.evidence.Thin-1) != 0 }

// ended takes in how a request ended. A request that names an episode counts with that, if the episode is known and was
// not counted yet; one without an episode is a unit by itself.
func (r *run) ended(id uint64, side int, e *Ending) {
	r.evidence.Requests.Codes.add(e.Code, side)
	if !e.Drawn {
		return
	}
	slow := false
	if e.Code == Answered {
		r.evidence.Requests.Answered[side]++
		slow = r.slow(side, e.Compute)
	}
	if id == 0 {
		part, in := r.partAt(e.Routed)
		if !in {
			return
		}
		var u unit
		u.count(e, slow)
		r.evidence.add(first, side, part, &u)
		r.evidence.add(whole, side, part, &u)
		return
	}
	of := r.episodes[id]
	if of == nil || of.side != side || of.counted || of.twice {
		return
	}
	// A unit counts as first requests once it has enough of them, or, in count, when it ends with fewer.
	before := of.unit.asked
	of.unit.count(e, slow)
	if before < early && of.unit.asked == early {
		r.evidence.add(first, side, of.part, &of.unit)
	}
}

// slow reports whether a compute time is longer than the promotion gate allows, and takes it in afterwards. Before the
// baseline's percentile is known none is. This is about the model's time alone: a request that waited long is not slow.
func (r *run) slow(side int, compute time.Duration) bool {
	p := &r.evidence.P95[baseline]
	most := float64(p.value())
	if side == candidate {
		most *= r.Gate.MaxLatencyRatio
	}
	defer r.evidence.P95[side].add(compute)
	return p.known() && float64(compute) > most
}

// compared takes in whether the candidate agreed in the shadow, if it was asked.
func (r *run) compared(id uint64, outcome string, agreed bool) {
	if r.evidence.Shown.add(outcome, candidate); outcome == "dropped" || outcome == "skipped" {
		return
	}
	disagreed := int64(1)
	if agreed {
		disagreed = 0
	}
	if e := r.episodes[id]; id == 0 {
		r.evidence.Disagreement.alone(float64(disagreed))
	} else if e != nil && !e.counted {
		e.unit.shadowed++
		e.unit.disagreed += disagreed
	}
}

// settle counts the episodes that are over, in the order in which they began: otherwise the ones that end early would
// count first, which speaks against a version that keeps its episodes alive for longer. unfinished reports whether one
// goes on, or may be reported still.
func (r *run) settle(unfinished map[uint64]bool, now time.Time) {
	slices.SortStableFunc(r.waiting, func(a, b *episode) int { return a.began.Compare(b.began) })
	n := 0
	for ; n < len(r.waiting); n++ {
		e := r.waiting[n]
		open := !e.reported && !e.over && (unfinished[e.id] || e.began.After(now)) // since it was asked which are
		if open && now.Sub(e.began) < r.patience {
			break
		}
		e.counted = true
		switch {
		case open:
			r.evidence.Excluded.add("late", e.side)
			continue
		case e.twice:
			r.evidence.Excluded.add("two_tables", e.side)
			continue
		}
		r.count(e)
	}
	r.waiting = slices.Delete(r.waiting, 0, n)
	// How many wait is counted anew, for people: it decides nothing.
	for side := range r.evidence.Fates {
		r.evidence.Fates[side].Waiting, r.evidence.Fates[side].Unfinished = 0, 0
	}
	for _, e := range r.waiting {
		switch fates := &r.evidence.Fates[e.side]; {
		case e.part == 1:
		case e.reported:
			fates.Waiting++
		default:
			fates.Unfinished++
		}
	}
}

// count counts an episode that is over.
func (r *run) count(e *episode) {
	v := &r.evidence
	u := &e.unit
	if u.asked > 0 && u.asked < early {
		v.add(first, e.side, e.part, u)
	}
	v.add(whole, e.side, e.part, u)
	if u.shadowed > 0 {
		v.Disagreement.alone(ratio(u.disagreed, u.shadowed))
	}
	if r.Gate.Outcome == "" || e.part == 1 {
		return
	}
	if !e.reported {
		v.Fates[e.side].Lost++
		v.Lost.Add(e.side, e.part, 1, e.whose)
		return
	}
	v.Lost.Add(e.side, e.part, 0, e.whose)
	if !v.Range.Declared {
		widened := v.Range.Widened
		counts := v.Range.learn(e.outcome)
		if v.Range.Widened > widened {
			v.Outcome = Score{}
			for _, old := range r.episodes {
				old.gives = false
			}
		}
		if !counts {
			v.askOutcome(&r.Gate)
			v.Excluded.add("learning", e.side)
			return
		}
	}
	e.gave, e.gives = v.Outcome.Add(e.side, e.part, r.place(e.outcome), e.by), true
}

// report takes in how an episode of a version went, and the tables that led it, as far as that is known.
func (r *run) report(id uint64, side int, outcome float64, tables []string, by string, now time.Time) {
	v := &r.evidence
	e := r.episodes[id]
	other := func(table string) bool { return table != e.table }
	// Nobody leaves out what another has reported: they could pick the episodes that count.
	if e != nil && (!e.reported || by == e.by) && (e.side != side || slices.ContainsFunc(tables, other)) {
		e.leave()
	}
	switch {
	case e != nil && e.twice && !e.counted: // settle leaves it out
	case e == nil || e.side != side:
		v.Excluded.add("outside", side)
	case e.reported:
		v.Excluded.add("repeated", side)
		if by != e.by {
			return // nobody corrects another
		}
		e.outcome = outcome // the latest is right
		if e.gives {
			v.Outcome.correct(&e.gave, r.place(outcome))
		}
	default:
		e.reported, e.outcome, e.by = true, outcome, by
		// Others of its kind may take as long; twice that is waited for.
		r.patience = max(r.patience, 2*now.Sub(e.began))
		if e.part < 1 && !e.counted { // else it was given up, or counts for nothing
			v.Fates[side].Reported++
		}
	}
}
