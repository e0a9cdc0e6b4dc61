package sharedsched

// Priority decides which of the tasks of a queue give way where not all can be served in time. It does not order: a
// lax task that matters more must not hide an urgent one. The zero value is Critical. The names follow
// Google's criticality classes (Site Reliability Engineering, chapter 21).
type Priority uint8

// The priorities. CriticalPlus matters more than Critical, and that more than SheddablePlus.
const (
	// Critical: foreground work, as most is.
	Critical Priority = iota
	// CriticalPlus: foreground work for which all other is given up.
	CriticalPlus
	// Sheddable: background work. It fills rows that would be padding, and time that no foreground task wants.
	Sheddable
	// SheddablePlus: foreground work that is given up first.
	SheddablePlus
)

// ranks orders priorities; the one that matters most has the least rank.
var ranks = [...]uint8{Critical: 1, CriticalPlus: 0, Sheddable: backgroundRank, SheddablePlus: 2}

const backgroundRank = 3

// class separates work that a caller waits for from work that uses the time left over.
type class uint8

const (
	foreground class = iota
	background
)

// class returns the class of work of that priority.
func (p Priority) class() class {
	if p == Sheddable {
		return background
	}
	return foreground
}

// classOf returns the class of a task by where it stands in its queue: behind foreground work.
func classOf(o order) class { return class(o.Rank) }
