package app

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/server/access"
)

// accessFile is the YAML of an access file.
type accessFile struct {
	// Tokens is the tokens file, relative to this one; "": no token is taken.
	Tokens string `yaml:"tokens"`
	// JWT says which JWTs are taken; nil: none.
	JWT        *jwtEntry            `yaml:"jwt"`
	Roles      map[string]roleEntry `yaml:"roles"`
	Identities []identityEntry      `yaml:"identities"`
}

// jwtEntry says whose JWTs are taken.
type jwtEntry struct {
	Issuer   string `yaml:"issuer"`
	Audience string `yaml:"audience"`
	// JWKS is a file, relative to the access file, or a URL; "": where the OIDC discovery of the issuer says.
	JWKS   string `yaml:"jwks"`
	Groups string `yaml:"groups"` // the claim that lists groups; "": groups
}

// roleEntry lists the models that a role gives each right for, as patterns in which * stands for any characters. The
// fields are those of access.Role, in the same order: check converts one to the other.
type roleEntry struct {
	Predict []string `yaml:"predict"`
	Observe []string `yaml:"observe"`
	Operate []string `yaml:"operate"`
}

// identityEntry says which callers are an identity. Entries count in their order: a caller is the first that fits.
type identityEntry struct {
	Name    string     `yaml:"name"`
	Callers []string   `yaml:"callers"`
	Roles   []string   `yaml:"roles"`
	Weight  float64    `yaml:"weight"`
	Quota   quotaEntry `yaml:"quota"`
}

// quotaEntry bounds an identity. Requests and bytes are of what was accepted and not answered yet; the rate is requests
// per second, in the long run; the burst is requests at once. Zero is no bound, and a burst of zero is that of one
// second.
type quotaEntry struct {
	Requests    int64       `yaml:"requests-in-flight"`
	Bytes       config.Size `yaml:"bytes-in-flight"`
	Rate        float64     `yaml:"rate"`
	Burst       int         `yaml:"burst"`
	MaxPriority string      `yaml:"max-priority" enum:"critical-plus,critical,sheddable-plus,sheddable"`
}

// SetDefaults implements config.Defaulter.
func (e *identityEntry) SetDefaults() { e.Weight, e.Quota.MaxPriority = 1, "critical-plus" }

