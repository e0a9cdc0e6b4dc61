package openinference_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/inference"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
)

// sharing is a house with shared memory of 20,000 bytes, which is registered as "r".
type sharing struct {
	*servertest.House

	admin  inference.GRPCInferenceServiceClient
	key    string
	memory *os.File
}

func newSharing(t *testing.T, c server.Config) *sharing {
	t.Helper()
	if c.SharedMemory == 0 {
		c.SharedMemory = 1 << 30
	}
	h := &sharing{House: servertest.New(t, c)}
	h.key, h.memory = servertest.SharedMemory(t, 20_000)
	h.admin = adminOf(t, h.House)
	h.register(t, "r", 0, 20_000)
	t.Cleanup(func() {
		_, err := h.admin.SystemSharedMemoryUnregister(context.Background(), &inference.SystemSharedMemoryUnregisterRequest{})
		if err != nil {
			t.Error(err)
		}
	})
	return h
}

// adminOf returns a client of the admin listener.
func adminOf(t *testing.T, h *servertest.House) inference.GRPCInferenceServiceClient {
	t.Helper()
	a := server.NewAdmin(h.Server, nil)
	g := grpc.NewServer(h.AdminOptions(a)...)
	a.Register(g)
	return inference.NewGRPCInferenceServiceClient(servertest.Dial(t, g))
}

