package structure

import (
	"maps"
	"slices"
	"strings"
)

// ReadFrom is Read of a file that lies elsewhere.
var ReadFrom = read

// Operators returns the names of the operators that have rules, those of other domains behind the domain's.
func Operators() []string {
	var names []string
	for key := range operators {
		names = append(names, strings.TrimPrefix(key.domain+"."+key.name, "."))
	}
	slices.Sort(names)
	return names
}

// NeverProven tells whether an operator's rule only says how it lets rows meet.
func NeverProven(name string) bool {
	for key := range maps.Keys(mixingOperators) {
		if strings.TrimPrefix(key.domain+"."+key.name, ".") == name {
			return key.name != "Compress"
		}
	}
	return false
}
