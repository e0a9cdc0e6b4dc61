package access

import "strings"

// Permissions is a set of permissions.
type Permissions uint8

// The permissions that a role grants on models.
const (
	Predict Permissions = 1 << iota // ask for predictions, and report how they did
	Observe                         // see the state of a model
	Operate                         // change how a model is served
)

// names are those of the permissions, in the order of their bits.
var names = [...]string{"predict", "observe", "operate"}

// String lists the permissions, such as "predict or observe"; "none" of no permission.
func (p Permissions) String() string {
	var all []string
	for i, name := range names {
		if p&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, " or ")
}

// grants are the permissions of an identity, put together from its roles. To look them up takes one look into a map,
// and one match for each pattern of several models. A permission by "*" is for models that are yet to come as well, and
// for the server as a whole.
type grants struct {
	everywhere Permissions            // by "*"
	somewhere  Permissions            // on any model
	exact      map[string]Permissions // by names without *
	patterns   []grant
}

// grant is what the roles grant on the models of a pattern, in which * stands for any characters.
type grant struct {
	pattern string
	gives   Permissions
}

// newGrants puts roles together. The order of the three lists is that of the bits of Permissions.
func newGrants(roles map[string]Role, of []string) grants {
	g := grants{exact: map[string]Permissions{}}
	for _, name := range of {
		r := roles[name]
		for i, models := range [...][]string{r.Predict, r.Observe, r.Operate} {
			for _, model := range models {
				g.add(model, 1<<i)
			}
		}
	}
	return g
}

// add adds permissions on a model, or on the models of a pattern. A pattern that several roles have is kept once.
func (g *grants) add(models string, p Permissions) {
	g.somewhere |= p
	switch {
	case models == "*":
		g.everywhere |= p
	case strings.Contains(models, "*"):
		for i := range g.patterns {
			if g.patterns[i].pattern == models {
				g.patterns[i].gives |= p
				return
			}
		}
		g.patterns = append(g.patterns, grant{models, p})
	default:
		g.exact[models] |= p
	}
}

// on returns the permissions on a model.
func (g *grants) on(model string) Permissions {
	p := g.everywhere | g.exact[model]
	for i := range g.patterns {
		// A pattern is matched only where it could add something.
		if of := &g.patterns[i]; of.gives&^p != 0 && match(of.pattern, model, "") {
			p |= of.gives
		}
	}
	return p
}
