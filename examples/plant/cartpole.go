package plant

import (
	"math"
	"math/rand/v2"
)

// cartPole is a pole balanced on a cart, pushed about by a gusty world.
//
// The dynamics are those of A. G. Barto, R. S. Sutton and C. W. Anderson, "Neuronlike adaptive elements that can
// solve difficult learning control problems", IEEE Transactions on Systems, Man, and Cybernetics SMC-13(5),
// 1983, pp. 834-846, without friction. Three things differ, so that a good policy can be told from a fair one:
// the force is continuous, gusts hit the pole and sensors are noisy, and the reward asks for the pole to be
// upright in the middle of the track rather than merely not fallen.
//
// It shows its position [m], speed [m/s], angle [rad] and spin [rad/s], and takes a force as a fraction of maxForce.
type cartPole struct {
	x, speed, angle, spin float64 // m, m/s, rad, rad/s; upright is angle 0
}

const (
	cartGravity = 9.8                // m/s²
	cartMass    = 1.0                // kg
	poleMass    = 0.1                // kg
	halfLength  = 0.5                // m, half the pole
	maxPosition = 2.4                // m from the middle of the track; beyond it the episode fails
	maxTilt     = 12 * math.Pi / 180 // rad from upright; beyond it the episode fails
	maxForce    = 10.0               // N

	gustChance = 0.04 // per step
	gustSpeed  = 0.4  // rad/s, standard deviation of the speed that a gust adds to the pole
)

// start begins near the middle.
func (c *cartPole) start(rng *rand.Rand) {
	around := func(limit float64) float64 { return limit * (2*rng.Float64() - 1) }
	c.x, c.speed, c.angle, c.spin = around(0.5), around(0.1), around(0.1), around(0.1)
}

func (c *cartPole) move(action []float32, rng *rand.Rand) (reward float64, failed bool) {
	if rng.Float64() < gustChance {
		c.spin += gustSpeed * rng.NormFloat64()
	}
	c.advance(maxForce * clamp(float64(action[0]), 1))
	offCentre, tilt := c.x/maxPosition, c.angle/maxTilt
	return 1 - 0.5*offCentre*offCentre - 0.5*tilt*tilt, math.Abs(offCentre) > 1 || math.Abs(tilt) > 1
}

// advance integrates the equations of motion over one period with Euler's method, as the paper does.
func (c *cartPole) advance(force float64) {
	const total = cartMass + poleMass
	sin, cos := math.Sincos(c.angle)
	push := (force + poleMass*halfLength*c.spin*c.spin*sin) / total
	spinRate := (cartGravity*sin - cos*push) / (halfLength * (4.0/3.0 - poleMass*cos*cos/total))
	acceleration := push - poleMass*halfLength*spinRate*cos/total
	c.x += Period * c.speed
	c.speed += Period * acceleration
	c.angle += Period * c.spin
	c.spin += Period * spinRate
}

func (c *cartPole) sensors() (exact, noise []float64) {
	return []float64{c.x, c.speed, c.angle, c.spin}, []float64{0.01, 0.02, 0.004, 0.02}
}

// positions is a cartPole that shows where it is, and not how fast it moves.
type positions struct{ cartPole }

func (p *positions) sensors() (exact, noise []float64) {
	exact, noise = p.cartPole.sensors()
	return []float64{exact[0], exact[2]}, []float64{noise[0], noise[2]}
}
