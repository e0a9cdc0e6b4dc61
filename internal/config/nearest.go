package config

import "strings"

// Nearest returns the candidate that name most likely stands for; "" if none is near. If several are equally near it is
// the first.
func Nearest(name string, candidates []string) string {
	best, bestDistance := "", -1
	var around []string // the candidates that hold the name as a part: "timeout" is batch_timeout
	for _, candidate := range candidates {
		a, b := plain(name), plain(candidate)
		if len(a) >= 4 && strings.Contains(b, a) {
			around = append(around, candidate)
		}
		// One slip in four letters, two in seven: "wieght" is weight, but "gpu" is not cpu.
		distance := editDistance(a, b)
		if distance <= (max(len(a), len(b))-1)/3 && (bestDistance < 0 || distance < bestDistance) {
			best, bestDistance = candidate, distance
		}
	}
	if best == "" && len(around) == 1 {
		return around[0]
	}
	return best
}

// maxPlain is how many bytes of a name are compared, because editDistance takes quadratic time. No valid key is that
// long.
const maxPlain = 64

// plain removes the differences in names that carry no meaning: case and separators.
func plain(name string) string {
	name = strings.ToLower(name[:min(len(name), maxPlain)])
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(name)
}

// editDistance returns how many letters (bytes) must be inserted, removed, changed or swapped with a neighbour to turn
// a into b: the optimal string alignment distance.
func editDistance(a, b string) int {
	// before, above and row are consecutive rows of the usual table: row[j] is the distance of a[:i] and b[:j].
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := above[j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			row[j] = min(changed, row[j-1]+1, above[j]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