func (h *sharing) register(t *testing.T, name string, offset, size uint64) {
	t.Helper()
	_, err := h.admin.SystemSharedMemoryRegister(t.Context(), &inference.SystemSharedMemoryRegisterRequest{
		Name: name, Key: h.key, Offset: offset, ByteSize: size,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (h *sharing) put(t *testing.T, at int64, data []byte) {
	t.Helper()
	if _, err := h.memory.WriteAt(data, at); err != nil {
		t.Fatal(err)
	}
}

func (h *sharing) at(t *testing.T, at int64, n int) []byte {
	t.Helper()
	data := make([]byte, n)
	if _, err := h.memory.ReadAt(data, at); err != nil {
		t.Fatal(err)
	}
	return data
}

// lies returns the parameters of a tensor in a region.
func lies(name any, offset, size any) map[string]*inference.InferParameter {
	return map[string]*inference.InferParameter{
		"shared_memory_region": parameter(name), "shared_memory_offset": parameter(offset),
		"shared_memory_byte_size": parameter(size),
	}
}

// shared is observation with its input in region "r", from byte 16 on.
func shared(rows int) *inference.ModelInferRequest {
	q := observation("", rows)
	q.RawInputContents = nil
	q.Inputs[0].Parameters = lies("r", 16, 16*rows)
	return q
}

func requested(name string, parameters map[string]*inference.InferParameter,
) *inference.ModelInferRequest_InferRequestedOutputTensor {
	return &inference.ModelInferRequest_InferRequestedOutputTensor{Name: name, Parameters: parameters}
}

// TestShared: inputs and outputs in a region, on calls and on streams; the answer says where outputs lie, and has the
// others.
func TestShared(t *testing.T) {
	h := newSharing(t, server.Config{})
	many := servertest.PolicySnapshot()
	many.Model("policy").Versions[1].Batching.MaxRequestRows = 0
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		err := servertest.RunPolicy(ctx, call)
		for i := range call.Results {
			room := *call.Memory.Get(len(call.Results[i].Data))
			copy(room, call.Results[i].Data)
			call.Results[i].Data = room
		}
		return err
	}
	h.Current.Store(many)
	stream, err := clientOf(h.House).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{3, 500} { // the memory of small ones is not recycled
		h.put(t, 16, bytes.Repeat(floats(1, 2, 3, 4), rows))
		q := shared(rows)
		q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{
			requested("value", nil), requested("action", lies("r", 10_000, 5000)),
		}
		want := &inference.ModelInferResponse{
			ModelName: "policy", ModelVersion: "2",
			Parameters: map[string]*inference.InferParameter{
				"slot": parameter("prod"), "table": parameter("53801e6bc13d8976"),
			},
			Outputs: []*inference.ModelInferResponse_InferOutputTensor{
				{Name: "value", Datatype: "FP32", Shape: []int64{int64(rows)}},
				{Name: "action", Datatype: "FP32", Shape: []int64{int64(rows), 2}, Parameters: lies("r", 10_000, 8*rows)},
			},
			RawOutputContents: [][]byte{bytes.Repeat(floats(10), rows), {}},
		}
		check := func(got *inference.ModelInferResponse, err error) {
			t.Helper()
			if err != nil || !proto.Equal(got, want) {
				t.Errorf("%v, %v\nwant %v", got, err, want)
			}
			wrote := slices.Concat(bytes.Repeat(floats(1, 2), rows), make([]byte, 5000-8*rows))
			if in := h.at(t, 10_000, 5000); !bytes.Equal(in, wrote) {
				t.Errorf("in the region are %v, want %v", in, wrote)
			}
			h.put(t, 10_000, make([]byte, 5000))
		}
		check(clientOf(h.House).ModelInfer(t.Context(), q))
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		check(answer.GetInferResponse(), err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	h.GRPC.GracefulStop()
	h.Memory.WantAll()
}

// TestSharedBesideRaw: raw entries belong to the inputs that are not in a region.
func TestSharedBesideRaw(t *testing.T) {
	h := newSharing(t, server.Config{})
	v := servertest.PolicyVersion(1, catalog.Ready)
	spec := func(name string) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.Int8, Shape: tensor.Shape{1}, BatchDim: tensor.NoBatch}
	}
	v.Signature = &tensor.Signature{
		Inputs: []tensor.Spec{spec("a"), spec("b"), spec("c")}, Outputs: []tensor.Spec{spec("y")},
	}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	about, err := clientOf(h.House).ServerMetadata(t.Context(), &inference.ServerMetadataRequest{})
	if err != nil || !slices.Contains(about.GetExtensions(), "system_shared_memory") {
		t.Errorf("the server: %v, %v", about, err)
	}
	var got []byte
	h.Run = func(_ context.Context, call *catalog.Call) error {
		got = nil
		for i := range call.Inputs {
			in := call.Inputs[i].Clone()
			got = append(got, in.Data...)
		}
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	h.put(t, 7, []byte("S"))
	input := func(name string) *inference.ModelInferRequest_InferInputTensor {
		return &inference.ModelInferRequest_InferInputTensor{Name: name, Datatype: "INT8", Shape: []int64{1}}
	}
	q := &inference.ModelInferRequest{
		ModelName: "policy", Inputs: []*inference.ModelInferRequest_InferInputTensor{input("a"), input("b"), input("c")},
		RawInputContents: [][]byte{[]byte("1"), []byte("2")},
	}
	for shared, want := range []string{"S12", "1S2", "12S"} {
		for i, in := range q.GetInputs() {
			if in.Parameters = nil; i == shared {
				in.Parameters = lies("r", 7, 1)
			}
		}
		if _, err := clientOf(h.House).ModelInfer(t.Context(), q); err != nil || string(got) != want {
			t.Errorf("input %d in the region: %q, %v, want %q", shared, got, err, want)
		}
	}
}

// TestSharedRefused: each bound, by its code, with the tensor and what it is about; nothing is executed.
func TestSharedRefused(t *testing.T) {
	h := newSharing(t, server.Config{MaxMessageBytes: 16 << 10})
	h.register(t, "small", 0, 40)
	h.Run = func(context.Context, *catalog.Call) error {
		t.Error("it was executed")
		return servertest.ErrBoom
	}
	const in, out = `inputs["observation"]`, `outputs["action"]`
	input := func(parameters map[string]*inference.InferParameter) func(*inference.ModelInferRequest) {
		return func(q *inference.ModelInferRequest) { q.Inputs[0].Parameters = parameters }
	}
	output := func(parameters map[string]*inference.InferParameter) func(*inference.ModelInferRequest) {
		return func(q *inference.ModelInferRequest) {
			q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{requested("action", parameters)}
		}
	}
	without := func(key string) map[string]*inference.InferParameter {
		p := lies("r", 0, 16)
		delete(p, "shared_memory_"+key)
		return p
	}
	for name, c := range map[string]struct {
		change func(*inference.ModelInferRequest)
		code   codes.Code
		says   string
	}{
		"an unknown region": {
			input(lies("x", 0, 16)), codes.NotFound, in + `.parameters["shared_memory_region"]: no region of shared memory is named "x"`,
		},
		"no region":         {input(without("region")), codes.InvalidArgument, in + ".parameters: expected both shared_memory_region and"},
		"no size":           {input(without("byte_size")), codes.InvalidArgument, in + ".parameters: expected both"},
		"an empty region":   {input(lies("", 0, 16)), codes.InvalidArgument, in + `.parameters["shared_memory_region"]: expected the name`},
		"a number as name":  {input(lies(1, 0, 16)), codes.InvalidArgument, in + `.parameters["shared_memory_region"]: expected the name`},
		"a text as size":    {input(lies("r", 0, "16")), codes.InvalidArgument, in + `.parameters["shared_memory_byte_size"]`},
		"a negative size":   {input(lies("r", 0, -1)), codes.InvalidArgument, in + `.parameters["shared_memory_byte_size"]: expected a number`},
		"a negative offset": {input(lies("r", -1, 16)), codes.InvalidArgument, in + `.parameters["shared_memory_offset"]: expected a number`},
		"an unknown key": {
			input(map[string]*inference.InferParameter{"shared_memory_x": parameter(1)}), codes.InvalidArgument,
			in + `.parameters["shared_memory_x"]: expected shared_memory_region, _byte_size or _offset`,
		},
		"past the end": {
			input(lies("r", 19_985, 16)), codes.InvalidArgument,
			in + `.parameters["shared_memory_byte_size"]: expected with the offset at most the 20000 bytes of region "r", got 16 bytes at offset 19985`,
		},
		"an offset that overflows": {
			input(lies("r", uint64(math.MaxUint64-7), 16)), codes.InvalidArgument, "16 bytes at offset 18446744073709551608",
		},
		"the largest offset": {input(lies("r", math.MaxInt64, 16)), codes.InvalidArgument, "16 bytes at offset 9223372036854775807"},
		"too few bytes": {
			input(lies("r", 0, 15)), codes.InvalidArgument,
			in + `.parameters["shared_memory_byte_size"]: expected 16 (shape [1,4] of fp32), got 15`,
		},
		"too many bytes": {input(lies("r", 0, 17)), codes.InvalidArgument, "expected 16 (shape [1,4] of fp32), got 17"},
		"another shape": {
			func(q *inference.ModelInferRequest) { q.Inputs[0].Shape = []int64{4} }, codes.InvalidArgument, in + ".shape",
		},
		"contents too": {
			func(q *inference.ModelInferRequest) {
				q.Inputs[0].Contents = &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}}
			}, codes.InvalidArgument, in + ": expected no contents beside shared_memory_region",
		},
		"a raw entry too": {
			func(q *inference.ModelInferRequest) { q.RawInputContents = [][]byte{floats(1, 2, 3, 4)} },
			codes.InvalidArgument, "raw_input_contents: expected an entry for each of 0 inputs, got 1 entries",
		},
		"an output in an unknown region": {output(lies("x", 0, 8)), codes.NotFound, out + `.parameters["shared_memory_region"]`},
		"an output past the end":         {output(lies("r", 19_993, 8)), codes.InvalidArgument, out + `.parameters["shared_memory_byte_size"]`},
		"an output of no size":           {output(without("byte_size")), codes.InvalidArgument, out + ".parameters: expected both"},
		"classes in a region": {
			func(q *inference.ModelInferRequest) {
				parameters := lies("r", 0, 8)
				parameters["classification"] = parameter(1)
				output(parameters)(q)
			}, codes.InvalidArgument, out + ".parameters: expected either classification or shared_memory_region, got both",
		},
		"too little space": {
			output(lies("small", 0, 7)), codes.InvalidArgument,
			out + `.parameters["shared_memory_byte_size"]: expected at least the 8 bytes that the output takes, got 7`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := shared(1)
			c.change(q)
			_, err := clientOf(h.House).ModelInfer(t.Context(), q)
			servertest.WantCode(t, err, c.code, c.says)
		})
	}
	large, memory := servertest.SharedMemory(t, 1<<40) // nothing of it is written
	_ = memory
	_, err := h.admin.SystemSharedMemoryRegister(t.Context(), &inference.SystemSharedMemoryRegisterRequest{
		Name: "large", Key: large, ByteSize: 1 << 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{16 << 10, 1 << 40} {
		q := shared(1)
		q.Inputs[0].Parameters = lies("large", 0, size)
		_, err = clientOf(h.House).ModelInfer(t.Context(), q)
		servertest.WantCode(t, err, codes.ResourceExhausted, "the message with its inputs in shared memory takes")
	}
	h.put(t, 16, floats(1, 2, 3, 4))
	if err := h.memory.Truncate(31); err != nil {
		t.Fatal(err)
	}
	_, err = clientOf(h.House).ModelInfer(t.Context(), shared(1))
	servertest.WantCode(t, err, codes.InvalidArgument,
		in+`: expected 16 bytes at offset 16 of region "r", got 15 bytes: the shared memory is smaller`)
	h.GRPC.GracefulStop()
	h.Memory.WantAll()
}

// TestSharedTexts: texts in a region are framed as raw ones, and fill their part; answers may be too large for theirs.
func TestSharedTexts(t *testing.T) {
	h := newSharing(t, server.Config{})
	v := servertest.PolicyVersion(1, catalog.Ready)
	spec := tensor.Spec{Name: "x", DType: tensor.String, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}
	v.Signature = &tensor.Signature{Inputs: []tensor.Spec{spec}, Outputs: []tensor.Spec{spec}}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	ask := func(framed string, room int) error {
		h.put(t, 16, []byte(framed))
		q := shared(1)
		q.Inputs[0] = &inference.ModelInferRequest_InferInputTensor{
			Name: "x", Datatype: "BYTES", Shape: []int64{2}, Parameters: lies("r", 16, len(framed)),
		}
		q.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{requested("x", lies("r", 500, room))}
		_, err := clientOf(h.House).ModelInfer(t.Context(), q)
		return err
	}
	const two = "\x02\x00\x00\x00\xff\x00\x00\x00\x00\x00"
	if err := ask(two, len(two)); err != nil || string(h.at(t, 500, len(two))) != two {
		t.Errorf("%v, %q", err, h.at(t, 500, len(two)))
	}
	for framed, says := range map[string]string{
		two[:7]:                  "one that is cut short, at byte 6",
		two + "\x00\x00\x00\x00": "expected 2 texts (shape [2]), got 3 texts",
		"\xff\xff\xff\xffxxxx":   "one that is cut short, at byte 0",
		"":                       "expected 2 elements (shape [2]) in shared memory",
	} {
		servertest.WantCode(t, ask(framed, 10), codes.InvalidArgument, `inputs["x"]`)
		servertest.WantCode(t, ask(framed, 10), codes.InvalidArgument, says)
	}
	servertest.WantCode(t, ask(two, 9), codes.InvalidArgument,
		`outputs["x"].parameters["shared_memory_byte_size"]: expected at least the 10 bytes that the output takes, got 9`)
	if err := h.memory.Truncate(505); err != nil {
		t.Fatal(err)
	}
	servertest.WantCode(t, ask(two, 10), codes.InvalidArgument, `outputs["x"]: expected 10 bytes at offset 500 of region "r"`)
	h.GRPC.GracefulStop()
	h.Memory.WantAll()
}

// TestSharedBudget: what requests have read from regions is bounded over all of them.
func TestSharedBudget(t *testing.T) {
	h := newSharing(t, server.Config{SharedMemory: 40})
	inside, leave := make(chan bool), make(chan bool)
	h.Run = func(ctx context.Context, call *catalog.Call) error {
		inside <- true
		<-leave
		return servertest.RunPolicy(ctx, call)
	}
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := clientOf(h.House).ModelInfer(context.Background(), shared(1))
			ended <- err
		}()
		<-inside
	}
	_, err := clientOf(h.House).ModelInfer(t.Context(), shared(1))
	servertest.WantCode(t, err, codes.ResourceExhausted, "32 of 40 bytes wait, and the request brings 16")
	for range 2 {
		leave <- true
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	go func() { <-inside; leave <- true }()
	if _, err := clientOf(h.House).ModelInfer(t.Context(), shared(1)); err != nil {
		t.Errorf("when the others have ended: %v", err)
	}
}

// TestSharedPanics: a request whose handler panics gives its part of that bound back.
func TestSharedPanics(t *testing.T) {
	h := newSharing(t, server.Config{SharedMemory: 20, MaxInFlightPerStream: 1})
	h.Run = func(context.Context, *catalog.Call) error { panic("boom") }
	stream, err := clientOf(h.House).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := clientOf(h.House).ModelInfer(t.Context(), shared(1))
		servertest.WantCode(t, err, codes.Internal, "")
	}
	for range 3 {
		if err := stream.Send(shared(1)); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || strings.Contains(answer.GetErrorMessage(), "bytes wait") {
			t.Errorf("%v, %v", answer, err)
		}
	}
}

