package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/engine"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
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
		f := faultOf(&routing.TakenOutError{Model: "m", Version: 1, Again: time.Now().Add(90 * time.Second)})
		if f.retry != 90*time.Second {
			t.Errorf("after %v", f.retry)
		}
	})
}

// TestErrorTable holds every row of the error table.
func TestErrorTable(t *testing.T) {
	at := predict.Place{Model: "policy", Version: 3, Slot: "prod"}
	info := func(reason string, pairs ...string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Reason: reason, Domain: "weft", Metadata: placeMetadata(&at, pairs)}
	}
	retry := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	badRequest := func(field, description string) *errdetails.BadRequest {
		return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{
			Field:       field,
			Description: description,
		}}}
	}
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

	for _, tt := range []struct {
		name     string
		err      error
		code     codes.Code
		message  string
		details  []proto.Message
		pushback string
	}{
		{
			name: "bad request", err: &tensor.FieldError{Field: `inputs["x"].raw`, Want: "16 bytes", Got: "3 bytes"},
			code: codes.InvalidArgument, message: `inputs["x"].raw: expected 16 bytes, got 3 bytes`,
			details: []proto.Message{badRequest(`inputs["x"].raw`, "expected 16 bytes, got 3 bytes")},
		},
		{
			name: "unknown method", err: &UnknownMethodError{Method: "/weft.v1.PredictionService/Predikt\n"},
			code: codes.Unimplemented,
			message: `no method is called "weft.v1.PredictionService/Predikt\n" here; server reflection lists those that ` +
				"there are, and weft.v1.AdminService is on the address of --admin-listen",
		},
		{
			name: "load failed", err: &catalog.LoadError{
				Model: "policy", Version: 3,
				Cause: &tensor.FieldError{Field: "x", Want: "a", Got: "b"},
			},
			code: codes.FailedPrecondition, message: `load model "policy" version 3: x: expected a, got b`,
			details: []proto.Message{info("LOAD_FAILED")},
		},
		{
			name: "load failed for lack of memory",
			err: &catalog.LoadError{
				Model: "policy", Version: 3,
				Cause: &catalog.MemoryError{
					Model: "policy", Version: 3, Need: 3 << 20, InUse: 2 << 20,
					Budget: 4 << 20,
				},
			},
			code: codes.FailedPrecondition,
			message: `load model "policy" version 3: loading model "policy" version 3 needs about 3.0 MiB, and 2.0 MiB of the memory budget of 4.0 MiB are taken; ` +
				"raise the budget, unload a version, or, where an old version is to make room for a new one, set " +
				"versions.transition: resource in model.yaml",
			details: []proto.Message{info("MODEL_MEMORY", "need", "3145728", "in_use", "2097152", "budget", "4194304")},
		},
		{
			name: "unknown model", err: resolve("polcy", routing.Choice{}),
			code: codes.NotFound, message: `no model is named "polcy"; there is "policy"`,
			details: []proto.Message{&errdetails.ResourceInfo{
				ResourceType: "model", ResourceName: "polcy",
				Description: `no model is named "polcy"; there is "policy"`,
			}},
		},
		{
			name: "unknown version", err: resolve("policy", routing.Choice{Version: new(int64(7))}),
			code: codes.NotFound, message: `model "policy" has no version 7; there is 2 (failed), 1 (loading) (versions.policy in model.yaml, and who loads and unloads by hand, decide which are served)`,
			details: []proto.Message{&errdetails.ResourceInfo{
				ResourceType: "version", ResourceName: "7", Owner: "policy",
				Description: `model "policy" has no version 7; there is 2 (failed), 1 (loading) (versions.policy in model.yaml, and who loads and unloads by hand, decide which are served)`,
			}},
		},
		{
			name: "unknown label", err: resolve("policy", routing.Choice{Label: new("pоlicy\n")}),
			code: codes.NotFound, message: `model "policy" has no label "p\u043elicy\n"; there is none`,
			details: []proto.Message{&errdetails.ResourceInfo{
				ResourceType: "label", ResourceName: `"p\u043elicy\n"`, Owner: "policy",
				Description: `model "policy" has no label "p\u043elicy\n"; there is none`,
			}},
		},
		{
			name: "queue full", err: &sharedsched.Refusal{
				Reason: sharedsched.RefusedQueueFull, Queued: 1000,
				MaxQueue: 1000, RetryAfter: 250 * time.Millisecond,
			},
			code:    codes.ResourceExhausted,
			message: `model "policy" version 3: the queue is full: 1000 of 1000 requests wait (batching.max_queue lets more wait)`,
			details: []proto.Message{
				info("QUEUE_FULL", "max_queue", "1000", "queued", "1000"),
				retry(250 * time.Millisecond),
			},
			pushback: "250",
		},
		{
			name:    "queue full, no idea for how long",
			err:     &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, Queued: 9, MaxQueue: 9},
			code:    codes.ResourceExhausted,
			message: `model "policy" version 3: the queue is full: 9 of 9 requests wait (batching.max_queue lets more wait)`,
			details: []proto.Message{
				info("QUEUE_FULL", "max_queue", "9", "queued", "9"),
				retry(100 * time.Millisecond),
			},
			pushback: "100",
		},
		{
			name: "queue full, room within a millisecond",
			err: &sharedsched.Refusal{
				Reason: sharedsched.RefusedQueueFull, Queued: 9, MaxQueue: 9,
				RetryAfter: time.Microsecond,
			},
			code:     codes.ResourceExhausted,
			message:  `model "policy" version 3: the queue is full: 9 of 9 requests wait (batching.max_queue lets more wait)`,
			details:  []proto.Message{info("QUEUE_FULL", "max_queue", "9", "queued", "9"), retry(time.Microsecond)},
			pushback: "1",
		},
		{
			name: "queues full by bytes",
			err: &sharedsched.Refusal{
				Reason: sharedsched.RefusedQueueFull, Bytes: 20, QueuedBytes: 90,
				MaxQueuedBytes: 100,
			},
			code:    codes.ResourceExhausted,
			message: `model "policy" version 3: the server's queues are full: 90 of 100 bytes wait, and the request brings 20 (--max-queued-bytes lets more wait)`,
			details: []proto.Message{
				info("QUEUE_FULL", "max_queued_bytes", "100", "queued_bytes", "90"),
				retry(100 * time.Millisecond),
			},
			pushback: "100",
		},
		{
			name: "limit unattainable",
			err: &sharedsched.Refusal{
				Reason: sharedsched.RefusedDeadline, Predicted: 12345678 * time.Nanosecond,
				Limit: 5 * time.Millisecond,
			},
			code:     codes.ResourceExhausted,
			message:  `model "policy" version 3: the deadline cannot be met: an answer takes about 12.345678ms, 5ms are left`,
			details:  []proto.Message{info("DEADLINE_UNATTAINABLE", "predicted_ms", "12.345", "limit_ms", "5")},
			pushback: "-1",
		},
		{
			name: "more than its share can do",
			err: &sharedsched.Refusal{
				Reason: sharedsched.RefusedForGoodput, Predicted: 300 * time.Millisecond,
				Limit: 120 * time.Millisecond, RetryAfter: 180 * time.Millisecond,
			},
			code:    codes.ResourceExhausted,
			message: `model "policy" version 3: the device is overloaded: within its share of it the model answers in about 300ms, of 120ms that are left`,
			details: []proto.Message{
				info("DROPPED_FOR_GOODPUT", "predicted_ms", "300", "limit_ms", "120"), retry(180 * time.Millisecond),
			},
			pushback: "180",
		},
		{
			name: "sacrificed, no idea for how long", err: &sharedsched.Refusal{Reason: sharedsched.RefusedForGoodput},
			code:     codes.ResourceExhausted,
			message:  `model "policy" version 3: dropped in overload so that other requests meet their deadlines`,
			details:  []proto.Message{info("DROPPED_FOR_GOODPUT"), retry(100 * time.Millisecond)},
			pushback: "100",
		},
		{
			name: "queues full by bytes, and never room enough",
			err: &sharedsched.Refusal{
				Reason: sharedsched.RefusedQueueFull, Bytes: 200, MaxQueuedBytes: 100,
				RetryAfter: -1,
			},
			code:     codes.ResourceExhausted,
			message:  `model "policy" version 3: the server's queues are full: 0 of 100 bytes wait, and the request brings 200 (--max-queued-bytes lets more wait)`,
			details:  []proto.Message{info("QUEUE_FULL", "max_queued_bytes", "100", "queued_bytes", "0")},
			pushback: "-1",
		},
		{
			name: "sacrificed", err: &sharedsched.Refusal{
				Reason:     sharedsched.RefusedForGoodput,
				RetryAfter: 40 * time.Millisecond,
			},
			code:     codes.ResourceExhausted,
			message:  `model "policy" version 3: dropped in overload so that other requests meet their deadlines`,
			details:  []proto.Message{info("DROPPED_FOR_GOODPUT"), retry(40 * time.Millisecond)},
			pushback: "40",
		},
		{
			name: "too many rows", err: fmt.Errorf("policy: %w", sharedsched.ErrTooManyRows),
			code: codes.InvalidArgument, message: "policy: more rows than the model takes in one request",
			details: []proto.Message{badRequest("inputs", "policy: more rows than the model takes in one request")},
		},
		{
			name: "limit passed in the queue", err: sharedsched.ErrExpired, code: codes.DeadlineExceeded,
			message: sharedsched.ErrExpired.Error(),
		},
		{
			name: "deadline of the call", err: ended(context.DeadlineExceeded), code: codes.DeadlineExceeded,
			message: "context deadline exceeded",
		},
		{name: "caller gone", err: ended(nil), code: codes.Canceled, message: "context canceled"},
		{
			name: "superseded", err: ended(predict.ErrSuperseded), code: codes.Aborted,
			message: predict.ErrSuperseded.Error(),
			details: []proto.Message{info("SUPERSEDED")},
		},
		{
			name: "loading", err: resolve("policy", routing.Choice{Version: new(int64(1))}),
			code: codes.Unavailable, message: `model "policy" version 1 is loading; try again`,
			details: []proto.Message{retry(time.Second)},
		},
		{
			name: "not ready any more", err: fmt.Errorf("model: %w", catalog.ErrNotReady),
			code: codes.Unavailable, message: "model: the model version is not ready",
			details: []proto.Message{retry(time.Second)},
		},
		{
			name: "untried", err: fmt.Errorf("model: %w: no process", catalog.ErrUntried),
			code: codes.Unavailable, message: "model: " + catalog.ErrUntried.Error() + ": no process",
			details: []proto.Message{retry(time.Second)},
		},
		{
			name: "not open", err: fmt.Errorf("model: %w: no memory", catalog.ErrNotOpen),
			code: codes.Unavailable, message: "model: " + catalog.ErrNotOpen.Error() + ": no memory",
			details: []proto.Message{retry(time.Second)},
		},
		{
			name: "unloading", err: sharedsched.ErrRemoved, code: codes.Unavailable,
			message: sharedsched.ErrRemoved.Error(), details: []proto.Message{retry(time.Second)},
		},
		{
			name: "draining", err: sharedsched.ErrDraining, code: codes.Unavailable,
			message: sharedsched.ErrDraining.Error(), details: []proto.Message{retry(time.Second)},
		},
		{
			name: "closed", err: sharedsched.ErrClosed, code: codes.Unavailable, message: sharedsched.ErrClosed.Error(),
			details: []proto.Message{retry(time.Second)},
		},
		{
			name: "device lost", err: &catalog.ModelError{Model: "policy", Version: 3, Err: catalog.ErrDeviceLost},
			code:    codes.Unavailable,
			message: `model "policy" version 3 failed on this input: ` + catalog.ErrDeviceLost.Error(),
			details: []proto.Message{retry(time.Second)},
		},
		{
			name: "failed to load", err: resolve("policy", routing.Choice{Version: new(int64(2))}),
			code: codes.FailedPrecondition, message: `model "policy" version 2 failed to load: no such operator`,
		},
		{
			name: "taken out, and about to be loaded", err: &routing.TakenOutError{
				Model: "policy", Version: 4, Cause: "it was taken out: SIGFPE", Again: time.Now(),
			},
			code: codes.Unavailable, message: `model "policy" version 4: it was taken out: SIGFPE`,
			details: []proto.Message{info("TAKEN_OUT"), retry(time.Second)},
		},
		{
			name: "server full", err: &predict.ServerFullError{Limit: 5},
			code: codes.ResourceExhausted, message: "the server has its maximum of 5 concurrent requests; try again, " +
				"or raise --max-concurrent-requests",
			details: []proto.Message{
				info("SERVER_FULL", "max_concurrent_requests", "5"),
				retry(100 * time.Millisecond),
			},
			pushback: "100",
		},
		{
			name: "too many viewers", err: &ViewersError{Limit: 5},
			code: codes.ResourceExhausted, message: "5 viewers watch this server, as many as may at once; close one, or try " +
				"again later",
			details: []proto.Message{info("TOO_MANY_VIEWERS"), retry(time.Second)},
		},
		{
			name: "refused unread", err: &protect.ThrottledError{
				Kind: protect.Kind{Model: "policy"}, Cause: &sharedsched.Refusal{
					Reason: sharedsched.RefusedDeadline, Predicted: 5 * time.Millisecond, Limit: 2 * time.Millisecond,
				},
			},
			code: codes.ResourceExhausted, message: "most of the latest requests like this connection's could " +
				"not be answered, and this one was refused unread (of the latest: the deadline cannot be met: an answer takes " +
				"about 5ms, 2ms are left)",
			details: []proto.Message{info("THROTTLED"), retry(100 * time.Millisecond)},
		},
		{
			name: "message too large", err: &MessageTooLargeError{Bytes: 2000, Limit: 1024},
			code: codes.ResourceExhausted, message: "the message takes 2000 bytes, of at most 1024; send fewer rows " +
				"at a time, or raise --max-message-bytes",
			details:  []proto.Message{info("MESSAGE_TOO_LARGE", "bytes", "2000", "max_message_bytes", "1024")},
			pushback: "-1",
		},
		{
			name: "message too large when decompressed", err: &MessageTooLargeError{Limit: 1024, Inflated: true},
			code: codes.ResourceExhausted,
			message: "the message takes more than 1024 bytes when it is decompressed, which is the most; send fewer " +
				"rows at a time, or raise --max-message-bytes",
			details: []proto.Message{info("MESSAGE_TOO_LARGE", "max_message_bytes", "1024")}, pushback: "-1",
		},
		{
			name: "broken message", err: &BrokenMessageError{
				Want: "weft.v1.PredictRequest",
				Why:  "it ends within its header",
			},
			code: codes.InvalidArgument,
			message: "the message is not a weft.v1.PredictRequest: it ends within its header; send what code " +
				"generated from this server's .proto files encodes",
		},
		{
			name: "an engine's words",
			err: &catalog.ModelError{
				Model: "policy", Version: 3,
				Err: errors.New("Add node: /onnxruntime_src/core/add.cc:12 sizes differ, see /tmp/weft/core.1"),
			},
			code: codes.Internal, message: `model "policy" version 3 failed on this input: Add node: sizes differ, see .../core.1`,
			details: []proto.Message{info("MODEL_FAILED")},
		},
		{
			name: "a cause that callers are not told of",
			err: &catalog.LoadError{
				Model: "policy", Version: 3,
				Cause: &catalog.Hidden{Err: errors.New("weight: secret"), Text: "expected a weight"},
			},
			code: codes.FailedPrecondition, message: `load model "policy" version 3: expected a weight`,
			details: []proto.Message{info("LOAD_FAILED")},
		},
		{
			name: "a path that the request names", err: resolve("/etc/passwd", routing.Choice{}),
			code: codes.NotFound, message: `no model is named "/etc/passwd"; there is "policy"`,
			details: []proto.Message{&errdetails.ResourceInfo{
				ResourceType: "model", ResourceName: "/etc/passwd",
				Description: `no model is named "/etc/passwd"; there is "policy"`,
			}},
		},
		{
			name: "answer too large",
			err:  &AnswerTooLargeError{Bytes: 2000, Limit: 1024, Remedy: "ask for fewer outputs or rows"},
			code: codes.ResourceExhausted, message: "the answer takes 2000 bytes, of at most 1024; ask for fewer " +
				"outputs or rows, or raise --max-message-bytes",
			details:  []proto.Message{info("ANSWER_TOO_LARGE", "bytes", "2000", "max_message_bytes", "1024")},
			pushback: "-1",
		},
		{
			name: "outputs too large",
			err:  &tensor.TooLargeError{Bytes: 2000, Most: 1024},
			code: codes.ResourceExhausted, message: "the outputs take 2000 bytes, of at most 1024; ask for fewer rows, or " +
				"raise --max-message-bytes",
			details:  []proto.Message{info("ANSWER_TOO_LARGE", "bytes", "2000", "max_message_bytes", "1024")},
			pushback: "-1",
		},
		{
			name: "out of memory of the engine", err: &catalog.ModelError{
				Model: "policy", Version: 3,
				Err: fmt.Errorf("run: %w", &engine.Error{Kind: engine.OutOfMemory, Err: errors.New("size 1000000000000")}),
			},
			code: codes.ResourceExhausted, message: `model "policy" version 3: there is not enough memory for this input: ` +
				`run: size 1000000000000; send an input for which the model needs less: fewer or smaller rows, or other values`,
			details:  []proto.Message{info("OUT_OF_MEMORY")},
			pushback: "-1",
		},
		{
			name: "out of memory",
			err: &catalog.ModelError{
				Model: "policy", Version: 3, Crashed: true, Exceeded: 4096, Err: errors.New("it took more"),
			},
			code: codes.ResourceExhausted, message: `model "policy" version 3: this input takes more memory than there is ` +
				`for it, also when it runs by itself: it took more; send an input for which the model needs less: fewer or smaller rows, or other ` +
				`values, or raise that`,
			details:  []proto.Message{info("OUT_OF_MEMORY", "memory_bytes", "4096")},
			pushback: "-1",
		},
		{
			name: "poisoned", err: &catalog.ModelError{Model: "policy", Version: 3, Err: errors.New("NaN")},
			code: codes.Internal, message: `model "policy" version 3 failed on this input: NaN`,
			details: []proto.Message{info("MODEL_FAILED")},
		},
		{
			name: "poisoned everywhere", err: &predict.InputError{
				Err: &catalog.ModelError{Model: "policy", Version: 3, Err: errors.New("NaN")}, Other: 2,
			},
			code: codes.InvalidArgument, message: `model "policy" version 3 failed on this input: NaN; version 2 of the model ` +
				`takes the same inputs and failed on it too, so that the input is what is wrong: send another one`,
			details: []proto.Message{info("INPUT_FAILED")},
		},
		{
			name: "crash", err: &catalog.ModelError{
				Model: "policy", Version: 3, Crashed: true, Signal: "SIGFPE", Err: errors.New("SIGFPE: a division"),
			},
			code: codes.Internal, message: `model "policy" version 3: this input crashes the model, or keeps it from ` +
				`ending, also when it runs by itself: SIGFPE: a division; do not send it again`,
			details: []proto.Message{info("ENGINE_CRASHED", "signal", "SIGFPE")},
		},
		{
			name: "hang", err: &catalog.ModelError{
				Model: "policy", Version: 3, Crashed: true, Err: errors.New("the run did not end"),
			},
			code: codes.Internal, message: `model "policy" version 3: this input crashes the model, or keeps it from ` +
				`ending, also when it runs by itself: the run did not end; do not send it again`,
			details: []proto.Message{info("ENGINE_CRASHED")},
		},
		{name: "panic", err: predict.ErrPanic, code: codes.Internal, message: predict.ErrPanic.Error()},
		{name: "anything else", err: errors.New("surprise"), code: codes.Internal, message: "surprise"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := Of(tt.err, at)
			if st.Code() != tt.code || st.Message() != tt.message {
				t.Errorf("%v: %s\nwant %v: %s", st.Code(), st.Message(), tt.code, tt.message)
			}
			var details []proto.Message
			for _, d := range st.Details() {
				details = append(details, d.(proto.Message))
			}
			if diff := cmp.Diff(tt.details, details, protocmp.Transform()); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			explained := Explain(tt.err)
			if explained.Code != tt.code.String() {
				t.Errorf("it is explained as %s", explained.Code)
			}
			if !strings.Contains(tt.message, predict.Clip(explained.Text)) {
				t.Errorf("the caller is told %q, and is said to be told %q", tt.message, explained.Text)
			}
			call := &trailers{}
			if err := Fail(grpc.NewContextWithServerTransportStream(t.Context(), call), tt.err,
				at); err.Error() != st.Err().Error() {
				t.Errorf("the call ends with %v", err)
			}
			if got := strings.Join(call.md.Get("grpc-retry-pushback-ms"), " "); got != tt.pushback {
				t.Errorf("pushback is %q, want %q", got, tt.pushback)
			}
		})
	}
}
