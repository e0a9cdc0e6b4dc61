package shadow

import (
	"slices"
	"sort"
	"time"
)

const (
	// maxWorst bounds the requests that are kept of an output, and maxName the bytes of names that are shown.
	maxWorst = 20
	maxName  = 128
)

// Request is one request whose answers differ much.
type Request struct {
	At       time.Time
	ID       string // as the caller gave it, shortened; "" if it gave none
	Absolute float64
	Relative float64 // see Difference
	Row      int     // of the request
	Element  int     // of that row, which differs most
	// Primary and Shadow are that row in both answers: all of it, or maxElements around the element, from First on. They
	// are never written again.
	First           int
	Primary, Shadow []float64
}

// worst is the requests with the largest relative differences, the largest first.
type worst []Request

// add keeps a request if it belongs here. It is only then that rows are read.
func (w *worst) add(s *sight, id string, at time.Time) {
	if s.relative == 0 || len(*w) == maxWorst && s.relative <= (*w)[maxWorst-1].Relative {
		return
	}
	n := min(s.size, maxElements)
	r := Request{
		At: at, ID: shorten(id, maxName), Absolute: s.absolute, Relative: s.relative, Row: s.row, Element: s.at,
		First:   max(0, min(s.at-maxElements/2, s.size-maxElements)),
		Primary: make([]float64, n), Shadow: make([]float64, n),
	}
	l := layoutOf(s.primary)
	for i := range n {
		place := l.place(s.row, r.First+i)
		numbers(r.Primary[i:i+1], s.primary.DType, s.primary.Data, place)
		numbers(r.Shadow[i:i+1], s.primary.DType, s.shadow, place)
	}
	place := sort.Search(len(*w), func(i int) bool { return (*w)[i].Relative < r.Relative })
	*w = slices.Insert((*w)[:min(len(*w), maxWorst-1)], place, r)
}
