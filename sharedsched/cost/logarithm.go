package cost

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
