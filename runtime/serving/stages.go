package serving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/tensor"
)

// stages are the versions that answer the steps of a staged pipeline. The pipeline keeps them from being closed while
// it asks them, and each request does until its end: so a request is answered by the versions of its beginning,
// whatever takes their places meanwhile.
type stages struct {
	of    *Version
	steps []*stage
	slots map[string]int // where in a request's values each is, by its name in the pipeline
	flow  string         // that requests are charged to
	users atomic.Int64   // the requests under way, and one more while the pipeline has them
	ended chan struct{}  // closed with the last user
	// giveUp has the wait for further steps end: one that was taken goes. gone is closed then.
	giveUp func()
	gone   chan struct{}
}

// stage is the version that answers a step.
type stage struct {
	public *catalog.Version
	held   *Version
	gives  []int         // the slots of its outputs
	ran    atomic.Uint64 // the share of a request's rows that it runs for, as learned; the bits of a float64
}

// expects returns how many of a request's rows the step is expected to run for: one of them at least.
func (s *stage) expects(rows int) int {
	return max(1, int(math.Ceil(math.Float64frombits(s.ran.Load())*float64(rows))))
}

// learn notes for how many of a request's rows the step ran. Two at a time may miss one of them.
func (s *stage) learn(ran, rows int) {
	before := math.Float64frombits(s.ran.Load())
	s.ran.Store(math.Float64bits(before + (float64(ran)/float64(rows)-before)/learning))
}

func (v *Version) newStages() *stages {
	s := &stages{
		of: v, slots: map[string]int{}, flow: flowName(v.Model, v.Number, v.From.Manifest.Fairness),
		ended: make(chan struct{}), gone: make(chan struct{}),
	}
	s.giveUp = sync.OnceFunc(func() { close(s.gone) })
	s.users.Store(1)
	return s
}

// add adds the next step. Its version is held for s.
func (s *stages) add(step *modelrepo.Step, public *catalog.Version, held *Version) {
	next := &stage{public: public, held: held}
	next.ran.Store(math.Float64bits(1))
	for _, from := range step.Inputs {
		s.slot(from) // of the pipeline's inputs; the others are there
	}
	for _, out := range public.Signature.Outputs {
		next.gives = append(next.gives, s.slot(step.Name+"."+out.Name))
	}
	s.steps = append(s.steps, next)
}

// slot returns the place of the value of that name, which is a new one the first time.
func (s *stages) slot(name string) int {
	at, is := s.slots[name]
	if !is {
		at = len(s.slots)
		s.slots[name] = at
	}
	return at
}

