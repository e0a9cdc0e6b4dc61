package rollout

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMomentsAgainstTwoPasses compares the recurrence, with numbers taken out again, with sums over the remaining ones.
func TestMomentsAgainstTwoPasses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var m Moments
	var left []float64
	for range 5000 {
		if len(left) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(left))
			m.remove(left[i])
			left[i] = left[len(left)-1]
			left = left[:len(left)-1]
			continue
		}
		x := 1000 + random.NormFloat64()
		m.Add(x)
		left = append(left, x)
	}
	mean, squares := 0.0, 0.0
	for _, x := range left {
		mean += x / float64(len(left))
	}
	for _, x := range left {
		squares += (x - mean) * (x - mean)
	}
	if m.Count != int64(len(left)) || math.Abs(m.Mean-mean) > 1e-8 || math.Abs(m.Squares/squares-1) > 1e-8 {
		t.Errorf("count %d, mean %v, squares %v; expected %d, %v, %v", m.Count, m.Mean, m.Squares, len(left), mean,
			squares)
	}
}

func TestMomentsEmptyAgain(t *testing.T) {
	var m Moments
	m.Add(7)
	m.remove(7)
	m.Add(3)
	m.Add(3)
	if m.Count != 2 || m.Mean != 3 || m.Squares != 0 || m.Min != 3 && m.Min != 7 || m.Max != 7 {
		t.Errorf("after 7 came and went: %+v", m)
	}
}
