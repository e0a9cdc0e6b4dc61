package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/weftserve/weft/examples/plant"
)

// search is the cross-entropy method (R. Y. Rubinstein, "The cross-entropy method for combinatorial and
// continuous optimization", Methodology and Computing in Applied Probability 1, 1999) with the decreasing extra
// noise of I. Szita and A. Lőrincz, "Learning Tetris using the noisy cross-entropy method", Neural Computation
// 18(12), 2006: draw candidates from a normal distribution, keep the best, fit the distribution to them.
type search struct {
	kind   plant.Kind
	memory memory
	sizes  []int
	scale  []float64 // one unit of the search, in each weight

	mean, deviation []float64
	iteration       int
	rng             *rand.Rand
}

const (
	candidates = 64
	elites     = 10
	episodes   = 16 // per candidate and iteration, the same ones for all candidates

	extraNoise      = 0.3 // standard deviation added at the start, in units of scale
	noiseIterations = 40  // after which nothing is added
)

func newSearch(kind plant.Kind, m memory, seed uint64) *search {
	sizes := []int{kind.ObservationSize, hidden, kind.ActionSize}
	scale := m.scaleOf(kind.Typical, sizes)
	s := &search{
		kind:      kind,
		memory:    m,
		sizes:     sizes,
		scale:     scale,
		mean:      make([]float64, len(scale)),
		deviation: make([]float64, len(scale)),
		rng:       rand.New(rand.NewPCG(seed, 0)),
	}
	for i := range s.deviation {
		s.deviation[i] = 1
	}
	return s
}

// improve runs one iteration. Random numbers are drawn before the episodes, which run on all cores: the outcome
// does not depend on their number.
func (s *search) improve() {
	type candidate struct {
		weights []float64
		score   float64
	}
	pool := make([]candidate, candidates)
	for i := range pool {
		pool[i].weights = make([]float64, len(s.mean))
		for j := range s.mean {
			pool[i].weights[j] = s.mean[j] + s.deviation[j]*s.rng.NormFloat64()
		}
	}
	firstSeed := s.rng.Uint64()
	onAllCores(len(pool), func(i int) {
		pool[i].score = mean(returns(s.kind, s.policyOf(pool[i].weights), firstSeed, episodes))
	})
	slices.SortStableFunc(pool, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })

	s.iteration++
	noise := extraNoise * math.Max(0, 1-float64(s.iteration)/noiseIterations)
	for j := range s.mean {
		sum, squares := 0.0, 0.0
		for _, c := range pool[:elites] {
			sum += c.weights[j]
		}
		s.mean[j] = sum / elites
		for _, c := range pool[:elites] {
			squares += (c.weights[j] - s.mean[j]) * (c.weights[j] - s.mean[j])
		}
		s.deviation[j] = math.Sqrt(squares/elites + noise*noise)
	}
}

// centre returns the centre of the present distribution as a policy.
func (s *search) centre() *policy { return s.policyOf(s.mean) }

func (s *search) policyOf(weights []float64) *policy {
	scaled := make([]float64, len(weights))
	for i, w := range weights {
		scaled[i] = w * s.scale[i]
	}
	p := newPolicy(s.memory, s.sizes...)
	p.setWeights(scaled)
	return p
}

func mean(vs []float64) float64 {
	sum := 0.0
	for _, v := range vs {
		sum += v
	}
	return sum / float64(len(vs))
}

// onAllCores calls do with 0 to n-1 and returns when all calls have.
func onAllCores(n int, do func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0)) // as many calls at once as there are cores
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			do(i)
			<-slots
		})
	}
	wg.Wait()
}
