package structure

import (
	"os"
	"slices"
	"strings"
)

// ReadFile reads the graph of a file.
func ReadFile(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return Read(f, info.Size())
}

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