// use keeps the versions until leave; false: they are given up.
func (s *stages) use() bool {
	for n := s.users.Load(); n > 0; n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (s *stages) leave() {
	if s.users.Add(-1) > 0 {
		return
	}
	for _, step := range s.steps {
		step.held.letGo(s)
	}
	close(s.ended)
}

// stale reports whether one of the versions takes requests no more.
func (s *stages) stale() bool {
	return slices.ContainsFunc(s.steps, func(step *stage) bool { return !step.held.Ready.Load() })
}

// TakeSteps waits until the versions that a staged pipeline asks are ready, from the files that it was read with, and
// keeps them from being closed until LetSteps. It does nothing for any other version.
func (v *Version) TakeSteps(ctx context.Context) error {
	p := v.staged()
	if p == nil || v.stages.Load() != nil {
		return nil
	}
	s := v.newStages()
	for i := range p.Steps {
		step := &p.Steps[i]
		public, held, err := s.await(ctx, step)
		if err != nil {
			s.leave()
			return fmt.Errorf("%s: step %q: %w", v.From.Path(), step.Name, err)
		}
		s.add(step, public, held)
	}
	if !v.stages.CompareAndSwap(nil, s) {
		s.leave()
	}
	return nil
}

// LetSteps gives up the versions that the pipeline asks. Requests under way keep theirs.
func (v *Version) LetSteps() {
	if s := v.stages.Swap(nil); s != nil {
		s.leave()
	}
}

// stepPatience is how long a step may be absent, or have other files, without being loaded.
const stepPatience = 5 * time.Second

// await waits for the version of a step.
func (s *stages) await(ctx context.Context, step *modelrepo.Step) (*catalog.Version, *Version, error) {
	owner := s.of.shared.Owner
	var since time.Time // when it was last expected; zero: it is now, and may take its time
	for {
		changed := owner.Changed(step.Model)
		public, held := s.take(step)
		expected := public != nil && (public.State != catalog.Ready || public.Loading != nil)
		switch {
		case held != nil:
			return public, held, nil
		case public != nil && (public.State == catalog.Failed || public.Cause != ""):
			return nil, nil, fmt.Errorf("version %d of model %s cannot be loaded: %s", step.Version, step.Model, public.Cause)
		case expected:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		var late <-chan time.Time
		switch left := stepPatience - time.Since(since); {
		case expected:
		case left > 0:
			late = time.After(left)
		case public != nil:
			return nil, nil, fmt.Errorf("version %d of model %s is served from other files by now", step.Version, step.Model)
		default:
			return nil, nil, fmt.Errorf("version %d of model %s is not served; load it (weft load %s %d), or have "+
				"versions.policy select it", step.Version, step.Model, step.Model, step.Version)
		}
		select {
		case <-changed:
		case <-late:
		case <-s.gone:
			return nil, nil, errors.New("another step that was ready goes")
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// take returns the version of a step as it is published, nil: it is not, and holds it for s if it answers from the
// files that the pipeline was read with. Else held is nil.
func (s *stages) take(step *modelrepo.Step) (public *catalog.Version, held *Version) {
	public = s.of.shared.Owner.Step(step.Model, step.Version)
	if public == nil || public.State != catalog.Ready {
		return public, nil
	}
	own, _ := public.Resident.(*Version)
	if own == nil || own.From.Version.Fingerprint != step.Of.Fingerprint || !own.hold(s, false) {
		return public, nil
	}
	return public, own
}

// useSteps returns the versions that answer a request, which leaves them at its end. The error says which of them does
// not answer.
func (v *Version) useSteps() (*stages, error) {
	for {
		s := v.stages.Load()
		if s != nil && !s.use() {
			continue // it is replaced at this moment
		}
		if s != nil && !s.stale() {
			return s, nil
		}
		next, err := v.renew(s)
		if err != nil {
			return nil, err
		}
		if next != nil {
			return next, nil
		}
	}
}

// renew takes the versions that are in the places of others now, as after another setting of a step, and returns them
// for one more user. before, which is in use by the caller and left here, are the ones that the pipeline has; nil:
// none. Nil without an error: another caller was first.
func (v *Version) renew(before *stages) (*stages, error) {
	next, err := v.successors(before)
	if before != nil {
		defer before.leave()
	}
	switch {
	case err != nil && v.stages.CompareAndSwap(before, nil) && before != nil:
		before.leave() // what is out of service is not to be kept
		return nil, err
	case err != nil:
		return nil, err
	case next == nil && before.use():
		return before, nil
	case next == nil:
		return nil, nil
	}
	next.use()
	if !v.stages.CompareAndSwap(before, next) {
		next.leave()
		next.leave()
		return nil, nil
	}
	if before != nil {
		before.leave()
	}
	if !v.Ready.Load() { // it has given up its steps meanwhile
		v.LetSteps()
	}
	return next, nil
}

// successors returns the versions that answer the steps now; nil: they are the ones before. A version whose files were
// replaced stays: the pipeline is going to be replaced, too.
func (v *Version) successors(before *stages) (*stages, error) {
	p, same := v.staged(), before != nil
	next := v.newStages()
	for i := range p.Steps {
		step := &p.Steps[i]
		public, held := next.take(step)
		if held == nil {
			if public == nil || public.State == catalog.Failed || before == nil {
				next.leave()
				return nil, fmt.Errorf("step %q: model %q version %d does not answer", step.Name, step.Model, step.Version)
			}
			public, held = before.steps[i].public, before.steps[i].held
			held.hold(next, true)
		}
		same = same && held == before.steps[i].held
		next.add(step, public, held)
	}
	if same {
		next.leave()
		return nil, nil
	}
	if all := v.Replicas(); len(all) > 0 {
		if faults := next.check(all[0].signature); len(faults) > 0 {
			next.leave()
			return nil, p.At(v.From.Path(), faults)
		}
	}
	return next, nil
}

// lacks returns which step of a pipeline does not answer, or nil.
func (v *Version) lacks() *string {
	if !v.Ready.Load() {
		return nil
	}
	s, err := v.useSteps()
	if err != nil {
		return new(err.Error())
	}
	s.leave()
	return nil
}

// holders are who keeps a version from being closed.
type holders struct {
	mu    sync.Mutex
	times map[*stages]int // guarded by mu; how many steps of them it answers
	freed chan struct{}   // guarded by mu; closed when there is none any more; nil: nobody waits for that
}

// hold keeps the version from being closed until letGo; false: it takes requests no more. again says that s takes it
// from others, who hold it.
func (v *Version) hold(s *stages, again bool) bool {
	h := &v.holders
	h.mu.Lock()
	defer h.mu.Unlock()
	if !again && !v.Ready.Load() {
		return false
	}
	if h.times == nil {
		h.times = map[*stages]int{}
	}
	h.times[s]++
	return true
}

func (v *Version) letGo(s *stages) {
	h := &v.holders
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.times[s]--; h.times[s] == 0 {
		delete(h.times, s)
	}
	if len(h.times) == 0 && h.freed != nil {
		close(h.freed)
		h.freed = nil
	}
}

// Held reports whether a pipeline asks the version as a step.
func (v *Version) Held() bool {
	v.holders.mu.Lock()
	defer v.holders.mu.Unlock()
	return len(v.holders.times) > 0
}

// heldBy returns who holds the version, and a channel that is closed when nobody does any more; nil: nobody does.
func (v *Version) heldBy() ([]*stages, <-chan struct{}) {
	h := &v.holders
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.times) == 0 {
		return nil, nil
	}
	if h.freed == nil {
		h.freed = make(chan struct{})
	}
	return slices.Collect(maps.Keys(h.times)), h.freed
}

// drainPatience is how long a version that goes waits for pipelines which ask it to be replaced, too. Loads may wait
// for its end, those of the pipelines too.
const drainPatience = 10 * time.Second

// lookPause is how long after its patience a version looks again for pipelines that ask it nevertheless.
const lookPause = 100 * time.Millisecond

// unheld waits until no pipeline asks a version that takes requests no more, and, if it is a pipeline, none of its
// requests is under way; or until ctx has ended, or its devices are lost, so that nobody can ask it. Pipelines take
// what is in its place, if there is something; the others answer no more after drainPatience.
func (v *Version) unheld(ctx context.Context) {
	if v.Ready.Load() { // only one of its replicas goes
		return
	}
	if s := v.stages.Swap(nil); s != nil {
		s.leave()
		select {
		case <-s.ended:
		case <-ctx.Done():
		}
	}
	var late <-chan time.Time
	given := false // nobody is waited for any more but requests
	for {
		changed := v.shared.Owner.Changed(v.Model)
		by, freed := v.heldBy()
		if freed == nil || v.Pick(1) == nil {
			return
		}
		if late == nil {
			late = time.After(drainPatience)
		}
		for _, s := range by {
			switch current := s.of.stages.Load() == s; {
			case !current: // requests have it, or the pipeline waits for its other steps
				if given {
					s.giveUp()
				}
				continue
			case given:
				if s.of.stages.CompareAndSwap(s, nil) {
					s.leave()
					v.shared.Owner.Stirred()
				}
				continue
			}
			if s.use() {
				switch next, err := s.of.renew(s); {
				case err != nil:
					v.shared.Owner.Stirred()
				case next != nil:
					next.leave()
				}
			}
		}
		select {
		case <-freed:
		case <-changed:
		case <-late:
			given, late = true, time.After(lookPause) // a pipeline may renew what it has at this moment
		case <-ctx.Done():
			return
		}
	}
}

// check judges the versions that answer the steps by the signature of the pipeline: the value that a condition looks at
// has one number for each row, and where rows may be left out all agree on which dimension they are along.
func (s *stages) check(sig *tensor.Signature) (faults config.Faults) {
	p := s.of.staged()
	if !slices.ContainsFunc(p.Steps, func(step modelrepo.Step) bool { return step.When != nil }) {
		return nil
	}
	dims := map[string]int{} // of the values, by name
	for _, in := range sig.Inputs {
		dims[in.Name] = in.BatchDim
	}
	for i := range p.Steps {
		step, of, key := &p.Steps[i], s.steps[i].public.Signature, fmt.Sprintf("steps[%d]", i)
		s.checkCondition(&faults, key+".when.output", step.When)
		takes := slices.Concat(of.Inputs, of.Optional)
		for _, in := range takes {
			from := step.Inputs[in.Name]
			if dim, is := dims[from]; is && dim != in.BatchDim {
				faults.Addf(key+".inputs."+in.Name, "expected %s, as %s has, since conditions (when) leave rows out: version %d "+
					"of model %s is served with %s there (batching in its settings)", alongDim(dim), from, step.Version, step.Model,
					alongDim(in.BatchDim))
			}
		}
		for in, out := range step.Carry {
			i := slices.IndexFunc(takes, func(spec tensor.Spec) bool { return spec.Name == in })
			o := of.Output(out)
			if i >= 0 && o >= 0 && takes[i].BatchDim != of.Outputs[o].BatchDim {
				faults.Addf(key+".carry."+in, "expected %s, as the input has: the output %q has %s",
					alongDim(takes[i].BatchDim), out, alongDim(of.Outputs[o].BatchDim))
			}
		}
		for _, out := range of.Outputs {
			dims[step.Name+"."+out.Name] = out.BatchDim
		}
	}
	for _, out := range sig.Outputs {
		from := p.Outputs[out.Name]
		if _, may := p.Defaults[out.Name]; may && dims[from] != out.BatchDim {
			faults.Addf("outputs."+out.Name, "expected %s, as the joined model gives, since conditions (when) leave rows out: "+
				"%s has %s", alongDim(out.BatchDim), from, alongDim(dims[from]))
		}
	}
	return faults
}

func alongDim(dim int) string {
	if dim == tensor.NoBatch {
		return "no rows"
	}
	return fmt.Sprintf("rows along dimension %d", dim)
}

// checkCondition judges the output that a condition looks at; nil is none.
func (s *stages) checkCondition(faults *config.Faults, key string, when *modelrepo.When) {
	if when == nil {
		return
	}
	p := s.of.staged()
	name, output, _ := p.StepOf(when.Output)
	at := slices.IndexFunc(p.Steps, func(step modelrepo.Step) bool { return step.Name == name })
	sig := s.steps[at].public.Signature
	o := sig.Output(output)
	if o < 0 {
		faults.Addf(key, "expected an output with numbers: step %q does not serve that one", name)
		return
	}
	spec := &sig.Outputs[o]
	one := spec.DType != tensor.String && spec.BatchDim != tensor.NoBatch
	for k, n := range spec.Shape {
		one = one && (k == spec.BatchDim || n == 1)
	}
	if !one {
		faults.Addf(key, "expected one number, true or false for each row: %s is %v %v, and the model of step %q would "+
			"have to give that", when.Output, spec.DType, spec.Shape, name)
	}
}
