package access

import "strings"

// match reports whether a text is of a pattern, in which * stands for any characters but the separators. It
// takes time in proportion to the product of the lengths at most, and allocates nothing.
func match(pattern, text, separators string) bool {
	star, resume := -1, 0 // the latest * of the pattern, and the part of the text that follows what it stands for
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0 && strings.IndexByte(separators, text[resume]) < 0:
			resume++
			p, t = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
