package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weftserve/weft/runtime/modelrepo"
)

// superfluous returns the versions that nobody wants, ascending, and why others stay that nobody wants either: because something
// names them, or because what is wanted in their stead could not be loaded.
func (m *model) superfluous(wanted []candidate) (surplus []int64, kept map[int64]string) {
	keep, kept := map[int64]bool{}, map[int64]string{}
	for _, c := range wanted {
		keep[c.version.Number] = true
	}
	g := m.gaps(wanted)
	for _, n := range slices.Sorted(maps.Keys(m.versions)) {
		if keep[n] || m.mayComeBack(n) {
			continue
		}
		by := m.namedBy(n)
		gone := m.listed == nil || numbered(m.listed, n) == nil
		var why string
		switch {
		case m.listed != nil && len(by) > 0:
			why = "named by " + strings.Join(by, " and ")
		case !g.canSpare(n, gone):
			why = fmt.Sprintf("version %s, wanted in its stead, cannot be loaded", list(g.failed))
		default:
			surplus = append(surplus, n)
			continue
		}
		if len(g.pending) == 0 { // else it may go in a moment
			kept[n] = why
		}
	}
	return surplus, kept
}

// mayComeBack reports whether a version that cannot be loaded as it lies there now is none to give up: because that is half a copy,
// because it is to be served once that is mended, or because there is nothing but its failure, which is shown.
func (m *model) mayComeBack(number int64) bool {
	if m.listed == nil {
		return false
	}
	v := numbered(m.listed, number)
	if v == nil || v.Err == nil {
		return false
	}
	return m.versions[number].resident == nil || errors.Is(v.Err, modelrepo.ErrCopying) || m.byHand[number].Loaded || m.wouldSelect(number)
}

// wouldSelect reports whether the policy would select a version if it could be loaded.
func (m *model) wouldSelect(number int64) bool {
	switch p := m.listed.Manifest.Versions.Policy; {
	case p.All:
		return true
	case p.Specific != nil:
		return slices.Contains(p.Specific, number)
	default:
		above := 0
		for _, v := range m.listed.Versions {
			if v.Number > number && v.Err == nil {
				above++
			}
		}
		return above < p.Latest
	}
}

// gaps are what is wanted and not ready.
type gaps struct {
	pending, failed []int64
	// highest is the highest number that is wanted and ready, 0 where none is.
	highest int64
}

func (m *model) gaps(wanted []candidate) (g gaps) {
	if m.listed == nil || m.listed.Manifest.Versions.Transition == modelrepo.ResourceFirst {
		return g // nothing is waited for
	}
	for _, c := range wanted {
		n := c.version.Number
		switch e := m.versions[n]; {
		case m.ready(n):
			g.highest = n // they ascend
		case e != nil && e.failure != nil && e.failure.of.alike(c):
			g.failed = append(g.failed, n)
		default:
			g.pending = append(g.pending, n)
		}
	}
	return g
}

// canSpare reports whether a version that is not wanted may go although some that are wanted are not ready. One whose directory is
// gone may as soon as another one answers. Any other waits for those that are still being loaded, and makes no room for those
// that failed unless a newer one answers: else a bad new version would take a good one down.
func (g *gaps) canSpare(number int64, gone bool) bool {
	newer := g.highest > number
	switch {
	case len(g.pending)+len(g.failed) == 0:
		return true
	case len(g.pending) > 0:
		return gone && newer
	}
	return newer || gone && g.highest > 0
}

// list words version numbers.
func list(numbers []int64) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.FormatInt(n, 10))
	}
	return strings.Join(words, ", ")
}
