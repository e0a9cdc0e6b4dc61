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
