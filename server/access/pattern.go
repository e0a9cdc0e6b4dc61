package access

import (
	"fmt"
	"strconv"
	"strings"
)

// Claim is one thing that a caller has proven of itself, such as {"dns", "robot-7.example.org"}.
type Claim struct{ Kind, Value string }

// The kinds of claims.
const (
	SPIFFE    = "spiffe"    // of a certificate: a SPIFFE ID, without "spiffe://"
	DNS       = "dns"       // of a certificate: a DNS name
	Subject   = "subject"   // of a certificate: the distinguished name, as RFC 2253 writes it
	Token     = "token"     // a token of the tokens file: its name
	JWT       = "jwt"       // a JWT: its subject
	Group     = "group"     // a JWT: one of its groups
	UID       = "uid"       // a unix socket: the number of the caller's user
	GID       = "gid"       // a unix socket: the number of the caller's group
	Anonymous = "anonymous" // any caller
)

// kinds says of each kind what follows the colon, and what a * in it does not stand for: a * is for one label of a
// name, so that dns:*.example.org does not take in a.b.example.org.
var kinds = map[string]struct {
	separators string
	number     bool
}{
	// In a subject a comma within a value follows a backslash.
	SPIFFE: {separators: "/"}, DNS: {separators: "."}, Subject: {separators: `,+\`},
	Token: {}, JWT: {}, Group: {}, UID: {number: true}, GID: {number: true},
}

// Pattern is a pattern of claims, as an entry of `callers` in the access file. Its zero value matches nothing.
type Pattern struct {
	kind, pattern, separators string
}

// ParsePattern reads a pattern, such as "dns:robot-*.example.org". The error says what is expected.
func ParsePattern(text string) (Pattern, error) {
	if text == Anonymous {
		return Pattern{kind: Anonymous}, nil
	}
	kind, pattern, _ := strings.Cut(text, ":")
	of, known := kinds[kind]
	if kind == SPIFFE {
		var is bool
		if pattern, is = strings.CutPrefix(pattern, "//"); !is {
			known = false
		}
	}
	if !known || pattern == "" {
		return Pattern{}, fmt.Errorf("%q names no callers; expected spiffe://ID, dns:NAME, subject:NAME, token:NAME, "+
			"jwt:SUBJECT, group:NAME, uid:NUMBER, gid:NUMBER or anonymous", text)
	}
	if of.number {
		n, err := strconv.ParseUint(pattern, 10, 32)
		if err != nil {
			return Pattern{}, fmt.Errorf("%q has no number after the colon; expected one, such as %s:1000", text, kind)
		}
		pattern = strconv.FormatUint(n, 10) // as claims have it
	}
	// Names of hosts have no case; claims have them in lower case.
	if kind == DNS {
		pattern = strings.ToLower(pattern)
	}
	return Pattern{kind, pattern, of.separators}, nil
}

// is reports whether one of the claims is of the pattern. Anonymous takes every caller, also one who has proven
// something.
func (c *Pattern) is(claims []Claim) bool {
	if c.kind == Anonymous {
		return true
	}
	for _, claim := range claims {
		if claim.Kind == c.kind && match(c.pattern, claim.Value, c.separators) {
			return true
		}
	}
	return false
}

// match reports whether a text is of a pattern, in which * stands for any characters but the separators. It takes time
// in proportion to the product of the lengths at most, and allocates nothing. Only the latest * is tried again: the
// ones before it stand for as little as they can, which leaves the most to it.
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