// TestSharedMemoryCalls: what they answer on each listener, and where shared memory is off.
func TestSharedMemoryCalls(t *testing.T) {
	h := newSharing(t, server.Config{})
	client, ctx := clientOf(h.House), t.Context()
	register := func(by inference.GRPCInferenceServiceClient, name, key string) error {
		_, err := by.SystemSharedMemoryRegister(ctx, &inference.SystemSharedMemoryRegisterRequest{
			Name: name, Key: key, ByteSize: 1,
		})
		return err
	}
	err := register(client, "x", h.key)
	servertest.WantCode(t, err, codes.PermissionDenied, "--admin-listen")
	_, err = client.SystemSharedMemoryUnregister(ctx, &inference.SystemSharedMemoryUnregisterRequest{})
	servertest.WantCode(t, err, codes.PermissionDenied, "--admin-listen")
	err = register(h.admin, "r", h.key)
	servertest.WantCode(t, err, codes.AlreadyExists, `a region named "r"`)
	err = register(h.admin, "x", "/../x")
	servertest.WantCode(t, err, codes.InvalidArgument, "key: expected the key of POSIX shared memory")
	_, err = client.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{Name: "x"})
	servertest.WantCode(t, err, codes.NotFound, `named "x"`)
	all, err := client.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{})
	r := all.GetRegions()["r"]
	if err != nil || len(all.GetRegions()) != 1 || r.GetKey() != h.key || r.GetByteSize() != 20_000 {
		t.Errorf("registered are %v, %v", all, err)
	}
	_, err = h.admin.CudaSharedMemoryRegister(ctx, &inference.CudaSharedMemoryRegisterRequest{})
	servertest.WantCode(t, err, codes.Unimplemented, "register shared memory of the system")
	_, err = h.admin.SystemSharedMemoryUnregister(ctx, &inference.SystemSharedMemoryUnregisterRequest{Name: "r"})
	if err != nil {
		t.Error(err)
	}
	_, err = client.ModelInfer(ctx, shared(1))
	servertest.WantCode(t, err, codes.NotFound, `inputs["observation"].parameters["shared_memory_region"]`)

	off := servertest.New(t, server.Config{})
	err = register(adminOf(t, off), "r", h.key)
	servertest.WantCode(t, err, codes.Unimplemented, "--shared-memory")
	_, err = clientOf(off).ModelInfer(ctx, shared(1))
	servertest.WantCode(t, err, codes.Unimplemented, `inputs["observation"]: shared memory: this server does not have that; turn it on with --shared-memory`)
	if all, err := clientOf(off).SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{}); err != nil ||
		len(all.GetRegions()) != 0 {
		t.Errorf("registered are %v, %v", all, err)
	}
	_, err = clientOf(off).SystemSharedMemoryUnregister(ctx, &inference.SystemSharedMemoryUnregisterRequest{})
	if err != nil {
		t.Error(err)
	}
}

