package compare

import (
	"bytes"
	"math"

	"github.com/weftserve/weft/runtime/tensor"
)

// block is so many elements of two tensors of numbers of equal type and shape, so that a comparison needs no memory of
// its own for any size.
type block struct{ a, b [256]float64 }

// read returns both tensors' elements from at on, no further than end.
func (k *block) read(d tensor.DType, a, b []byte, at, end int) (xs, ys []float64) {
	n := min(len(k.a), end-at)
	xs, ys = k.a[:n], k.b[:n]
	tensor.Numbers(xs, d, a, at)
	tensor.Numbers(ys, d, b, at)
	return xs, ys
}

// walk goes through two tensors of numbers in parallel.
type walk struct {
	block

	profile         *Profile // nil: elements need not be told apart, or there are none
	absolute        float64  // largest difference
	relative        float64  // as of Difference
	farthest        int      // where the largest difference is in the tensor
	primary, shadow float64  // largest finite magnitudes
	count, same     int64    // rows, and those of equal argmax
}

// rows goes from row to row and leaves differences, magnitudes and arguments of maxima; closely, a profile as well.
func (w *walk) rows(p *Output, s tensor.Tensor, closely bool) {
	l := layoutOf(p)
	length := l.outer * l.inner
	if length*l.rows == 0 {
		return
	}
	if closely {
		w.profile = &Profile{Primary: p, shadow: s, layout: l, Size: length, Parts: min(length, MaxParts)}
	}
	size := p.DType.Size()
	for r := range l.rows {
		a, b := peak{at: -1}, peak{at: -1}
		for o := range l.outer {
			first := l.place(r, o*l.inner)
			for at := first; at < first+l.inner; at += len(w.a) {
				xs, ys := w.read(p.DType, p.Data, s.Data, at, first+l.inner)
				w.look(xs, ys, at, &a, &b)
				if n := len(xs); closely && !bytes.Equal(p.Data[at*size:][:n*size], s.Data[at*size:][:n*size]) {
					w.profile.take(xs, ys, o*l.inner+at-first)
				}
			}
		}
		w.count++
		if a.at == b.at {
			w.same++
		}
	}
	if w.absolute == 0 && !p.DType.IsFloat() && !bytes.Equal(p.Data, s.Data) {
		// Rounding has hidden the difference of two large integers.
		for w.absolute = 1; p.Data[w.farthest] == s.Data[w.farthest]; w.farthest++ {
		}
		w.farthest /= size
	}
	if w.absolute > 0 {
		w.relative = w.absolute / w.primary // +Inf where that is 0
	}
	if closely {
		w.profile.conclude(w)
	}
}

// peak is the largest element of a row so far and its place in the tensor, -1 if there is none but NaN.
type peak struct {
	at    int
	value float64
}

func (p *peak) see(at int, v float64) {
	if p.at < 0 && !math.IsNaN(v) || v > p.value {
		p.at, p.value = at, v
	}
}

// look takes in elements of a row, from a place on.
func (w *walk) look(xs, ys []float64, at int, a, b *peak) {
	absolute, primary, shadow, pa, pb := w.absolute, w.primary, w.shadow, *a, *b
	ys = ys[:len(xs)]
	for i, x := range xs {
		y := ys[i]
		if far := apart(absolute, x, y); far > absolute {
			absolute, w.farthest = far, at+i
		}
		if m := math.Abs(x); m > primary && m <= math.MaxFloat64 {
			primary = m
		}
		if m := math.Abs(y); m > shadow && m <= math.MaxFloat64 {
			shadow = m
		}
		pa.see(at+i, x)
		pb.see(at+i, y)
	}
	w.absolute, w.primary, w.shadow, *a, *b = absolute, primary, shadow, pa, pb
}

// cosine needs the magnitudes that rows left.
func (w *walk) cosine(p, s tensor.Tensor) (cosine float64, ok bool) {
	var dot, pp, ss float64
	scaleP, scaleS := scale(w.primary), scale(w.shadow)
	total := len(p.Data) / p.DType.Size()
	for at := 0; at < total; at += len(w.a) {
		xs, ys := w.read(p.DType, p.Data, s.Data, at, total)
		for i, x := range xs {
			y := ys[i]
			if x-x != 0 || y-y != 0 { // not finite
				continue
			}
			ok = true
			x, y = x*scaleP, y*scaleS
			dot += x * y
			pp += x * x
			ss += y * y
		}
	}
	switch {
	case !ok:
		return 0, false
	case pp == 0 && ss == 0:
		return 1, true
	case pp == 0 || ss == 0:
		return 0, true
	}
	return min(1, max(-1, dot/math.Sqrt(pp)/math.Sqrt(ss))), true
}

// scale returns a factor after which squares of numbers up to magnitude neither overflow nor vanish.
func scale(magnitude float64) float64 {
	if magnitude == 0 || 1e-100 < magnitude && magnitude < 1e100 {
		return 1
	}
	return min(1/magnitude, math.MaxFloat64)
}
