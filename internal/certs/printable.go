package certs

import (
	"strconv"
	"strings"
)

// longest is how much of what a caller has written is told, in bytes.
const longest = 300

// printable makes text that a caller may have chosen, such as a name in its certificate, fit for a line of a log.
func printable(s string) string {
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	quoted := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
