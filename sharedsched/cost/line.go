package cost

// line is alpha + beta × rows, in nanoseconds.
type line struct{ alpha, beta float64 }

func (l *line) at(rows int) float64 { return l.alpha + float64(l.beta*float64(rows)) }

// halfLife is how many settlements of the curve ago a size was measured last if it weighs half as much as the latest
// one.
const halfLife = 50

// regress fits a line to two or more points by least squares. Neither an execution as such nor a row of it takes less
// than no time. The weights fall hyperbolically with age: unlike powers they need no rounding of their own and leave,
// however old most points are, two that count.
func regress(points []point, now uint64) line {
	var sum, rows, cost float64 // of the weights, and weighted
	for i := range points {
		p := &points[i]
		w := p.weight(now)
		sum += w
		rows += float64(w * float64(p.rows))
		cost += float64(w * float64(p.cost))
	}
	rows /= sum
	cost /= sum
	var square, product float64 // about the means
	for i := range points {
		p := &points[i]
		w, r := p.weight(now), float64(p.rows)-rows
		square += float64(w * r * r)
		product += float64(w * r * (float64(p.cost) - cost))
	}
	l := line{beta: max(0, product/square)}
	l.alpha = cost - float64(l.beta*rows)
	if l.alpha < 0 {
		// The best line with alpha 0 goes through the origin.
		square += float64(sum * rows * rows)
		product += float64(sum * rows * cost)
		l = line{beta: product / square}
	}
	return l
}

func (p *point) weight(now uint64) float64 { return halfLife / (halfLife + float64(now-p.used)) }

const (
	maxLn    = 0.4
	maxRatio = 1.4918246976412703 // e^maxLn
)

// limited returns the part of a ratio that counts: by more than maxLn, either way, no single execution shall.
func limited(ratio float64) float64 { return min(max(ratio, 1/maxRatio), maxRatio) }

// ln returns the natural logarithm of a ratio, which it limits. It is the series of 2 artanh((x-1)/(x+1)), right to
// 1e-7 there.
func ln(ratio float64) float64 {
	x := limited(ratio)
	z := (x - 1) / (x + 1)
	q := z * z
	return float64(2 * z * (1 + float64(q*(1./3+float64(q*(1./5+float64(q*(1./7))))))))
}

// exp returns e^x, right to 1e-4 for x within ±3 and much better near 0: the eighth power of a Padé approximation of
// e^(x/8).
func exp(x float64) float64 {
	x /= 8
	even, odd := 1+float64(x*x)/12, float64(x/2)
	y := (even + odd) / (even - odd)
	y *= y
	y *= y
	return float64(y * y)
}
