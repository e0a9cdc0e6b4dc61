package shadow

import (
	"slices"
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
func (w *worst) add(d *Difference, c *compared, id string, at time.Time) {
	if d.MaxRelative == 0 || len(*w) == maxWorst && d.MaxRelative <= (*w)[maxWorst-1].Relative {
		return
	}
	s := c.sight
	r := Request{
		At: at, ID: cutTo(id, maxName), Absolute: d.MaxAbsolute, Relative: d.MaxRelative, Row: s.row, Element: s.at,
		First: max(0, min(s.at-maxElements/2, s.size-maxElements)),
	}
	n := min(s.size, maxElements)
	r.Primary, r.Shadow = make([]float64, n), make([]float64, n)
	l := layoutOf(c.primary)
	for i := range n {
		place := l.place(s.row, r.First+i)
		numbers(r.Primary[i:i+1], c.primary.DType, c.primary.Data, place)
		numbers(r.Shadow[i:i+1], c.primary.DType, c.shadow.Data, place)
	}
	if len(*w) == maxWorst {
		*w = (*w)[:maxWorst-1]
	}
	place, _ := slices.BinarySearchFunc(*w, r.Relative, func(other Request, relative float64) int {
		if other.Relative >= relative {
			return -1
		}
		return 1
	})
	*w = slices.Insert(*w, place, r)
}