// identityName keeps names short and plain, because they are labels of metrics and are in the log. modelPattern is a
// name of a model, with * anywhere.
var (
	identityName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	modelPattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._*-]*$`)
)

// check returns the configuration that the values stand for, and everything that is wrong with them. Where there are
// faults the configuration is not to be used.
func (f *accessFile) check() (*access.Config, config.Faults) {
	var faults config.Faults
	c := &access.Config{Roles: map[string]access.Role{}}
	if f.JWT != nil {
		f.JWT.check(&faults)
	}
	// Decode sorts the faults, so that the order of maps does not show.
	for name, r := range f.Roles {
		c.Roles[name] = access.Role(r)
		for key, models := range map[string][]string{"predict": r.Predict, "observe": r.Observe, "operate": r.Operate} {
			for i, model := range models {
				if !modelPattern.MatchString(model) {
					faults.Addf(fmt.Sprintf("roles.%s.%s[%d]", name, key, i),
						`%q names no models; expected a name, in which * stands for any characters, or "*" for all`, model)
				}
			}
		}
	}
	if len(f.Identities) == 0 {
		faults.Addf("identities", "the list is empty, so that nobody could call; expected at least one identity")
	}
	// all is the identity that takes anonymous callers. As every caller fits it, entries after it would never count.
	all := ""
	for i := range f.Identities {
		e, key := &f.Identities[i], fmt.Sprintf("identities[%d]", i)
		if all != "" {
			faults.Addf(key, "nobody can be this identity, because %s before it takes anonymous callers, which all are; "+
				"put it further up", all)
		}
		c.Identities = append(c.Identities, f.entry(&faults, key, e, f.Identities[:i]))
		if slices.Contains(e.Callers, access.Anonymous) {
			all = e.Name
		}
	}
	return c, faults
}

// entry checks an identity, and returns it as access control has it. before are the identities further up, whose names
// it must not repeat; key is its own in the file, for faults.
func (f *accessFile) entry(faults *config.Faults, key string, e *identityEntry, before []identityEntry) access.Entry {
	out := access.Entry{Name: e.Name, Roles: e.Roles, Weight: e.Weight}
	switch {
	case !identityName.MatchString(e.Name):
		faults.Addf(key+".name", "%q is no name; expected a letter or digit, then letters, digits, '.', '_' and '-', "+
			"at most 64", e.Name)
	case slices.ContainsFunc(before, func(o identityEntry) bool { return o.Name == e.Name }):
		faults.Addf(key+".name", "an identity before it is named %s already; give each its own name", e.Name)
	}
	if len(e.Callers) == 0 {
		faults.Addf(key+".callers", "nobody can be this identity; expected at least one of the callers")
	}
	for i, text := range e.Callers {
		caller, err := access.ParsePattern(text)
		kind, _, _ := strings.Cut(text, ":")
		switch {
		case err != nil:
			faults.Addf(fmt.Sprintf("%s.callers[%d]", key, i), "%v", err)
		case kind == access.Token && f.Tokens == "":
			faults.Addf(fmt.Sprintf("%s.callers[%d]", key, i), "no token is taken; expected the key tokens at the top, too")
		case (kind == access.JWT || kind == access.Group) && f.JWT == nil:
			faults.Addf(fmt.Sprintf("%s.callers[%d]", key, i), "no JWT is taken; expected the key jwt at the top, too")
		}
		out.Callers = append(out.Callers, caller)
	}
	for i, role := range e.Roles {
		if _, is := f.Roles[role]; !is {
			faults.Addf(fmt.Sprintf("%s.roles[%d]", key, i), "%q is none of the roles; expected a key of roles", role)
		}
	}
	if !(e.Weight >= 0.001 && e.Weight <= 1e6) { // so written, it holds for NaN
		faults.Addf(key+".weight", "%v is out of range; expected 0.001 to 1000000", e.Weight)
	}
	out.Quota = e.Quota.check(faults, key+".quota")
	return out
}

// check refuses negative values, and values that no server reaches: they are mistakes, such as bytes for a number of
// requests.
func (q *quotaEntry) check(faults *config.Faults, key string) access.Quota {
	config.Between(faults, key+".requests-in-flight", q.Requests, 0, math.MaxInt32)
	config.Between(faults, key+".bytes-in-flight", q.Bytes, 0, 1<<50)
	config.Between(faults, key+".rate", q.Rate, 0, 1e9)
	config.Between(faults, key+".burst", q.Burst, 0, math.MaxInt32)
	if q.Burst > 0 && q.Rate == 0 {
		faults.Addf(key+".burst", "there is no rate that it could exceed; expected the key rate, too")
	}
	return access.Quota{
		Requests: q.Requests, Bytes: int64(q.Bytes), Rate: q.Rate,
		// A second's worth, and at least one: with a burst of zero no request would ever be taken.
		Burst:        cmp.Or(q.Burst, int(math.Ceil(q.Rate))),
		MostPriority: access.Priorities[q.MaxPriority],
	}
}

// check does not look at a file of keys: readAccess reads that, and says what is wrong with it.
func (j *jwtEntry) check(faults *config.Faults) {
	checkURL(faults, "jwt.issuer", j.Issuer)
	if j.Audience == "" {
		faults.Addf("jwt.audience", "no audience; expected the name by which the issuer knows this server, so that tokens "+
			"for others are not taken")
	}
	if strings.Contains(j.JWKS, "://") {
		checkURL(faults, "jwt.jwks", j.JWKS)
	}
}

// checkURL refuses a URL without TLS to another machine: anybody on the way could send keys of his own.
func checkURL(faults *config.Faults, key, text string) {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && access.Local(u.Hostname())) {
		return
	}
	faults.Addf(key, "%q is no safe URL; expected https://HOST/PATH, or http:// on this machine", text)
}
