package app

import (
	"sync"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
)

// library is the ONNX Runtime library, which is loaded when the first model needs it: synthetic models do not.
type library struct {
	named string // by the user; "" where it is to be found

	once sync.Once
	err  error
}

// load loads the library once. The error is one sentence that includes the remedy.
func (l *library) load() error {
	l.once.Do(func() {
		var path string
		if l.named != "" {
			path, l.err = ortlib.Named(l.named)
		} else {
			path, l.err = ortlib.Find()
		}
		if l.err == nil {
			l.err = ort.Init(path)
		}
	})
	return l.err
}

// loadFor loads the library if a model of the listing runs on it.
func (l *library) loadFor(listing modelrepo.Listing) error {
	for _, m := range listing.Models {
		if m.Manifest.Synth == nil && len(m.Selected) > 0 {
			return l.load()
		}
	}
	return nil
}
