package access

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/weftserve/weft/runtime/catalog"
)

// Policy is the identities of an access file. It is immutable and safe for concurrent use, but for what is used of the
// quotas.
type Policy struct{ identities []*Identity }

// NewPolicy returns the policy of a config, from now on. What the identities of the one before it (nil: there is none)
// have in the server counts for those of the same name.
func NewPolicy(c *Config, before *Policy, now time.Time) *Policy {
	p := &Policy{}
	for i := range c.Identities {
		e := &c.Identities[i]
		id := &Identity{
			Name: e.Name, Caller: &catalog.Caller{Name: e.Name, Weight: e.Weight},
			callers: e.Callers, grants: newGrants(c.Roles, e.Roles), quota: e.Quota, used: before.usedBy(e.Name),
		}
		limit, burst := rate.Limit(e.Quota.Rate), e.Quota.Burst
		if e.Quota.Rate == 0 {
			limit, burst = rate.Inf, math.MaxInt32 // so that a rate that comes later begins with a whole burst
		}
		id.used.rate.SetLimitAt(now, limit)
		id.used.rate.SetBurstAt(now, burst)
		p.identities = append(p.identities, id)
	}
	return p
}

// usedBy returns what an identity has in the server, shared with it; of one that is new, nothing. p may be nil.
func (p *Policy) usedBy(name string) *usage {
	if p != nil {
		for _, id := range p.identities {
			if id.Name == name {
				return id.used
			}
		}
	}
	return &usage{rate: rate.NewLimiter(rate.Inf, math.MaxInt32)}
}

// Identify returns the identity of a caller who has proven these claims; nil: it is none. The first that matches is
// right, in the order of the access file.
func (p *Policy) Identify(claims []Claim) *Identity {
	for _, id := range p.identities {
		for i := range id.callers {
			if id.callers[i].is(claims) {
				return id
			}
		}
	}
	return nil
}

// Identities returns the names of all identities, in their order.
func (p *Policy) Identities() []string {
	names := make([]string, len(p.identities))
	for i, id := range p.identities {
		names[i] = id.Name
	}
	return names
}

// Identity is who a caller is.
type Identity struct {
	// Name comes from the access file, and is fit for metrics.
	Name string
	// Caller is who requests are charged to.
	Caller *catalog.Caller

	callers []Pattern
	grants  grants
	quota   Quota
	used    *usage
}

// Nobody may do nothing but what is public.
var Nobody = &Identity{Caller: &catalog.Caller{Weight: 1}, used: (*Policy)(nil).usedBy("")}

// Granted returns the permissions on a model.
func (i *Identity) Granted(model string) Permissions { return i.grants.on(model) }

// Everywhere returns the permissions on all models, including models that are yet to come, and on the server as a
// whole.
func (i *Identity) Everywhere() Permissions { return i.grants.everywhere }

// Sees reports whether a caller may know that there is a model.
func (i *Identity) Sees(model string) bool { return i.grants.on(model) != 0 }
