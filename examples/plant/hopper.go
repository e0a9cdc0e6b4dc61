package plant

import (
	"math"
	"math/rand/v2"
)

// hopper is a planar one-legged robot that must hop at a commanded speed.
//
// The body is a point mass on a massless springy leg, the spring-loaded inverted pendulum of R. Blickhan, "The
// spring-mass model for running and hopping", Journal of Biomechanics 22(11-12), 1989, pp. 1217-1227. As in M. H.
// Raibert, "Legged Robots That Balance", MIT Press, 1986, the controller has two handles: where the leg points
// when it lands, which steers the speed, and how far the leg extends while it stands, which feeds the hop. The
// leg loses energy, so that a robot that does nothing soon falls.
//
// It shows its height [m], forward and upward speed [m/s], the leg's angle [rad], extension and compression [m], and
// the commanded speed [m/s]. It takes the leg's angle as a fraction of maxLegAngle, and an extension, where -1 is none
// and 1 is maxExtension.
type hopper struct {
	height, forward, upward float64 // m, m/s, m/s: the body
	legAngle, extension     float64 // rad from straight down, positive when the foot is in front of the body; m
	standing                bool
	foot                    float64 // m, how far the foot is in front of the body; kept while standing
	length                  float64 // m, the leg's present length
	command                 float64 // m/s
}

const (
	gravity      = 9.81   // m/s²
	mass         = 5.0    // kg
	legLength    = 0.5    // m, unloaded and not extended
	maxLegAngle  = 0.7    // rad
	maxExtension = 0.08   // m
	maxSpeed     = 1.5    // m/s, the fastest command
	minHeight    = 0.25   // m; a body below it has fallen
	stiffness    = 1500.0 // N/m
	damping      = 12.0   // N·s/m
	swingRate    = 10.0   // rad/s, how fast the leg can turn in flight
	extendRate   = 1.0    // m/s, how fast the leg can extend
	tick         = 1e-3   // s, integration step

	shoveChance   = 0.02 // per control step
	shoveSpeed    = 0.3  // m/s, standard deviation of the forward speed that a shove adds
	commandChance = 0.01 // per control step, that another speed is commanded
)

// start drops the robot from a little above the ground.
func (h *hopper) start(rng *rand.Rand) {
	*h = hopper{length: legLength}
	h.height = legLength + 0.1 + 0.1*rng.Float64()
	h.forward = 0.4 * (2*rng.Float64() - 1)
	h.command = maxSpeed * rng.Float64()
}

// move earns 1 at the commanded speed.
func (h *hopper) move(action []float32, rng *rand.Rand) (reward float64, failed bool) {
	if rng.Float64() < shoveChance {
		h.forward += shoveSpeed * rng.NormFloat64()
	}
	if rng.Float64() < commandChance {
		h.command = maxSpeed * rng.Float64()
	}
	angle := maxLegAngle * clamp(float64(action[0]), 1)
	extension := maxExtension * (1 + clamp(float64(action[1]), 1)) / 2
	for range int(math.Round(Period / tick)) {
		h.advance(angle, extension)
	}
	miss := (h.forward - h.command) / 0.5
	return math.Exp(-miss * miss), h.fallen()
}

// advance moves the robot by one tick.
func (h *hopper) advance(angle, extension float64) {
	if !h.standing {
		h.legAngle += clamp(angle-h.legAngle, swingRate*tick)
		h.extension += clamp(-h.extension, extendRate*tick)
		h.length = legLength + h.extension
		h.push(0, 0)
		if h.upward < 0 && h.height <= h.length*math.Cos(h.legAngle) {
			h.standing = true
			h.foot = h.length * math.Sin(h.legAngle)
		}
		return
	}
	h.extension += clamp(extension-h.extension, extendRate*tick)
	stretch := (-h.foot*h.forward + h.height*h.upward) / h.length // m/s, how fast the leg gets longer
	thrust := stiffness*(legLength+h.extension-h.length) - damping*stretch
	if thrust <= 0 && stretch > 0 {
		h.standing = false
		h.legAngle = math.Atan2(h.foot, h.height)
		h.push(0, 0)
		return
	}
	thrust = math.Max(thrust, 0) // a foot that only rests on the ground cannot pull
	h.push(-thrust*h.foot/h.length, thrust*h.height/h.length)
	h.length = math.Hypot(h.foot, h.height)
	h.legAngle = math.Atan2(h.foot, h.height)
}

// push applies a force [N] and gravity to the body for one tick; the velocity first, which keeps the energy of a
// spring bounded.
func (h *hopper) push(forwardForce, upwardForce float64) {
	h.forward += tick * forwardForce / mass
	h.upward += tick * (upwardForce/mass - gravity)
	h.height += tick * h.upward
	if h.standing {
		h.foot -= tick * h.forward
	}
}

func (h *hopper) fallen() bool { return h.height < minHeight }

func (h *hopper) sensors() (exact, noise []float64) {
	compression := 0.0
	if h.standing {
		compression = legLength + h.extension - h.length
	}
	return []float64{h.height, h.forward, h.upward, h.legAngle, h.extension, compression, h.command},
		[]float64{0.005, 0.03, 0.03, 0.01, 0.001, 0.001, 0} // the command is known exactly
}
