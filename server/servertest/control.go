package servertest

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/server/access"
)

// Control is access control whose refusals a test can count.
type Control struct {
	access.Control

	mu      sync.Mutex
	refused map[string]int // guarded by mu; by identity and reason
}

// NewControl returns one that follows a config. Each identity has a token of its own name, see Token. It logs nothing.
func NewControl(t *testing.T, c *access.Config) *Control {
	t.Helper()
	d := &Control{refused: map[string]int{}}
	d.Observer, d.Logger = d, slog.New(slog.DiscardHandler)
	d.Set(t, c)
	return d
}

// Set makes the control follow another config. It adds each identity's token to the callers of the config, which it
// changes. What identities have in the server stays counted.
func (d *Control) Set(t *testing.T, c *access.Config) {
	t.Helper()
	var lines strings.Builder
	for i := range c.Identities {
		e := &c.Identities[i]
		caller, err := access.ParsePattern("token:" + e.Name)
		if err != nil {
			t.Fatal(err)
		}
		e.Callers = append(e.Callers, caller)
		fmt.Fprintf(&lines, "%s sha256:%x\n", e.Name, sha256.Sum256([]byte(Token(e.Name))))
	}
	tokens, faults := access.ParseTokens(lines.String())
	if faults != nil {
		t.Fatal(faults)
	}
	d.Follow(access.NewPolicy(c, d.Policy(), time.Now()), &access.Prover{Tokens: tokens})
}

// Token returns the token of an identity.
func Token(name string) string { return "secret of " + name }

// RequestDenied implements access.Observer.
func (d *Control) RequestDenied(identity, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused[identity+" "+reason]++
}

// Refused returns how many requests of an identity were refused for a reason.
func (d *Control) Refused(identity, reason string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refused[identity+" "+reason]
}
