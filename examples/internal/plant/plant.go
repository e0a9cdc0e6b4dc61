// Package plant lists the simulated machines of the examples, by the name of the model that controls them.
package plant

import (
	"fmt"
	"strings"

	"github.com/weftserve/weft/examples/cartpole"
	"github.com/weftserve/weft/examples/hopper"
)

// Plant is one simulated machine. It is not safe for concurrent use.
type Plant interface {
	// Reset starts the episode of that seed and returns the first observation, valid until the next call.
	Reset(seed uint64) []float32
	// Step holds an action, each value in [-1, 1], for one control period. It returns the next observation, valid
	// until the next call, the reward and whether the episode is over.
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

// Kinds returns all machines.
func Kinds() []Kind {
	return []Kind{
		{
			Name:            "cartpole",
			ObservationSize: cartpole.ObservationSize,
			ActionSize:      cartpole.ActionSize,
			Typical:         []float64{1, 1, 0.1, 1},
			MaxSteps:        cartpole.MaxSteps,
			New:             func() Plant { return new(cartpole.Env) },
		},
		{
			Name:            "hopper",
			ObservationSize: hopper.ObservationSize,
			ActionSize:      hopper.ActionSize,
			Typical:         []float64{0.5, 1, 1, 0.3, 0.05, 0.05, 1},
			MaxSteps:        hopper.MaxSteps,
			New:             func() Plant { return new(hopper.Env) },
		},
	}
}

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
