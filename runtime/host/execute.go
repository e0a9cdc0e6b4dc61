package host

import (
	"fmt"

	"github.com/weftserve/weft/runtime/execution"
	"github.com/weftserve/weft/sharedsched"
)

// Execute runs a batch: it is the host's side of shell.Executor.
func (h *Host) Execute(b *sharedsched.Batch) sharedsched.Report { return execution.Execute(b) }

// newUnit returns what executes the jobs of a replica, by a plan that is still to be given to it.
func (r *replica) newUnit(l *execution.Loaded) *execution.Unit {
	return &execution.Unit{Model: r.model, Version: r.number, Loaded: l, Owner: r, Log: r.host.log}
}

// Lost reports whether the replica's device failed.
func (r *replica) Lost() bool { return r.device.Lost() != nil }

// Found draws the consequences of what an execution found.
func (r *replica) Found(f execution.Finding) {
	if f.Rowless != nil {
		r.host.demote(r, fmt.Sprintf("in a batch of requests %v", f.Rowless))
	}
	if f.Lost != nil {
		r.host.lose(r.device, f.Lost, r.version)
	}
}
