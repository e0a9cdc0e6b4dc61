// Package hopper simulates a planar one-legged robot that must hop at a commanded speed.
//
// The body is a point mass on a massless springy leg, the spring-loaded inverted pendulum of R. Blickhan, "The
// spring-mass model for running and hopping", Journal of Biomechanics 22(11-12), 1989, pp. 1217-1227. As in M. H.
// Raibert, "Legged Robots That Balance", MIT Press, 1986, the controller has two handles: where the leg points
// when it lands, which steers the speed, and how far the leg extends while it stands, which feeds the hop. The
// leg loses energy, so that a robot that does nothing soon falls.
package hopper

import (
	"math"
	"math/rand/v2"
)

// The parameters of the task that a policy must know.
const (
	// height [m], forward and upward speed [m/s], leg angle [rad], extension and compression of the leg [m], commanded
	// speed [m/s]
	ObservationSize = 7
	// leg angle as a fraction of MaxLegAngle in [-1, 1]; extension, where -1 is none and 1 is MaxExtension
	ActionSize   = 2
	Period       = 20e-3 // seconds between two actions
	MaxSteps     = 500   // steps of an episode that does not fail
	MaxLegAngle  = 0.7   // radians from straight down, positive when the foot is in front of the body
	MaxExtension = 0.08  // metres
	MaxSpeed     = 1.5   // metres per second, the fastest command
	MinHeight    = 0.25  // metres; a body below it has fallen
)

const (
	gravity    = 9.81   // m/s²
	mass       = 5.0    // kg
	legLength  = 0.5    // m, unloaded and not extended
	stiffness  = 1500.0 // N/m
	damping    = 12.0   // N·s/m
	swingRate  = 10.0   // rad/s, how fast the leg can turn in flight
	extendRate = 1.0    // m/s, how fast the leg can extend
	tick       = 1e-3   // s, integration step

	shoveChance   = 0.02 // per control step
	shoveSpeed    = 0.3  // m/s, standard deviation of the forward speed that a shove adds
	commandChance = 0.01 // per control step, that another speed is commanded
)

// sensorNoise is the standard deviation of each observation, in its unit. The command is known exactly.
var sensorNoise = [ObservationSize]float64{0.005, 0.03, 0.03, 0.01, 0.001, 0.001, 0}

// Env is one hopper. It is not safe for concurrent use; the zero value must be [Env.Reset].
type Env struct {
	height, forward, upward float64 // m, m/s, m/s: the body
	legAngle, extension     float64 // rad, m
	standing                bool
	foot                    float64 // m, how far the foot is in front of the body; kept while standing
	length                  float64 // m, the leg's present length
	command                 float64 // m/s
	step                    int
	source                  rand.PCG
	observation             [ObservationSize]float32
}

// Reset drops the robot from a little above the ground. The seed decides the start, the commands, every shove
// and all sensor noise. The observation is valid until the next call.
func (e *Env) Reset(seed uint64) []float32 {
	e.source.Seed(seed, 0)
	rng := rand.New(&e.source)
	*e = Env{source: e.source, length: legLength}
	e.height = legLength + 0.1 + 0.1*rng.Float64()
	e.forward = 0.4 * (2*rng.Float64() - 1)
	e.command = MaxSpeed * rng.Float64()
	return e.observe(rng)
}

// Step holds one action for one [Period] and returns what the sensors then show, valid until the next call; the
// reward, in [0, 1], which is 1 at the commanded speed; and whether the episode is over, by a fall or after
// [MaxSteps].
func (e *Env) Step(action []float32) (observation []float32, reward float64, done bool) {
	rng := rand.New(&e.source)
	if rng.Float64() < shoveChance {
		e.forward += shoveSpeed * rng.NormFloat64()
	}
	if rng.Float64() < commandChance {
		e.command = MaxSpeed * rng.Float64()
	}
	angle := MaxLegAngle * clamp(float64(action[0]), 1)
	extension := MaxExtension * (1 + clamp(float64(action[1]), 1)) / 2
	for range int(math.Round(Period / tick)) {
		e.advance(angle, extension)
	}
	e.step++
	if e.fallen() {
		return e.observe(rng), 0, true
	}
	miss := (e.forward - e.command) / 0.5
	return e.observe(rng), math.Exp(-miss * miss), e.step >= MaxSteps
}

// advance moves the robot by one tick.
func (e *Env) advance(angle, extension float64) {
	if !e.standing {
		e.legAngle += clamp(angle-e.legAngle, swingRate*tick)
		e.extension += clamp(-e.extension, extendRate*tick)
		e.length = legLength + e.extension
		e.move(0, 0)
		if e.upward < 0 && e.height <= e.length*math.Cos(e.legAngle) {
			e.standing = true
			e.foot = e.length * math.Sin(e.legAngle)
		}
		return
	}
	e.extension += clamp(extension-e.extension, extendRate*tick)
	stretch := (-e.foot*e.forward + e.height*e.upward) / e.length // m/s, how fast the leg gets longer
	push := stiffness*(legLength+e.extension-e.length) - damping*stretch
	if push <= 0 && stretch > 0 {
		e.standing = false
		e.legAngle = math.Atan2(e.foot, e.height)
		e.move(0, 0)
		return
	}
	push = math.Max(push, 0) // a foot that only rests on the ground cannot pull
	e.move(-push*e.foot/e.length, push*e.height/e.length)
	e.length = math.Hypot(e.foot, e.height)
	e.legAngle = math.Atan2(e.foot, e.height)
}

// move applies a force [N] and gravity to the body for one tick; the velocity first, which keeps the energy of a
// spring bounded.
func (e *Env) move(forwardForce, upwardForce float64) {
	e.forward += tick * forwardForce / mass
	e.upward += tick * (upwardForce/mass - gravity)
	e.height += tick * e.upward
	if e.standing {
		e.foot -= tick * e.forward
	}
}

func (e *Env) fallen() bool { return e.height < MinHeight }

func (e *Env) observe(rng *rand.Rand) []float32 {
	compression := 0.0
	if e.standing {
		compression = legLength + e.extension - e.length
	}
	for i, v := range [ObservationSize]float64{
		e.height, e.forward, e.upward, e.legAngle, e.extension, compression, e.command,
	} {
		e.observation[i] = float32(v + sensorNoise[i]*rng.NormFloat64())
	}
	return e.observation[:]
}

func clamp(v, limit float64) float64 { return math.Max(-limit, math.Min(limit, v)) }
