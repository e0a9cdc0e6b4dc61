package sharedsched

// Priority orders tasks inside a queue and decides who gives way. The zero value is Critical. The names follow Google's
// criticality classes (Site Reliability Engineering, chapter 21).
type Priority uint8

// The priorities. CriticalPlus goes before Critical before SheddablePlus; all three are foreground work. Sheddable is
// background: it fills what would be padding, and time that no foreground task wants.
const (
	Critical Priority = iota
	CriticalPlus
	Sheddable
	SheddablePlus
)

// ranks maps a priority to its place in a queue, the most urgent first.
var ranks = [...]uint8{Critical: 1, CriticalPlus: 0, Sheddable: backgroundRank, SheddablePlus: 2}

const backgroundRank = 3

// class separates work that someone waits for from work that uses what is left.
type class uint8

const (
	foreground class = iota
	background
)

func (p Priority) class() class { return classOf(order{rank: ranks[p]}) }

func classOf(o order) class {
	if o.rank == backgroundRank {
		return background
	}
	return foreground
}