// TestSharedAccess: requests name regions only of callers who may register them; others do not learn which there are.
func TestSharedAccess(t *testing.T) {
	c := policyOf(map[string]access.Role{
		"pilot": {Predict: []string{"policy"}}, "robot": {Predict: []string{"policy"}, Operate: []string{"*"}},
		"watcher": {Observe: []string{"*"}},
	})
	for i := range c.Identities {
		c.Identities[i].Quota.Bytes = 400
	}
	control := servertest.NewControl(t, c)
	h := servertest.New(t, server.Config{Access: &control.Control, SharedMemory: 1000})
	key, memory := servertest.SharedMemory(t, 1000)
	as := func(name string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+servertest.Token(name))
	}
	client := clientOf(h)
	q := &inference.SystemSharedMemoryRegisterRequest{Name: "r", Key: key, ByteSize: 1000}
	for _, name := range []string{"pilot", "watcher"} {
		_, err := client.SystemSharedMemoryRegister(as(name), q)
		servertest.WantCode(t, err, codes.PermissionDenied, "operate")
	}
	if _, err := client.SystemSharedMemoryRegister(as("robot"), q); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]codes.Code{
		"pilot": codes.PermissionDenied, "robot": codes.OK, "watcher": codes.OK,
	} {
		_, err := client.SystemSharedMemoryStatus(as(name), &inference.SystemSharedMemoryStatusRequest{})
		servertest.WantCode(t, err, want, "")
	}
	if _, err := memory.WriteAt(floats(1, 2, 3, 4), 16); err != nil {
		t.Fatal(err)
	}
	absent := shared(1)
	absent.Inputs[0].Parameters = lies("x", 0, 16)
	inside := shared(1)
	inside.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{requested("action", lies("r", 500, 8))}
	elsewhere := observation("", 1)
	elsewhere.Outputs = inside.GetOutputs()
	large := shared(20) // 320 bytes, and a message of more than 80
	for _, q := range []*inference.ModelInferRequest{shared(1), absent, inside, elsewhere, large} {
		_, err := client.ModelInfer(as("pilot"), q)
		servertest.WantCode(t, err, codes.PermissionDenied, "identity pilot lacks permission operate")
	}
	if _, err := client.ModelInfer(as("robot"), inside); err != nil {
		t.Error(err)
	}
	for range 2 {
		_, err := client.ModelInfer(as("robot"), large)
		servertest.WantCode(t, err, codes.ResourceExhausted, "quota")
	}
	stream, err := client.ModelStreamInfer(as("robot"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows int
		says string
	}{{20, "quota"}, {1, ""}, {20, "quota"}, {1, ""}} {
		if err := stream.Send(shared(c.rows)); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if got := answer.GetErrorMessage(); err != nil || (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%d rows: %v, %v", c.rows, answer, err)
		}
	}
	body := fmt.Sprintf(`{"inputs": [{"name": "observation", "shape": [%d, 4], "datatype": "FP32", "parameters": `+
		`{"shared_memory_region": "r", "shared_memory_offset": 16, "shared_memory_byte_size": %d}}]}`, 20, 320)
	for name, want := range map[string]string{"pilot": "403", "robot": "413"} {
		got, _ := web(t, h, "POST", "/v2/models/policy/infer", body, "Authorization: Bearer "+servertest.Token(name))
		if !strings.HasPrefix(got, want) {
			t.Errorf("over HTTP as %s: %s", name, got)
		}
	}
}

