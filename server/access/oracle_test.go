package access_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/server/access"
)

// oracle decides as the documentation has it, and slowly.
type oracle struct {
	config *access.Config
	texts  [][]string // the callers of each identity, as they were written
}

// glob is a pattern as a regular expression.
func glob(pattern, not string) *regexp.Regexp {
	star := ".*"
	if not != "" {
		star = "[^" + not + "]*"
	}
	return regexp.MustCompile("^(?s:" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, star) + ")$")
}

// identify returns the index of the identity, -1 for none.
func (o *oracle) identify(claims []access.Claim) int {
	for i, callers := range o.texts {
		for _, text := range callers {
			if text == "anonymous" {
				return i
			}
			for _, c := range claims {
				kind, pattern, _ := strings.Cut(text, ":")
				not := map[string]string{"spiffe": "/", "dns": ".", "subject": `,+\\`}[kind]
				value := c.Value
				if kind == "spiffe" {
					value = "//" + value
				}
				if kind == c.Kind && glob(pattern, not).MatchString(value) {
					return i
				}
			}
		}
	}
	return -1
}

// grants reports whether an identity has a permission on a model; on "*" only where the role says so.
func (o *oracle) grants(identity int, permission access.Permissions, model string) bool {
	for _, name := range o.config.Identities[identity].Roles {
		r := o.config.Roles[name]
		for _, pattern := range map[access.Permissions][]string{
			access.Predict: r.Predict, access.Observe: r.Observe, access.Operate: r.Operate,
		}[permission] {
			if pattern == "*" || model != "*" && glob(pattern, "").MatchString(model) {
				return true
			}
		}
	}
	return false
}

// decide returns "allowed", "denied" or "hidden".
func (o *oracle) decide(identity int, r *access.Rule, model string) string {
	all := []access.Permissions{access.Predict, access.Observe, access.Operate}
	has := func(model string, of access.Permissions) bool {
		for _, p := range all {
			if of&p != 0 && o.grants(identity, p, model) {
				return true
			}
		}
		return false
	}
	switch {
	case r.Public:
		return "allowed"
	case r.Whole:
		model = "*"
	case model == "":
		for _, name := range o.config.Identities[identity].Roles {
			role := o.config.Roles[name]
			for i, some := range [][]string{role.Predict, role.Observe, role.Operate} {
				if len(some) > 0 && r.AnyOf&all[i] != 0 {
					return "allowed"
				}
			}
		}
		return "denied"
	case !has(model, access.Predict|access.Observe|access.Operate):
		return "hidden"
	}
	if has(model, r.AnyOf) {
		return "allowed"
	}
	return "denied"
}

// maker makes access files and requests. Its alphabets are small, so that patterns and names meet.
type maker struct{ *rand.Rand }

func (m maker) text(of string, most int) string {
	b := make([]byte, 1+m.IntN(most))
	for i := range b {
		b[i] = of[m.IntN(len(of))]
	}
	return string(b)
}

func (m maker) some(n int, of func() string) (all []string) {
	for range m.IntN(n + 1) {
		all = append(all, of())
	}
	return all
}

func (m maker) model() string { return m.text("ab-", 4) }

func (m maker) pattern() string {
	if m.IntN(6) == 0 {
		return "*"
	}
	return m.text("ab-*", 4)
}

func (m maker) caller() string {
	switch kind := m.IntN(9); kind {
	case 0:
		return "spiffe://" + m.text("ab/*", 5)
	case 1:
		return "dns:" + m.text("ab.*", 5)
	case 2:
		return "subject:" + m.text(`ab,\*`, 5)
	case 3, 4, 5:
		return []string{"token", "jwt", "group"}[kind-3] + ":" + m.text("ab/.*", 3)
	case 6, 7:
		return []string{"uid", "gid"}[kind-6] + ":" + m.text("12", 2)
	}
	if m.IntN(4) == 0 {
		return "anonymous"
	}
	return "token:" + m.text("ab", 2)
}

