package shadow

import (
	"slices"
	"sort"
	"time"

	"github.com/weftserve/weft/runtime/tensor/compare"
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
	Relative float64 // see compare.Difference
	Row      int     // of the request
	Element  int     // of that row, which differs most
	// Primary and Shadow are that row in both answers: all of it, or compare.MaxParts around the element, from First
	// on. They are never written again.
	First           int
	Primary, Shadow []float64
}

// worst is the requests with the largest relative differences, the largest first.
type worst []Request

// add keeps a request if it belongs here, at the cost of the one that differs least where there are maxWorst. It is
// only then that rows are read.
func (w *worst) add(s *compare.Profile, id string, at time.Time) {
	if s.Relative == 0 || len(*w) == maxWorst && s.Relative <= (*w)[maxWorst-1].Relative {
		return
	}
	r := Request{
		At: at, ID: shorten(id, maxName), Absolute: s.Absolute, Relative: s.Relative, Row: s.Row, Element: s.At,
	}
	r.First, r.Primary, r.Shadow = s.Around()
	place := sort.Search(len(*w), func(i int) bool { return (*w)[i].Relative < r.Relative })
	*w = slices.Insert((*w)[:min(len(*w), maxWorst-1)], place, r)
}
