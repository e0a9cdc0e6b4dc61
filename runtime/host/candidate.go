package host

import (
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/residency"
)

// candidate is a version as the repository has it: what is to be loaded, or was.
type candidate struct {
	model    string
	version  modelrepo.Version
	manifest *modelrepo.Manifest
}

// from returns the candidate that residency speaks of.
func from(c residency.Candidate) candidate { return candidate{c.Model, c.Version, c.Manifest} }

func (c *candidate) to() residency.Candidate {
	return residency.Candidate{Model: c.model, Version: c.version, Manifest: c.manifest}
}

func (c *candidate) path() string {
	to := c.to()
	return to.Path()
}

// hide returns an error of which callers are told no path of this machine.
func (c *candidate) hide(err error) *catalog.Hidden {
	to := c.to()
	return to.Hide(err)
}
