// Package access controls who may call what, and how much of it at a time: it authenticates callers, authorizes their
// calls by the roles of the access file, and counts their quotas.
//
// To authenticate is to prove claims (Proof): by the certificate of a connection, the user at the other end of a unix
// socket, a token, or a JWT. No disk is read; the issuer of JWTs is asked for its keys. To authorize is pure: patterns,
// policies, quotas and rules (pattern.go, policy.go, decide.go, quota.go, rule.go) come as values, and the time is an
// argument. Control joins the two for each call. Browsers keeps pages of others from having a browser call the server.
package access

import (
	"cmp"
	"context"
	"crypto/subtle"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/server/protect"
)

// Observer is notified of what is refused, for metrics. Calls come from any goroutine and must not block.
type Observer interface {
	// RequestDenied follows for each request that was refused or denied. The identity is "" where it is not known, and the
	// reason is one of few constants.
	RequestDenied(identity, reason string)
}

// Control authenticates and authorizes the calls of a server. The zero value lets everybody do everything. It is safe
// for concurrent use.
type Control struct {
	// Observer hears of what is refused. Nil: nobody does.
	Observer Observer
	// Logger gets what is denied. Nil: slog.Default().
	Logger *slog.Logger

	book   atomic.Pointer[book]
	denied denied
}

// book says who may come in: what identities there are, and how they are proven. It is replaced as a whole, and callers
// that were found by an earlier one are found anew.
type book struct {
	policy *Policy
	prover *Prover
}

// Follow sets the policy that decides from the next call on, and from the next message of streams. Identities are
// proven by p.
func (d *Control) Follow(policy *Policy, p *Prover) { d.book.Store(&book{policy, p}) }

// Open reports whether everybody may do everything.
func (d *Control) Open() bool { return d.book.Load() == nil }

// Policy returns the one that is followed; nil: none is.
func (d *Control) Policy() *Policy {
	if b := d.book.Load(); b != nil {
		return b.policy
	}
	return nil
}

// Enter returns who makes the call of a method; nil if everybody may do everything. The error is a *ProofError, an
// *UnreachableError, or that of ctx. A public method has no error: a caller who proves nothing is Nobody there.
func (d *Control) Enter(ctx context.Context, r *Rule) (*Caller, error) {
	b := d.book.Load()
	if b == nil {
		return nil, nil //nolint:nilnil // everybody is welcome
	}
	at, known := protect.Kept[*connection](ctx)
	if !known {
		at = &connection{} // an unusual server, as in a test
	}
	return b.enter(ctx, at, metadata.ValueFromIncomingContext(ctx, "authorization"), r.Public)
}

// Again returns who makes a call that came in as c, in case something has changed since: another policy is followed, or
// the proof has ended. It is asked for each message of a stream, and costs nothing while nothing has changed.
func (d *Control) Again(ctx context.Context, r *Rule, c *Caller) (*Caller, error) {
	if c != nil && c.book == d.book.Load() && c.holds() {
		return c, nil
	}
	return d.Enter(ctx, r)
}

// enter returns who calls by a connection, with these values of a header authorization. What it finds is kept with the
// connection. A method that is public takes anybody: a caller who proves nothing, or something wrong, is Nobody there.
func (b *book) enter(ctx context.Context, at *connection, authorization []string, public bool) (*Caller, error) {
	c := at.bare.Load()
	var err error
	switch {
	case len(authorization) > 0:
		c, err = b.bearer(ctx, at, authorization)
	// No token came: the connection itself decides.
	case c == nil || c.book != b || !c.holds():
		if c, err = b.caller(at.proof); err == nil {
			at.bare.Store(c)
		}
	}
	if err != nil && public {
		return &Caller{Identity: Nobody, How: Anonymous}, nil
	}
	return c, err
}

// bearer finds out who calls with a token. It decides alone: a caller who shows one does not want to be taken for
// anybody who owns the connection. Only the latest token of a connection is kept, by its hash; hashes are compared in a
// time that does not tell how much of one is right.
func (b *book) bearer(ctx context.Context, at *connection, header []string) (*Caller, error) {
	token, err := Bearer(header)
	if err != nil {
		return nil, err
	}
	hash := Hash(token)
	c := at.withToken.Load()
	if c != nil && c.book == b && c.holds() && subtle.ConstantTimeCompare(c.hash[:], hash[:]) == 1 {
		return c, nil
	}
	proof, err := b.prover.Prove(ctx, token, hash, time.Now())
	if err != nil {
		return nil, err
	}
	until := proof.Until
	proof.Until = time.Time{} // that it holds was just proven
	if c, err = b.caller(proof); err != nil {
		return nil, err
	}
	c.hash, c.until = hash, until
	at.withToken.Store(c)
	return c, nil
}

// caller returns the caller who has proven that. The error is a *ProofError: the proof has ended, nothing is proven, or
// what is proven is none of the identities.
func (b *book) caller(p Proof) (*Caller, error) {
	c := &Caller{Identity: b.policy.Identify(p.Claims), How: cmp.Or(p.How, Anonymous), book: b, until: p.Until}
	switch {
	case !c.holds():
		return nil, &ProofError{Reason: Expired, Why: "the certificate of this connection has expired since " +
			"it was made; connect again with a valid one"}
	case c.Identity != nil:
		return c, nil
	case len(p.Claims) == 0:
		return nil, &ProofError{Reason: Missing, Why: "this server wants to know who calls, and the call " +
			"proves nothing; send a token as \"authorization: Bearer TOKEN\", or connect with a certificate that the " +
			"server trusts"}
	}
	return nil, &ProofError{Reason: Stranger, Why: "the caller, proven as " + p.How + ", is none of the " +
		"server's identities; add it to the callers of one in the access file"}
}
