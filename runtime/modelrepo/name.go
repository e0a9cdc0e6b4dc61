package modelrepo

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

const nameRule = `is named with letters, digits, ".", "_" and "-", and begins with a letter or digit`

// ValidName reports whether name may name a model or a label.
func ValidName(name string) bool { return validName.MatchString(name) }

// parseVersion reads a version directory's name: a positive integer that is written in one way only.
func parseVersion(name string) (int64, bool) {
	n, err := strconv.ParseInt(name, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatInt(n, 10) == name
}

const versionRule = `a version is a positive integer without leading zeros`

func byNumber(a, b Version) int { return cmp.Compare(a.Number, b.Number) }

func usable(v Version) bool { return v.Err == nil }

// find returns the numbered version of an ascending list.
func find(versions []Version, number int64) (Version, bool) {
	i, ok := slices.BinarySearchFunc(versions, Version{Number: number}, byNumber)
	if !ok {
		return Version{}, false
	}
	return versions[i], true
}

// numbers lists the versions for a message.
func numbers(versions []Version) string {
	all := make([]int64, len(versions))
	for i, v := range versions {
		all[i] = v.Number
	}
	return listNumbers(all)
}

func listNumbers(all []int64) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return list(texts)
}

// list joins the items for a message that stays readable however many there are.
func list(items []string) string {
	const most = 20
	switch n := len(items); {
	case n == 0:
		return "none"
	case n > most:
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(items, ", ")
}
