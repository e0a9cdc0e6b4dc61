package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
)

func TestKindOf(t *testing.T) {
	cause := errors.New("the cause")
	lost := &engine.Error{Kind: engine.DeviceLost, Err: cause}
	for name, test := range map[string]struct {
		err  error
		want engine.Kind
	}{
		"nothing": {nil, engine.ModelFailed},
		"plain":   {cause, engine.ModelFailed},
		"lost":    {lost, engine.DeviceLost},
		"wrapped": {fmt.Errorf("a run: %w", lost), engine.DeviceLost},
		"closed":  {engine.ErrClosed, engine.Terminated},
		"batch memory": {
			fmt.Errorf("a panic: %w", &tensor.OutOfMemoryError{Bytes: 1, Err: cause}),
			engine.OutOfMemory,
		},
		"outermost wins": {&engine.Error{Kind: engine.OutOfMemory, Err: lost}, engine.OutOfMemory},
		"joined":         {errors.Join(cause, lost), engine.DeviceLost},
	} {
		if got := engine.KindOf(test.err); got != test.want {
			t.Errorf("%s: kind %d, want %d", name, got, test.want)
		}
	}
	if lost.Error() != cause.Error() || !errors.Is(lost, cause) {
		t.Errorf("%v hides its cause", lost)
	}
}
