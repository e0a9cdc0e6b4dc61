// Package identity finds out who calls: by the certificate of a connection, the user at the other end of a unix socket,
// a token, or a JWT. It reads no disk; it asks the issuer of JWTs for its keys.
package identity

import (
	"time"

	"github.com/weftserve/weft/server/access"
)

// Proof is what is proven of a caller.
type Proof struct {
	Claims []access.Claim
	// How says how it is proven, for people, such as "token:fleet".
	How string
	// Until is when it ends; zero: it does not.
	Until time.Time
}

// anonymous is the proof of a caller who has proven nothing.
var anonymous = Proof{How: access.Anonymous}
