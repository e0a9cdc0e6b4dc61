package access

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/weftserve/weft/sharedsched"
)

// usage is what the callers of an identity have in the server. It outlives policies: requests that were admitted by an
// earlier one are given back to the same counts.
type usage struct {
	requests, bytes atomic.Int64
	rate            *rate.Limiter
}

// The quotas, by their keys in the access file.
const (
	RequestsInFlight = "requests-in-flight"
	BytesInFlight    = "bytes-in-flight"
	Rate             = "rate"
)

// Admission is what a request has of its identity's quota. The zero value has nothing. It has one owner, who releases
// it when the request was answered. A copy that is released as well would give everything back twice.
type Admission struct {
	of    *Identity
	bytes int64
}

// Admit takes one request of the quotas. The clock is asked only where there is a rate. The error is a *QuotaError, and
// then nothing is taken.
func (i *Identity) Admit(clock func() time.Time) (Admission, error) {
	if at := take(&i.used.requests, 1, i.quota.Requests); at >= 0 {
		return Admission{}, &QuotaError{
			Identity: i.Name, Quota: RequestsInFlight, Limit: strconv.FormatInt(i.quota.Requests, 10),
		}
	}
	if i.quota.Rate == 0 {
		return Admission{of: i}, nil
	}
	now := clock()
	if i.used.rate.AllowN(now, 1) {
		return Admission{of: i}, nil
	}
	// The rate is asked second, and what was taken of the first quota is given back.
	i.used.requests.Add(-1)
	missing := 1 - i.used.rate.TokensAt(now)
	return Admission{}, &QuotaError{
		Identity: i.Name, Quota: Rate, Limit: strconv.FormatFloat(i.quota.Rate, 'f', -1, 64),
		Again: time.Duration(max(0, missing) / i.quota.Rate * float64(time.Second)),
	}
}

// Grow takes so many more bytes of the quotas: a message is counted as it comes, and refused before the rest of it is
// read. The error is a *QuotaError, and then the bytes are not taken; those taken before stay until Release.
func (a *Admission) Grow(bytes int) error {
	if a.of == nil || bytes <= 0 {
		return nil
	}
	limit := a.of.quota.Bytes
	if had := take(&a.of.used.bytes, int64(bytes), limit); had >= 0 {
		return &QuotaError{
			Identity: a.of.Name, Quota: BytesInFlight, Limit: strconv.FormatInt(limit, 10),
			Needs: a.bytes + int64(bytes), Never: a.bytes+int64(bytes) > limit,
		}
	}
	a.bytes += int64(bytes)
	return nil
}

// Release gives everything back. More calls do nothing. What was taken of the rate is used up, and does not come back.
func (a *Admission) Release() {
	if a.of != nil {
		a.of.used.bytes.Add(-a.bytes)
		a.of.used.requests.Add(-1)
		*a = Admission{}
	}
}

// take adds n to what is used, unless that would be more than the limit (0: there is none). It returns what was used
// where it was not added, else -1. n > limit-had, and not had+n > limit, because a sum may overflow.
func take(used *atomic.Int64, n, limit int64) int64 {
	if limit == 0 {
		used.Add(n)
		return -1
	}
	for {
		had := used.Load()
		if n > limit-had {
			return had
		}
		if used.CompareAndSwap(had, had+n) {
			return -1
		}
	}
}

// InFlight returns how many requests of the identity are in the server, and the bytes of their messages.
func (i *Identity) InFlight() (requests, bytes int64) {
	return i.used.requests.Load(), i.used.bytes.Load()
}

// Used returns which part of each quota is used, from 0 to 1, by the identities that have one and the quotas' keys.
func (p *Policy) Used(now time.Time) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for _, i := range p.identities {
		parts := map[string]float64{}
		requests, bytes := i.InFlight()
		if i.quota.Requests > 0 {
			parts[RequestsInFlight] = float64(requests) / float64(i.quota.Requests)
		}
		if i.quota.Bytes > 0 {
			parts[BytesInFlight] = float64(bytes) / float64(i.quota.Bytes)
		}
		if i.quota.Rate > 0 {
			parts[Rate] = 1 - i.used.rate.TokensAt(now)/float64(i.quota.Burst)
		}
		for quota, part := range parts { // one that was lowered may be used more than whole
			parts[quota] = min(max(part, 0), 1)
		}
		if len(parts) > 0 {
			all[i.Name] = parts
		}
	}
	return all
}

// QuotaError says that an identity has used up a quota.
type QuotaError struct {
	Identity string
	// Quota is its key in the access file, and Limit its value there.
	Quota, Limit string
	// Needs is how many bytes the request takes, where those are the quota.
	Needs int64
	// Again is when there is room, where that is known; Never: there never is for this request.
	Again time.Duration
	Never bool
}

func (e *QuotaError) Error() string {
	what := "try again when others of its requests were answered"
	switch {
	case e.Never:
		what = "send fewer rows at a time"
	case e.Quota == Rate:
		what = fmt.Sprintf("try again in %v", e.Again.Round(time.Millisecond))
	}
	needs := ""
	if e.Needs > 0 {
		needs = fmt.Sprintf(", and this request takes %d bytes", e.Needs)
	}
	return fmt.Sprintf("identity %s has used up its quota %s, which is %s%s; %s, or raise it in the access file",
		e.Identity, e.Quota, e.Limit, needs, what)
}

// Priority returns the priority of a request: the one that it asks for or, if it leaves that to the server, Critical or
// the one that matters most of those allowed, whichever matters less. The error is a *PriorityError.
func (i *Identity) Priority(asked sharedsched.Priority, explicit bool) (sharedsched.Priority, error) {
	most := i.quota.MostPriority
	switch {
	case !mattersMore(asked, most):
		return asked, nil
	case explicit:
		return asked, &PriorityError{Identity: i.Name, Asked: priorityName(asked), Most: priorityName(most)}
	}
	return most, nil
}

// PriorityError says that a request asks for a more important priority than its identity may ask for.
type PriorityError struct{ Identity, Asked, Most string }

func (e *PriorityError) Error() string {
	return fmt.Sprintf("identity %s may not ask for priority %s; %s is the highest that it may: ask for that, or for "+
		"none, or raise quota.max-priority in the access file", e.Identity, e.Asked, e.Most)
}
