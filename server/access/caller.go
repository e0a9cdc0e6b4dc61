package access

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weftserve/weft/sharedsched"
)

// Caller is who makes a call. Nil is anybody, on a server that is open to all: its methods allow everything then, but
// Operates. It is immutable, and shared by the calls of a connection. Its book is the policy by which it was found:
// once another is followed, the caller is found anew.
type Caller struct {
	*Identity

	// How says how the identity was proven, such as "token:fleet".
	How string

	book  *book
	hash  [32]byte  // of the token
	until time.Time // zero: for ever
}

// holds reports whether the proof is still good.
func (c *Caller) holds() bool { return c.until.IsZero() || time.Now().Before(c.until) }

// Sees reports whether the caller may know that there is a model.
func (c *Caller) Sees(model string) bool { return c == nil || c.Identity.Sees(model) }

// SeesAll reports whether the caller may know of every model.
func (c *Caller) SeesAll() bool { return c == nil || c.Everywhere() != 0 }

// Observes reports whether the caller may see the state of a model.
func (c *Caller) Observes(model string) bool { return c == nil || c.Granted(model)&Observe != 0 }

// ObservesAll reports whether the caller may see the state of all that is served.
func (c *Caller) ObservesAll() bool { return c == nil || c.Everywhere()&Observe != 0 }

// Operates reports whether the caller may change how a model is served. On a server that is open to all that is for the
// listener to say: open.
func (c *Caller) Operates(model string, open bool) bool {
	if c == nil {
		return open
	}
	return c.Granted(model)&Operate != 0
}

// Check is that of the identity: whether the caller may make a call of the rule about a model.
func (c *Caller) Check(r *Rule, model string) error {
	if c == nil {
		return nil
	}
	return c.Identity.Check(r, model)
}

// Admit is that of the identity: it takes one request of the quotas.
func (c *Caller) Admit(clock func() time.Time) (Admission, error) {
	if c == nil {
		return Admission{}, nil
	}
	return c.Identity.Admit(clock)
}

// Priority is that of the identity: which priority a request gets that asks for this one, or leaves it to the server.
func (c *Caller) Priority(asked sharedsched.Priority, explicit bool) (sharedsched.Priority, error) {
	if c == nil {
		return asked, nil
	}
	return c.Identity.Priority(asked, explicit)
}

// String returns the identity and how it was proven, such as "fleet (token:robot-7)"; "" of anybody.
func (c *Caller) String() string {
	if c == nil {
		return ""
	}
	return c.Name + " (" + c.How + ")"
}

// callerKey is the key of the *Caller in the context of a call.
type callerKey struct{}

// WithCaller returns the context of a call of c.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who makes a call; nil: anybody, or the call keeps it elsewhere, as predictions do in their requests.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// connection remembers who calls by a connection, so that neither a certificate is matched nor a token looked up for
// each call. Calls of one connection may store at the same time: any of the callers is right.
type connection struct {
	proof Proof
	// The latest caller without a token, and the latest with one: most connections have one caller only.
	bare, withToken atomic.Pointer[Caller]
}

// Keep makes what protect.Connections are to keep of each connection, so that they remember who calls.
func Keep(raw net.Conn, info credentials.AuthInfo) any {
	return &connection{proof: OfConnection(raw, info)}
}
