package app

import (
	"sync"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/ort"
)

// library is the ONNX Runtime library. It is looked for when the first model needs it: synthetic models do not.
type library struct {
	named string // by the user; "" where it is to be found

	// A library that was loaded stays, and loading that failed is not tried again.
	once sync.Once
	err  error
}

// find returns the path of the library, which may be loaded in this process or in a worker. The error is one sentence
// that includes the remedy.
func (l *library) find() (string, error) {
	if l.named != "" {
		return ortlib.Named(l.named)
	}
	return ortlib.Find()
}

// load loads the library into this process, once.
func (l *library) load() error {
	l.once.Do(func() {
		var path string
		if path, l.err = l.find(); l.err == nil {
			l.err = ort.Init(path)
		}
	})
	return l.err
}

// check returns an error if a model of the listing runs on the library and it cannot be found. It does not load it.
func (l *library) check(listing modelrepo.Listing) error {
	for _, m := range listing.Models {
		if m.Manifest.Synth == nil && len(m.Selected) > 0 {
			_, err := l.find()
			return err
		}
	}
	return nil
}
