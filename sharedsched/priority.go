package sharedsched

import "github.com/weftserve/weft/sharedsched/ring"

// Priority orders tasks inside a queue and decides which gives way. The zero value is Critical. The names follow
// Google's criticality classes (Site Reliability Engineering, chapter 21).
type Priority uint8

// The priorities. In a queue CriticalPlus goes before Critical before SheddablePlus before Sheddable.
const (
	// Critical: foreground work, as most is.
	Critical Priority = iota
	// CriticalPlus: foreground work that goes before all other.
	CriticalPlus
	// Sheddable: background work. It fills rows that would be padding, and time that no foreground task wants.
	Sheddable
	// SheddablePlus: foreground work that makes room where a queue is full.
	SheddablePlus
)

// ranks maps a priority to its place in a queue, the most urgent first.
var ranks = [...]uint8{Critical: 1, CriticalPlus: 0, Sheddable: backgroundRank, SheddablePlus: 2}

const backgroundRank = 3

// class separates work that a caller waits for from work that uses the time left over.
type class uint8

const (
	foreground class = iota
	background
)

// class returns the class of work of that priority.
func (p Priority) class() class { return classOf(ring.Order{Rank: ranks[p]}) }

// classOf returns the class of a task by where it stands in its queue.
func classOf(o ring.Order) class {
	if o.Rank == backgroundRank {
		return background
	}
	return foreground
}
