package access

import "github.com/weftserve/weft/sharedsched"

// Config is the content of an access file.
type Config struct {
	// Roles are what identities may do, by name.
	Roles map[string]Role
	// Identities are who may call. The first that a caller is one of decides.
	Identities []Entry
}

// Role lists the models on which it grants each permission, as names in which * stands for any characters.
type Role struct{ Predict, Observe, Operate []string }

// Entry describes an identity.
type Entry struct {
	Name    string
	Callers []Pattern
	// Roles are names of Config.Roles.
	Roles []string
	// Weight is the identity's part of a device, relative to others, for models whose fairness is by identity; above 0.
	Weight float64
	Quota  Quota
}

// Quota bounds what the callers of an identity may have of the server together.
type Quota struct {
	// Requests is how many requests may be in the server; 0: any number. Too low refuses bursts.
	Requests int64
	// Bytes bounds the messages of these requests, in bytes; 0: any number. Too low refuses large inputs.
	Bytes int64
	// Rate is how many requests may come in a second, in the long run; 0: any number. Burst is how many may come at once;
	// it must be at least 1 if there is a Rate.
	Rate  float64
	Burst int
	// MostPriority is the most important priority that requests may have.
	MostPriority sharedsched.Priority
}

// ranks orders the priorities, the most important first. The numbers of the priorities themselves are not in that
// order.
var ranks = [...]int{
	sharedsched.CriticalPlus: 0, sharedsched.Critical: 1, sharedsched.SheddablePlus: 2, sharedsched.Sheddable: 3,
}

// Priorities are the names of the priorities in the access file.
var Priorities = map[string]sharedsched.Priority{
	"critical-plus": sharedsched.CriticalPlus, "critical": sharedsched.Critical,
	"sheddable-plus": sharedsched.SheddablePlus, "sheddable": sharedsched.Sheddable,
}

// priorityName returns the name of a priority.
func priorityName(p sharedsched.Priority) string {
	for name, is := range Priorities {
		if is == p {
			return name
		}
	}
	return "unknown"
}

// mattersMore reports whether a priority matters more than another.
func mattersMore(a, b sharedsched.Priority) bool { return ranks[a] < ranks[b] }
