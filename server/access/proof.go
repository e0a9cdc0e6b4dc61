package access

import (
	"crypto/x509"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

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

// OfConnection returns what a connection proves of its caller: by the certificate that the credentials have verified
// (they take no other), or by the user at the other end of a unix socket. The raw connection is the one that was
// accepted.
func OfConnection(raw net.Conn, info credentials.AuthInfo) Proof {
	if secured, is := info.(credentials.TLSInfo); is && len(secured.State.PeerCertificates) > 0 {
		return OfCertificate(secured.State.PeerCertificates[0])
	}
	if uid, gid, known := peerOf(raw); known {
		u, g := strconv.FormatUint(uint64(uid), 10), strconv.FormatUint(uint64(gid), 10)
		return Proof{
			Claims: []Claim{{Kind: UID, Value: u}, {Kind: GID, Value: g}},
			How:    "uid:" + u,
		}
	}
	return anonymous
}

// OfCertificate returns what a certificate proves that was verified. It ends with the certificate. Its SPIFFE IDs count
// alone, if it has any; else its DNS names and its subject do.
func OfCertificate(c *x509.Certificate) Proof {
	subject := c.Subject.String()
	p := Proof{How: how(Subject, subject), Until: c.NotAfter}
	for _, uri := range c.URIs {
		if id, is := strings.CutPrefix(uri.String(), "spiffe://"); is {
			p.Claims = append(p.Claims, Claim{Kind: SPIFFE, Value: id})
			p.How = how(SPIFFE, "//"+id)
		}
	}
	if len(p.Claims) > 0 {
		return p // what else it says, no trust domain vouches for: a federated one may issue any name
	}
	for _, name := range c.DNSNames {
		p.Claims = append(p.Claims, Claim{Kind: DNS, Value: strings.ToLower(name)})
	}
	if subject != "" {
		p.Claims = append(p.Claims, Claim{Kind: Subject, Value: subject})
	} else if len(c.DNSNames) > 0 {
		p.How = how(DNS, c.DNSNames[0])
	}
	return p
}

// longestName is how much of a name that somebody else chose is repeated, in bytes.
const longestName = 128

// how describes a proof in one line of a log: a name that comes with a call must not forge one. A name that is long, or
// not printable ASCII, is quoted and cut.
func how(kind, name string) string {
	quoted := strconv.QuoteToASCII(name)
	if text := quoted[1 : len(quoted)-1]; text == name && len(name) <= longestName {
		return kind + ":" + name
	}
	return kind + ":" + quoted[:min(len(quoted), longestName)]
}

// ProofError says that a call does not prove who makes it.
type ProofError struct {
	// Reason is a constant for programs.
	Reason Reason
	// Why says what is wrong, and what to do.
	Why string
}

// Reason is why a call proves nothing.
type Reason string

// The reasons.
const (
	Malformed Reason = "TOKEN_MALFORMED"   // the header authorization is not "Bearer TOKEN"
	Unknown   Reason = "TOKEN_UNKNOWN"     // nobody has such a token, or none is signed so
	Expired   Reason = "TOKEN_EXPIRED"     // it was valid
	Missing   Reason = "IDENTITY_REQUIRED" // nothing is proven, and anonymous callers are none of the identities
	Stranger  Reason = "IDENTITY_UNKNOWN"  // what is proven is none of the identities
)

func (e *ProofError) Error() string { return e.Why }

// UnreachableError says that a JWT cannot be verified, because its issuer does not give its keys. The cause is for the
// operator only.
type UnreachableError struct{ Cause error }

func (e *UnreachableError) Error() string {
	return "the token cannot be verified, because the keys of its issuer cannot be fetched; try again, or look for " +
		"the cause in the server's log (event=access_denied)"
}

func (e *UnreachableError) Unwrap() error { return e.Cause }