func (m maker) claim() access.Claim {
	kind := []string{"spiffe", "dns", "subject", "token", "jwt", "group", "uid", "gid"}[m.IntN(8)]
	of := map[string]string{"spiffe": "ab/", "dns": "ab.", "subject": `ab,\`, "uid": "12", "gid": "12"}[kind]
	if of == "" {
		of = "ab/."
	}
	return access.Claim{Kind: kind, Value: m.text(of, 5)}
}

func (m maker) file(t *testing.T) *oracle {
	c := &access.Config{Roles: map[string]access.Role{}}
	for i := range 3 {
		c.Roles[fmt.Sprint("r", i)] = access.Role{
			Predict: m.some(2, m.pattern), Observe: m.some(2, m.pattern), Operate: m.some(1, m.pattern),
		}
	}
	o := &oracle{config: c}
	for i := range 1 + m.IntN(4) {
		texts := m.some(3, m.caller)
		e := access.Entry{Name: fmt.Sprint("i", i), Weight: 1, Roles: m.some(2, func() string {
			return fmt.Sprint("r", m.IntN(3))
		})}
		for _, text := range texts {
			caller, err := access.ParsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			e.Callers = append(e.Callers, caller)
		}
		o.texts = append(o.texts, texts)
		c.Identities = append(c.Identities, e)
	}
	return o
}

// TestDecisionsAgreeWithTheOracle on made-up access files, callers and requests.
func TestDecisionsAgreeWithTheOracle(t *testing.T) {
	files := 20_000
	if testing.Short() {
		files = 2_000
	}
	ends, identified := map[string]int{}, map[bool]int{}
	for seed := range files {
		m := maker{rand.New(rand.NewPCG(uint64(seed), 7))}
		o := m.file(t)
		p := access.NewPolicy(o.config, nil, time.Time{})
		for range 8 {
			var claims []access.Claim
			for range m.IntN(3) {
				claims = append(claims, m.claim())
			}
			id, want := p.Identify(claims), o.identify(claims)
			identified[want >= 0]++
			if (id == nil) != (want < 0) || id != nil && id.Name != o.config.Identities[want].Name {
				t.Fatalf("seed %d: %v is %v, want %d of %q", seed, claims, id, want, o.texts)
			}
			if id == nil {
				continue
			}
			for range 4 {
				r := &access.Rule{AnyOf: access.Permissions(1 + m.IntN(7)), Public: m.IntN(20) == 0, Whole: m.IntN(4) == 0}
				model := m.model()
				if m.IntN(8) == 0 {
					model = ""
				}
				err := id.Check(r, model)
				got := "allowed"
				if _, is := errors.AsType[*access.HiddenError](err); is {
					got = "hidden"
				} else if err != nil {
					got = "denied"
				}
				ends[got]++
				if want := o.decide(want, r, model); got != want {
					t.Fatalf("seed %d: %s of %+v about %q is %s, want %s; its roles %+v of %+v", seed, id.Name, r, model, got,
						want, o.config.Identities, o.config.Roles)
				}
			}
		}
	}
	t.Logf("%v, identified %v", ends, identified)
	for _, end := range []string{"allowed", "denied", "hidden"} {
		if ends[end] < files/10 {
			t.Errorf("only %d requests were %s", ends[end], end)
		}
	}
	if identified[true] < files/10 || identified[false] < files/10 {
		t.Errorf("callers identified: %v", identified)
	}
}

func TestCallersThatAreNone(t *testing.T) {
	for _, text := range []string{
		"", "robot", "token", "token:", "uid:root", "uid:-1", "uid:*", "gid:", "spiffe:example.org", "spiffe://", "user:a",
		"Anonymous", "anonymous:x",
	} {
		if c, err := access.ParsePattern(text); err == nil {
			t.Errorf("%q is %v", text, c)
		}
	}
}

// FuzzGlob compares the match of patterns with regular expressions.
func FuzzGlob(f *testing.F) {
	f.Add("a*b*c", "axbyc")
	f.Add("***", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		c, err := access.ParsePattern("jwt:" + pattern)
		if err != nil || len(pattern) > 30 || !validText(pattern) || !validText(text) {
			return
		}
		p := access.NewPolicy(&access.Config{Identities: []access.Entry{{Name: "a", Callers: []access.Pattern{c}}}},
			nil, time.Time{})
		got := p.Identify([]access.Claim{{Kind: "jwt", Value: text}}) != nil
		if want := glob(pattern, "").MatchString(text); got != want {
			t.Errorf("%q is of %q: %t, want %t", text, pattern, got, want)
		}
	})
}

// validText reports whether a regular expression reads the text byte by byte as it is.
func validText(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0
}