// TestWebShared: regions over HTTP, as Triton's paths have them.
func TestWebShared(t *testing.T) {
	c := policyOf(map[string]access.Role{"robot": {Predict: []string{"*"}, Operate: []string{"*"}}})
	control := servertest.NewControl(t, c)
	h := servertest.New(t, server.Config{Access: &control.Control, SharedMemory: 1000})
	key, memory := servertest.SharedMemory(t, 1000)
	ask := func(method, path, body, want string) {
		t.Helper()
		got, _ := web(t, h, method, path, body, "Authorization: Bearer "+servertest.Token("robot"))
		if !strings.HasPrefix(strings.TrimSpace(got), want) {
			t.Errorf("%s %s: %s\nwant %s", method, path, got, want)
		}
	}
	const system, infer = "/v2/systemsharedmemory", "/v2/models/policy/infer"
	region := fmt.Sprintf(`{"key": %q, "offset": 0, "byte_size": 1000}`, key)
	ask("GET", system+"/status", "", "200 []")
	ask("POST", system+"/region/r/register", `{"key": "/", "byte_size": 1}`, `400 {"error":"key: expected`)
	ask("POST", system+"/region/r/register", `{"key": "/", "byte_size": -1}`, `400 {"error":"byte_size: expected a whole number that is not negative, got -1"}`)
	ask("POST", system+"/region/r/register", region, "200")
	ask("POST", system+"/region/r/register", region, "409 {")
	ask("POST", system+"/region/s/register", region, "200")
	ask("GET", system+"/region/r/status", "", fmt.Sprintf(`200 [{"byte_size":1000,"key":%q,"name":"r","offset":0}]`, key))
	ask("GET", system+"/region/x/status", "", `404 {`)
	ask("POST", system+"/region/s/unregister", "", "200")
	ask("GET", system+"/status", "", fmt.Sprintf(`200 [{"byte_size":1000,"key":%q,"name":"r","offset":0}]`, key))
	if _, err := memory.WriteAt(floats(1, 2, 3, 4), 16); err != nil {
		t.Fatal(err)
	}
	const lies = `"parameters": {"shared_memory_region": "r", "shared_memory_offset": 16, "shared_memory_byte_size": 16}`
	in := strings.Replace(row, `"data": [1, 2, 3, 4]`, lies, 1)
	ask("POST", infer, strings.TrimSuffix(in, "}")+`, "outputs": [{"name": "value"}, {"name": "action", "parameters": `+
		`{"binary_data": false, "shared_memory_region": "r", "shared_memory_byte_size": 10}}]}`,
		`200 {"model_name":"policy","model_version":"2","parameters":{"slot":"prod","table":"53801e6bc13d8976"},"outputs":[`+
			`{"name":"value","datatype":"FP32","shape":[1],"data":[10]},{"name":"action","datatype":"FP32","shape":[1,2],`+
			`"parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}}]}`)
	wrote := make([]byte, 10)
	if _, err := memory.ReadAt(wrote, 0); err != nil || !bytes.Equal(wrote[:8], floats(1, 2)) || wrote[8] != 0 {
		t.Errorf("in the region are %v, %v", wrote, err)
	}
	none := strings.Replace(strings.Replace(row, `[1, 2, 3, 4]`, `[]`, 1), `[1, 4]`, `[0, 4]`, 1)
	ask("POST", infer, strings.TrimSuffix(none, "}")+
		`, "outputs": [{"name": "value", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 10}}]}`,
		`200 {"model_name":"policy","model_version":"2","parameters":{"slot":"prod","table":"53801e6bc13d8976"},"outputs":[`+
			`{"name":"value","datatype":"FP32","shape":[0],"parameters":{"shared_memory_region":"r","shared_memory_byte_size":0}}]}`)
	ask("POST", infer, strings.Replace(row, `"data"`, lies+`, "data"`, 1),
		`400 {"error":"inputs[\"observation\"]: expected no data beside shared_memory_region`)
	ask("POST", infer, strings.Replace(in, `"r"`, `"x"`, 1), `404 {"error":"inputs[\"observation\"].parameters`)
	ask("POST", "/v2/cudasharedmemory/region/r/register", "{}", "501 {")
	ask("GET", "/v2/cudasharedmemory/status", "", "200 []")
	ask("POST", "/v2/cudasharedmemory/unregister", "", "200")
	ask("POST", system+"/unregister", "", "200")
	ask("GET", system+"/status", "", "200 []")
}
