package routing

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// shadowDomain keeps the draws of shadows apart from those of slots: the first 64 bits of the fractional part of the
// square root of 2.
const shadowDomain = 0x6a09e667f3bcc908

func hash(name string) uint64 { return xxhash.Sum64String(name) }

// mix is a bijection. Each bit of the result depends on all of z: it is the finalizer of SplitMix64 (Steele, Lea and
// Flood 2014, constants of Stafford's variant 13).
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// join makes one hash of two. The order matters.
func join(a, b uint64) uint64 { return mix(mix(a) ^ b) }

// uniform makes a number of a hash, above 0 and below 1: without rounding, since 52 bits and the half fit a float64.
func uniform(h uint64) float64 { return (float64(h>>12) + 0.5) / (1 << 52) }

// lnSeries are the coefficients of ln x = 2s·(1 + s²/3 + s⁴/5 + ...) with s = (x-1)/(x+1), the last first. Between √½
// and √2 s² is below 0.0295, so the terms left out are below 10^-16 of the whole.
var lnSeries = [...]float64{1. / 19, 1. / 17, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3, 1}

// ln is the natural logarithm of u, above 0, to the same bits on every platform. math.Log has its own code on some, and
// a compiler may fuse a product and a sum into one rounding unless the product is converted.
func ln(u float64) float64 {
	x, exp := math.Frexp(u)
	if x < math.Sqrt2/2 {
		x, exp = 2*x, exp-1
	}
	s := (x - 1) / (x + 1)
	square := float64(s * s)
	sum := 0.0
	for _, c := range lnSeries {
		sum = float64(sum*square) + c
	}
	return float64(float64(exp)*math.Ln2) + float64(2*s*sum)
}
