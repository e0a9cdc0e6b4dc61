package access

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"
)

// Prover finds out whose a token is: it looks into the tokens file first, and takes what has the form of a JWT, three
// parts with dots between, to the issuer. It is replaced as a whole when either changes.
type Prover struct {
	Tokens *Tokens
	Issuer *Issuer // nil: JWTs are not taken
}

// unknown is the error of a token that nothing is known about.
var unknown = &ProofError{Unknown, "the token of this call is not known; send one of the server's tokens file, or a " +
	"JWT of the issuer that the access file names, as \"authorization: Bearer TOKEN\""}

// Bearer returns the token in the values of a header authorization. The error is a *ProofError.
func Bearer(header []string) (string, error) {
	if len(header) == 1 {
		scheme, token, _ := strings.Cut(header[0], " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "bearer") && token != "" {
			return token, nil
		}
	}
	return "", &ProofError{Malformed, "the header authorization of this call is not of the form \"Bearer TOKEN\"; send " +
		"it once, in that form, or leave it out"}
}

// Hash returns that of a token.
func Hash(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// Prove returns what a token with that hash proves. The error is a *ProofError, an *UnreachableError, or that of ctx.
func (p *Prover) Prove(ctx context.Context, token string, hash [sha256.Size]byte, now time.Time) (Proof, error) {
	if proof, is, err := p.Tokens.prove(hash, now); is {
		return proof, err
	}
	if p.Issuer == nil || strings.Count(token, ".") != 2 {
		return Proof{}, unknown
	}
	return p.Issuer.prove(ctx, token, hash, now)
}
