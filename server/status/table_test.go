package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/servertest/script"
	"github.com/weftserve/weft/sharedsched"
)

// trailers is a call that only remembers its trailer.
type trailers struct {
	grpc.ServerTransportStream
	md metadata.MD
}

func (tr *trailers) SetTrailer(md metadata.MD) error {
	tr.md = metadata.Join(tr.md, md)
	return nil
}

// TestTakenOutRetry: the caller is told when the version is loaded again.
func TestTakenOutRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if f := faultOf(&routing.TakenOutError{Model: "m", Again: time.Now().Add(90e9)}); f.retry != 90*time.Second {
			t.Errorf("after %v", f.retry)
		}
	})
}

// TestErrorTable holds every row of the error table: what callers are told is in testdata/errors.txt.
func TestErrorTable(t *testing.T) {
	at := predict.Place{Model: "policy", Version: 3, Slot: "prod"}
	table := routing.NewTable(&catalog.Snapshot{Models: catalog.ByName(&catalog.Model{
		Name: "policy",
		Versions: []*catalog.Version{
			{Model: "policy", Number: 1, State: catalog.Loading},
			{Model: "policy", Number: 2, State: catalog.Failed, Cause: "no such operator"},
		},
	})})
	resolve := func(model string, choice routing.Choice) error {
		_, err := table.Resolve(model, choice)
		return err
	}
	ended := func(cause error) error {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return context.Cause(ctx)
	}

	told := map[string]string{}
	for name, cause := range map[string]error{
		"bad request":    &tensor.FieldError{Field: `inputs["x"].raw`, Want: "16 bytes", Got: "3 bytes"},
		"unknown method": &UnknownMethodError{Method: "/weft.v1.PredictionService/Predikt\n"},
		"load failed": &catalog.LoadError{
			Model: "policy", Version: 3,
			Cause: &tensor.FieldError{Field: "x", Want: "a", Got: "b"},
		},
		"load failed for lack of memory": &catalog.LoadError{
			Model: "policy", Version: 3,
			Cause: &catalog.MemoryError{
				Model: "policy", Version: 3, Need: 3 << 20, InUse: 2 << 20,
				Budget: 4 << 20,
			},
		},
		"unknown model":   resolve("polcy", routing.Choice{}),
		"unknown version": resolve("policy", routing.Choice{Version: new(int64(7))}),
		"unknown label":   resolve("policy", routing.Choice{Label: new("pоlicy\n")}),
		"queue full": &sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, Queued: 1000,
			MaxQueue: 1000, RetryAfter: 250 * time.Millisecond,
		},
		"queue full, no idea for how long": &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 9, MaxQueue: 9},
		"queue full, room within a millisecond": &sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, Queued: 9, MaxQueue: 9,
			RetryAfter: time.Microsecond,
		},
		"queues full by bytes": &sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, Bytes: 20, QueuedBytes: 90,
			MaxQueuedBytes: 100,
		},
		"limit unattainable": &sharedsched.Refusal{
			Reason: sharedsched.RefusedDeadline, Predicted: 12345678 * time.Nanosecond,
			Limit: 5 * time.Millisecond,
		},
		"more than its share can do": &sharedsched.Refusal{
			Reason: sharedsched.RefusedForGoodput, Predicted: 300 * time.Millisecond,
			Limit: 120 * time.Millisecond, RetryAfter: 180 * time.Millisecond,
		},
		"sacrificed, no idea for how long": &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput},
		"queues full by bytes, and never room enough": &sharedsched.Refusal{
			Reason: sharedsched.RefusedQueueFull, Bytes: 200, MaxQueuedBytes: 100,
			RetryAfter: -1,
		},
		"sacrificed": &sharedsched.Refusal{
			Reason:     sharedsched.RefusedForGoodput,
			RetryAfter: 40 * time.Millisecond,
		},
		"too many rows":             fmt.Errorf("policy: %w", sharedsched.ErrTooManyRows),
		"limit passed in the queue": sharedsched.ErrExpired,
		"deadline of the call":      ended(context.DeadlineExceeded),
		"caller gone":               ended(nil),
		"superseded":                ended(predict.ErrSuperseded),
		"loading":                   resolve("policy", routing.Choice{Version: new(int64(1))}),
		"not ready any more":        fmt.Errorf("model: %w", catalog.ErrNotReady),
		"untried":                   fmt.Errorf("model: %w: no process", catalog.ErrUntried),
		"not open":                  fmt.Errorf("model: %w: no memory", catalog.ErrNotOpen),
		"unloading":                 sharedsched.ErrRemoved,
		"draining":                  sharedsched.ErrDraining,
		"closed":                    sharedsched.ErrClosed,
		"device lost":               &catalog.ModelError{Model: "policy", Version: 3, Err: catalog.ErrDeviceLost},
		"failed to load":            resolve("policy", routing.Choice{Version: new(int64(2))}),
		"elsewhere": &catalog.ElsewhereError{
			Model: "policy", Self: "weft-0", Replicas: []string{"weft-1", "weft-2"},
		},
		"on no replica": &catalog.ElsewhereError{Model: "policy", Self: "weft-0", Why: "it needs 9.0 MiB"},
		"taken out, and about to be loaded": &routing.TakenOutError{
			Model: "policy", Version: 4, Cause: "it was taken out: SIGFPE", Again: time.Now(),
		},
		"server full":      &predict.ServerFullError{Limit: 5},
		"too many viewers": &ViewersError{Limit: 5},
		"large bodies":     &CrowdedError{Most: 5},
		"many calls":       &protect.CrowdedError{},
		"refused unread": &protect.ThrottledError{
			Kind: protect.Kind{Model: "policy"}, Cause: &sharedsched.Refusal{
				Reason: sharedsched.RefusedDeadline, Predicted: 5 * time.Millisecond, Limit: 2 * time.Millisecond,
			},
		},
		"message too large":                   &MessageTooLargeError{Bytes: 2000, Limit: 1024},
		"message too large when decompressed": &MessageTooLargeError{Limit: 1024, Inflated: true},
		"broken message":                      &BrokenMessageError{Want: "weft.v1.PredictRequest", Why: "it ends within its header"},
		"an engine's words": &catalog.ModelError{
			Model: "policy", Version: 3,
			Err: errors.New("Add node: /onnxruntime_src/core/add.cc:12 sizes differ, see /tmp/weft/core.1"),
		},
		"a cause that callers are not told of": &catalog.LoadError{
			Model: "policy", Version: 3,
			Cause: &catalog.Hidden{Err: errors.New("weight: secret"), Text: "expected a weight"},
		},
		"a path that the request names": resolve("/etc/passwd", routing.Choice{}),
		"answer too large":              &AnswerTooLargeError{Bytes: 2000, Limit: 1024, Remedy: "ask for fewer outputs or rows"},
		"outputs too large":             &tensor.TooLargeError{Bytes: 2000, Most: 1024},
		"out of memory of the engine": &catalog.ModelError{
			Model: "policy", Version: 3,
			Err: fmt.Errorf("run: %w", &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("size 1000000000000")}),
		},
		"out of memory": &catalog.ModelError{
			Model: "policy", Version: 3, Crashed: true, Exceeded: 4096, Err: errors.New("it took more"),
		},
		"poisoned": &catalog.ModelError{Model: "policy", Version: 3, Err: errors.New("NaN")},
		"poisoned everywhere": &predict.InputError{
			Err: &catalog.ModelError{Model: "policy", Version: 3, Err: errors.New("NaN")}, Other: 2,
		},
		"crash": &catalog.ModelError{
			Model: "policy", Version: 3, Crashed: true, Signal: "SIGFPE", Err: errors.New("SIGFPE: a division"),
		},
		"hang": &catalog.ModelError{
			Model: "policy", Version: 3, Crashed: true, Err: errors.New("the run did not end"),
		},
		"panic":         predict.ErrPanic,
		"anything else": errors.New("surprise"),
	} {
		st := Of(cause, at)
		lines := []string{fmt.Sprintf("%v: %s", st.Code(), st.Message())}
		for _, d := range st.Details() {
			m := d.(proto.Message)
			lines = append(lines, string(m.ProtoReflect().Descriptor().Name())+" "+script.JSON(m))
		}
		explained := Explain(cause)
		if explained.Code != st.Code().String() {
			t.Errorf("%s: it is explained as %s", name, explained.Code)
		}
		if !strings.Contains(st.Message(), predict.Clip(explained.Text)) {
			t.Errorf("%s: the caller is told %q, and is said to be told %q", name, st.Message(), explained.Text)
		}
		call := &trailers{}
		ctx := grpc.NewContextWithServerTransportStream(t.Context(), call)
		if err := Fail(ctx, cause, at); err.Error() != st.Err().Error() {
			t.Errorf("%s: the call ends with %v", name, err)
		}
		for _, pushback := range call.md.Get("grpc-retry-pushback-ms") {
			lines = append(lines, "pushback "+pushback)
		}
		told[name] = strings.Join(lines, "\n")
	}
	script.Compare(t, "testdata/errors.txt", told)
}
