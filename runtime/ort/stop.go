package ort

/*
#include "capi.h"
*/
import "C"

import (
	"context"

	"github.com/weftserve/weft/runtime/engine"
)

// stopWith gives the run of a frame options of its own, so that it fails before its next operator once ctx has ended,
// or the session is closed. release must follow the run. The caller holds mu.
func (s *Session) stopWith(ctx context.Context, f *frame) (release func(), err error) {
	made := new(*C.OrtRunOptions)
	if err := s.take(C.weft_options_new(s.api, made)); err != nil {
		return nil, err
	}
	options := *made
	s.stopping.Lock()
	s.stoppable[options] = struct{}{}
	s.stopping.Unlock()
	f.options = options
	unwatch := context.AfterFunc(ctx, func() {
		s.stopping.Lock()
		defer s.stopping.Unlock()
		if _, running := s.stoppable[options]; running {
			C.weft_options_terminate(s.api, options)
		}
	})
	release = func() {
		unwatch()
		s.stopping.Lock()
		delete(s.stoppable, options)
		s.stopping.Unlock()
		f.options = nil
		C.weft_options_free(s.api, options)
	}
	if s.closed.Load() { // Close may have looked for runs to stop before this one was among them
		release()
		return nil, engine.ErrClosed
	}
	return release, nil
}
