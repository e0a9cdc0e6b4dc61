package cost

// stranger is the factor by which another curve's measurements are overestimated, to be on the safe side.
const stranger = 1.1

// Inherit makes a curve that is cold answer with a snapshot of another's estimates, such as those of the previous
// version, raised by a tenth, until it has measurements of its own. A curve that has them is left alone.
func (c *Curve) Inherit(from *Curve) { c.InheritScaled(from, 1) }

// InheritScaled is Inherit from a curve whose executions take another multiple of time, for instance of another shape:
// factor is the ratio expected of ours to its.
func (c *Curve) InheritScaled(from *Curve, factor float64) {
	if len(c.own.points) > 0 || from.IsCold() || !(factor > 0) {
		return
	}
	points, scale := from.own.points, stranger*factor*exp(from.link.residual)
	if len(points) == 0 {
		points, scale = from.given.points, factor // raised already
	}
	c.given.reset(0)
	for _, p := range points {
		p.cost, p.high = duration(float64(p.cost)*scale), duration(1.25*scale*float64(p.high))
		p.used = 0 // all count alike
		c.given.points = append(c.given.points, p)
	}
	c.link.clock, c.link.coTenant = from.link.clock, from.link.coTenant
	if c.link.device != nil {
		c.link.show()
	}
	c.revision++
}
