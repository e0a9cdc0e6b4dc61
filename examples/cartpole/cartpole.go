// Package cartpole simulates a pole balanced on a cart, pushed about by a gusty world.
//
// The dynamics are those of A. G. Barto, R. S. Sutton and C. W. Anderson, "Neuronlike adaptive elements that can
// solve difficult learning control problems", IEEE Transactions on Systems, Man, and Cybernetics SMC-13(5),
// 1983, pp. 834-846, without friction. Three things differ, so that a good policy can be told from a fair one:
// the force is continuous, gusts hit the pole and sensors are noisy, and the reward asks for the pole to be
// upright in the middle of the track rather than merely not fallen.
package cartpole

import (
	"math"
	"math/rand/v2"
)

// The parameters of the task that a policy must know.
const (
	ObservationSize = 4                  // x [m], dx/dt [m/s], theta [rad], dtheta/dt [rad/s]
	ActionSize      = 1                  // force as a fraction of MaxForce, clamped to [-1, 1]
	Period          = 20e-3              // seconds between two actions
	MaxSteps        = 500                // steps of an episode that does not fail
	MaxPosition     = 2.4                // metres from the middle of the track; beyond it the episode fails
	MaxAngle        = 12 * math.Pi / 180 // radians from upright; beyond it the episode fails
	MaxForce        = 10.0               // newtons
)

const (
	gravity    = 9.8 // m/s²
	cartMass   = 1.0 // kg
	poleMass   = 0.1 // kg
	halfLength = 0.5 // m, half the pole

	gustChance = 0.04 // per step
	gustSpeed  = 0.4  // rad/s, standard deviation of the speed that a gust adds to the pole
)

// sensorNoise is the standard deviation of each observation, in its unit.
var sensorNoise = [ObservationSize]float64{0.01, 0.02, 0.004, 0.02}

// Env is one cart with its pole. It is not safe for concurrent use; the zero value must be [Env.Reset].
type Env struct {
	x, speed, angle, spin float64 // m, m/s, rad, rad/s; upright is angle 0
	step                  int
	source                rand.PCG
	observation           [ObservationSize]float32
}

// Reset starts a new episode near the middle. The seed decides the start, every gust and all sensor noise. The
// observation is valid until the next call.
func (e *Env) Reset(seed uint64) []float32 {
	e.source.Seed(seed, 0)
	rng := rand.New(&e.source)
	around := func(limit float64) float64 { return limit * (2*rng.Float64() - 1) }
	e.x, e.speed, e.angle, e.spin = around(0.5), around(0.1), around(0.1), around(0.1)
	e.step = 0
	return e.observe(rng)
}

// Step pushes the cart for one [Period] and returns what the sensors then show, valid until the next call; the
// reward, in [0, 1]; and whether the episode is over, by failure or after [MaxSteps].
func (e *Env) Step(action []float32) (observation []float32, reward float64, done bool) {
	rng := rand.New(&e.source)
	if rng.Float64() < gustChance {
		e.spin += gustSpeed * rng.NormFloat64()
	}
	e.advance(MaxForce * math.Max(-1, math.Min(1, float64(action[0]))))
	e.step++
	if e.failed() {
		return e.observe(rng), 0, true
	}
	offCentre, tilt := e.x/MaxPosition, e.angle/MaxAngle
	reward = 1 - 0.5*offCentre*offCentre - 0.5*tilt*tilt
	return e.observe(rng), reward, e.step >= MaxSteps
}

// advance integrates the equations of motion over one period with Euler's method, as the paper does.
func (e *Env) advance(force float64) {
	const total = cartMass + poleMass
	sin, cos := math.Sincos(e.angle)
	push := (force + poleMass*halfLength*e.spin*e.spin*sin) / total
	spinRate := (gravity*sin - cos*push) / (halfLength * (4.0/3.0 - poleMass*cos*cos/total))
	acceleration := push - poleMass*halfLength*spinRate*cos/total
	e.x += Period * e.speed
	e.speed += Period * acceleration
	e.angle += Period * e.spin
	e.spin += Period * spinRate
}

func (e *Env) failed() bool {
	return math.Abs(e.x) > MaxPosition || math.Abs(e.angle) > MaxAngle
}

func (e *Env) observe(rng *rand.Rand) []float32 {
	for i, v := range [ObservationSize]float64{e.x, e.speed, e.angle, e.spin} {
		e.observation[i] = float32(v + sensorNoise[i]*rng.NormFloat64())
	}
	return e.observation[:]
}
