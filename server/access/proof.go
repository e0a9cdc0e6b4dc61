package access

import "time"

// Proof is what is proven of a caller.
type Proof struct {
	Claims []Claim
	// How says how it is proven, for people, such as "token:fleet".
	How string
	// Until is when it ends; zero: it does not.
	Until time.Time
}

// anonymous is the proof of a caller who has proven nothing.
var anonymous = Proof{How: Anonymous}
