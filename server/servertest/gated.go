package servertest

import (
	"context"

	"github.com/weftserve/weft/runtime/catalog"
)

// Gated is a model whose calls wait until the test lets them go, like queued ones: the end of their context cancels
// them.
type Gated struct {
	Entered chan *catalog.Call
	Release chan struct{} // one element, or its closing, lets a call go
}

// NewGated returns a model of which no call has come.
func NewGated() *Gated {
	return &Gated{Entered: make(chan *catalog.Call), Release: make(chan struct{})}
}

// Run runs a call as Models.Predict does.
func (g *Gated) Run(ctx context.Context, call *catalog.Call) error {
	select {
	case g.Entered <- call:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-g.Release:
		return RunPolicy(ctx, call)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
