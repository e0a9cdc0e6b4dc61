//go:build linux

package worker

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/worker/sandbox"
)

// policy returns what a process with the given library may do; nil: it is not confined.
func (c *Config) policy(library string) *sandbox.Policy {
	if c.Sandbox == nil {
		return nil
	}
	p := *c.Sandbox
	p.Readable = slices.Clone(p.Readable)
	for _, path := range []string{library, resolved(library)} { // further libraries lie next to it
		if path != "" {
			p.Readable = append(p.Readable, filepath.Dir(path))
		}
	}
	return &p
}

// resolved returns a path without symbolic links; "" if it leads nowhere.
func resolved(path string) string {
	target, _ := filepath.EvalSymlinks(path)
	return target
}

// tellConfined logs once what confines processes, and what the kernel lacks to confine them further.
func (p *Pool) tellConfined(one *process) {
	if one == nil || one.confined == nil {
		return
	}
	p.told.Do(func() {
		r := one.confined
		if len(r.Missing) == 0 {
			p.log.Info("engine processes sandboxed", "event", "worker_sandboxed", "landlock", r.Landlock)
			return
		}
		p.log.Warn("engine processes not fully sandboxed", "event", "worker_sandbox_incomplete", "landlock", r.Landlock,
			"cause", strings.Join(r.Missing, "; "),
			"effect", "a model that takes over its process can do more than its files need")
	})
}
