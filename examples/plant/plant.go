// Package plant simulates the machines that the examples control: a pole on a cart, with and without sensors of its
// speeds, and a leg that hops.
package plant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// All machines take an action every Period, in seconds, and end an episode that does not fail after MaxSteps.
const (
	Period   = 20e-3
	MaxSteps = 500
)

// Plant is one simulated machine. It is not safe for concurrent use.
type Plant interface {
	// Reset starts the episode of that seed and returns the first observation, valid until the next call.
	Reset(seed uint64) []float32
	// Step holds an action, each value in [-1, 1], for one control period. It returns the next observation, valid
	// until the next call, the reward, in [0, 1], and whether the episode is over, by failure or after MaxSteps.
	Step(action []float32) (observation []float32, reward float64, done bool)
}

// Kind describes one sort of machine.
type Kind struct {
	Name            string
	ObservationSize int
	ActionSize      int
	Typical         []float64 // a usual magnitude of each observation
	MaxSteps        int       // steps of an episode that does not fail
	New             func() Plant
}

// The machines.
var (
	CartPole = Kind{
		Name: "cartpole", ObservationSize: 4, ActionSize: 1, Typical: []float64{1, 1, 0.1, 1}, MaxSteps: MaxSteps,
		New: func() Plant { return &plant{body: &cartPole{}} },
	}
	// Positions is CartPole without its speeds: a controller must remember what it saw to know them.
	Positions = Kind{
		Name: "positions", ObservationSize: 2, ActionSize: 1, Typical: []float64{1, 0.1}, MaxSteps: MaxSteps,
		New: func() Plant { return &plant{body: &positions{}} },
	}
	Hopper = Kind{
		Name: "hopper", ObservationSize: 7, ActionSize: 2, Typical: []float64{0.5, 1, 1, 0.3, 0.05, 0.05, 1},
		MaxSteps: MaxSteps, New: func() Plant { return &plant{body: &hopper{}} },
	}
)

// Kinds returns all machines.
func Kinds() []Kind { return []Kind{CartPole, Positions, Hopper} }

// Lookup returns the machine of that name; the error lists the machines that exist.
func Lookup(name string) (Kind, error) {
	var names []string
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("no simulated machine %q; there are: %s", name, strings.Join(names, ", "))
}

// Return plays one episode and returns the sum of its rewards.
func Return(p Plant, seed uint64, act func(observation []float32) (action []float32)) float64 {
	observation, sum := p.Reset(seed), 0.0
	for {
		next, reward, done := p.Step(act(observation))
		sum += reward
		if done {
			return sum
		}
		observation = next
	}
}

// body is the physics of a machine. Whatever is random in an episode is drawn from rng, in the same order each time.
type body interface {
	// start puts the machine where an episode begins.
	start(rng *rand.Rand)
	// move holds an action for one period and returns the reward, if the machine did not fail.
	move(action []float32, rng *rand.Rand) (reward float64, failed bool)
	// sensors returns what an exact observation shows, and the standard deviation of the noise of each value.
	sensors() (exact, noise []float64)
}

// plant is a Plant with some body.
type plant struct {
	body
	step        int
	source      rand.PCG
	observation []float32
}

// Reset implements Plant. The seed decides the start, every push from outside and all noise of sensors.
func (p *plant) Reset(seed uint64) []float32 {
	p.source.Seed(seed, 0)
	p.step = 0
	rng := rand.New(&p.source)
	p.start(rng)
	return p.observe(rng)
}

// Step implements Plant.
func (p *plant) Step(action []float32) (observation []float32, reward float64, done bool) {
	rng := rand.New(&p.source)
	reward, failed := p.move(action, rng)
	p.step++
	if failed {
		return p.observe(rng), 0, true
	}
	return p.observe(rng), reward, p.step >= MaxSteps
}

func (p *plant) observe(rng *rand.Rand) []float32 {
	exact, noise := p.sensors()
	p.observation = p.observation[:0]
	for i, v := range exact {
		p.observation = append(p.observation, float32(v+noise[i]*rng.NormFloat64()))
	}
	return p.observation
}

func clamp(v, limit float64) float64 { return math.Max(-limit, math.Min(limit, v)) }
