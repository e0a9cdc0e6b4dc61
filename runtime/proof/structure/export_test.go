package structure

import (
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

// NeverProven reports whether an operator's rule only says why rows are not proven to be independent.
func NeverProven(name string) bool {
	for key := range mixingOperators {
		if strings.TrimPrefix(key.domain+"."+key.name, ".") == name {
			return true
		}
	}
	return false
}
