package host

import (
	"path/filepath"
	"reflect"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// candidate is a version as the repository has it: what is to be loaded, or was.
type candidate struct {
	model    string
	version  modelrepo.Version
	manifest *modelrepo.Manifest
}

func (c *candidate) path() string {
	if c.version.Path != "" {
		return c.version.Path
	}
	return c.version.Dir
}

// hide returns an error of the candidate of which callers are told no path of this machine.
func (c *candidate) hide(err error) *catalog.Hidden { return hide(err, filepath.Dir(c.version.Dir)) }

// alike reports whether loading the one must end as loading the other.
func (c *candidate) alike(other candidate) bool {
	return c.version.Fingerprint == other.version.Fingerprint && c.version.Path == other.version.Path && sameSettings(c.manifest, other.manifest)
}

// sameSettings reports whether two manifests say the same of how each version is loaded and run.
func sameSettings(a, b *modelrepo.Manifest) bool {
	if a == b {
		return true
	}
	x, y := *a, *b
	x.Versions, y.Versions = modelrepo.Versions{Transition: x.Versions.Transition}, modelrepo.Versions{Transition: y.Versions.Transition}
	x.Traffic, y.Traffic = nil, nil
	return reflect.DeepEqual(x, y)
}
