package rollout

// Moments sums up numbers in constant space: Welford's recurrence for the mean and for the sum of squares about it.
type Moments struct {
	Count int64
	Mean  float64
	// Squares is the sum of the squared distances from Mean.
	Squares float64
	// Min and Max are of everything ever added: a number that was taken out again still counts here.
	Min, Max float64
}

// Add counts a number.
func (m *Moments) Add(x float64) {
	if m.Count == 0 && m.Min == 0 && m.Max == 0 {
		m.Min, m.Max = x, x
	}
	m.Min, m.Max = min(m.Min, x), max(m.Max, x)
	m.Count++
	before := x - m.Mean
	m.Mean += before / float64(m.Count)
	m.Squares += before * (x - m.Mean)
}

// remove takes out a number that was added before.
func (m *Moments) remove(x float64) {
	m.Count--
	if m.Count == 0 {
		m.Mean, m.Squares = 0, 0
		return
	}
	after := x - m.Mean
	m.Mean -= after / float64(m.Count)
	m.Squares = max(0, m.Squares-after*(x-m.Mean))
}
