package access

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
// keeper of the server only.
type UnreachableError struct{ Cause error }

func (e *UnreachableError) Error() string {
	return "the token cannot be verified, because the keys of its issuer cannot be fetched; try again, or look for " +
		"the cause in the server's log (event=access_denied)"
}

func (e *UnreachableError) Unwrap() error { return e.Cause }
