package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	_ "google.golang.org/grpc/health/grpc_health_v1" // for its messages, as below
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/hostile"
	"github.com/weftserve/weft/proto/gen/inference"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// batchSize is about how many executions a batch has, all on one connection.
const batchSize = 500

// batch is what one connection sends. All of it follows from its seed and its number.
type batch struct {
	number int64
	rng    *rand.Rand
	maker  hostile.Maker
	conn   *hostile.Conn
	admin  bool
	corpus [][]byte // encoded messages, for mutations
	sent   int64    // executions so far
	open   []uint32 // calls that were left open
}

var (
	// Where predictions are asked for nothing is loaded and unloaded, although it could be: the echo must stay.
	services = slices.DeleteFunc(hostile.Methods("weft.v1.PredictionService", "weft.v1.ModelService",
		"inference.GRPCInferenceService", "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService",
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"),
		func(m hostile.Method) bool { return strings.Contains(m.Path, "/RepositoryModel") })
	adminServices = hostile.Methods("weft.v1.AdminService", "weft.v1.ModelService", "inference.GRPCInferenceService")
)

// words are the strings that most fields have.
func (b *batch) words() []string {
	words := append([]string{
		"", "x", "a", "stable", "e1", "e2", "1", "weft.v1.PredictionService",
		"shared_memory_region", "shared_memory_byte_size", "shared_memory_offset", "classification", shared,
	}, others...)
	if b.admin {
		return words
	}
	return append(words, echoModel, echoModel)
}

// calm sends what must not end the connection, and returns when all whole calls were answered.
func (b *batch) calm() error {
	for b.sent < batchSize {
		var err error
		switch n := b.rng.IntN(100); {
		case n < 1 && !b.admin:
			err = b.whole(inference.GRPCInferenceService_SystemSharedMemoryRegister_FullMethodName, &sent{what: "shared memory"},
				hostile.Encode(&inference.SystemSharedMemoryRegisterRequest{Name: region, Key: shared, ByteSize: regionSize}))
		case n < 40 && !b.admin:
			err = b.predict()
		case n < 65:
			err = b.call()
		case n < 73:
			err = b.headers()
		case n < 80:
			err = b.abandon()
		default:
			b.frames()
		}
		if err != nil {
			return err
		}
	}
	for _, id := range b.open {
		b.conn.Frame(frameReset, 0, id, []byte{0, 0, 0, 8})
		b.sent++
	}
	if err := b.conn.Settle(); err != nil {
		return err
	}
	if end := b.conn.End(); end != "" {
		return fmt.Errorf("the server ended a connection that kept to the rules: %s", end)
	}
	return nil
}

// storm sends what may end the connection, and does not wait for answers.
func (b *batch) storm() {
	for range b.rng.IntN(16) {
		switch b.rng.IntN(4) {
		case 0: // any frame
			payload := make([]byte, b.rng.IntN(64))
			for i := range payload {
				payload[i] = byte(b.rng.Uint32())
			}
			b.conn.Frame(byte(b.rng.IntN(12)), byte(b.rng.Uint32()), uint32(b.rng.IntN(64)), payload)
		case 1: // a header block that is not what the tables of compression allow
			b.conn.Frame(frameHeaders, 4|byte(b.rng.IntN(2)), b.conn.Next(),
				hostile.Mutated(b.rng, []byte("\x83\x86\x44\x0a/weft.v1.P/P\x5f\x10application/grpc")))
		case 2: // a frame of a length that is not its own
			b.conn.Raw([]byte{
				byte(b.rng.IntN(3)), byte(b.rng.Uint32()), byte(b.rng.Uint32()), byte(b.rng.IntN(10)), byte(b.rng.Uint32()),
				0, 0, 0, byte(b.rng.IntN(9)),
			})
		case 3: // what breaks a rule of streams
			b.conn.Frame([]byte{frameWindow, frameContinuation, frameSettings, framePush}[b.rng.IntN(4)],
				byte(b.rng.IntN(8)), uint32(b.rng.IntN(8)), make([]byte, 4+2*b.rng.IntN(2)))
		}
		b.sent++
	}
	_ = b.conn.Flush() // the server may have ended the connection
}

// predict sends a request that is sound, nearly so, or was.
func (b *batch) predict() error {
	model := echoModel
	if b.rng.IntN(2) == 0 {
		model = others[b.rng.IntN(len(others))]
	}
	q, over := sound(b.rng, model), protocols[b.rng.IntN(len(protocols))]
	m := over.request(q)
	s := &sent{what: "a request for " + over.predict, over: over}
	mutated := false
	switch b.rng.IntN(4) {
	case 0:
		if model == echoModel && over.output != nil {
			s.exact = q
		}
	case 1, 2:
		b.maker.Tweak(m)
		s.what = "a tweaked request for " + over.predict
	case 3:
		mutated = true
		s.what = "a mutated request for " + over.predict
	}
	data := hostile.Encode(m)
	if mutated {
		data = hostile.Mutated(b.rng, data)
	}
	if b.rng.IntN(4) == 0 {
		return b.stream(m, data)
	}
	b.keep(data)
	return b.whole(over.predict, s, data)
}

// stream sends some requests on one stream.
func (b *batch) stream(m proto.Message, data []byte) error {
	path := weftv1.PredictionService_PredictStream_FullMethodName
	if _, is := m.(*inference.ModelInferRequest); is {
		path = inference.GRPCInferenceService_ModelStreamInfer_FullMethodName
	}
	id := b.begin(path)
	b.conn.Expect(id, &sent{what: "a stream of " + path})
	for i := range b.rng.IntN(6) {
		message, name := data, []string{"r", strconv.Itoa(i)}[b.rng.IntN(2)]
		switch q := proto.CloneOf(m).(type) {
		case *weftv1.PredictRequest:
			q.RequestId = name
			message = hostile.Encode(&weftv1.PredictStreamRequest{Request: q, Supersede: b.rng.IntN(4) == 0})
		case *inference.ModelInferRequest:
			q.Id = name
			message = hostile.Encode(q)
		}
		if b.rng.IntN(8) == 0 {
			message = data // for the first protocol it is no message of a stream
		}
		if err := b.conn.Message(id, message, false); err != nil {
			return err
		}
		b.sent++
	}
	return b.conn.Data(id, nil, true)
}

// call sends any message to any method.
func (b *batch) call() error {
	all := services
	if b.admin {
		all = adminServices
	}
	m := all[b.rng.IntN(len(all))]
	var data []byte
	switch b.rng.IntN(4) {
	case 0:
		data = hostile.Encode(b.maker.Message(m.Input))
		b.keep(data)
	case 1:
		data = hostile.Mutated(b.rng, hostile.Encode(b.maker.Message(m.Input)))
	default:
		if len(b.corpus) > 0 && !b.admin {
			data = b.corpus[b.rng.IntN(len(b.corpus))] // of whatever method
			if b.rng.IntN(2) == 0 {
				data = hostile.Mutated(b.rng, data)
			}
		}
	}
	if watches[m.Path] {
		id := b.begin(m.Path)
		b.open = append(b.open, id)
		b.sent++
		return b.conn.Message(id, data, false)
	}
	return b.whole(m.Path, &sent{what: m.Path}, data)
}

// watches are the calls that end with the connection only.
var watches = map[string]bool{
	"/grpc.health.v1.Health/Watch": true, "/weft.v1.ModelService/WatchActivity": true,
}

func (b *batch) keep(data []byte) {
	if len(data) < 4<<10 {
		b.corpus = append(b.corpus, data)
	}
}

// whole sends a call of one message.
func (b *batch) whole(path string, s *sent, data []byte) error {
	if b.rng.IntN(32) == 0 {
		return b.compressed(path, data)
	}
	id := b.begin(path)
	s.loose = b.admin // its time may be over before the answer
	b.conn.Expect(id, s)
	b.sent++
	if b.rng.IntN(32) == 0 { // its frame lies, or there is none
		framed := hostile.Mutated(b.rng, append([]byte{0, 0, 0, 0, byte(len(data))}, data...))
		s.exact = nil
		return b.conn.Data(id, framed, true)
	}
	return b.conn.Message(id, data, true)
}

// compressed sends a call of one message that is compressed, or is said to be, or becomes very large.
func (b *batch) compressed(path string, data []byte) error {
	if b.rng.IntN(32) == 0 {
		data = make([]byte, 20<<20) // more than a message may have
	}
	var packed bytes.Buffer
	packed.Write(make([]byte, 5))
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	framed := packed.Bytes()
	if b.rng.IntN(2) == 0 {
		framed = append(framed[:5:5], hostile.Mutated(b.rng, framed[5:])...)
	}
	framed[0] = 1
	binary.BigEndian.PutUint32(framed[1:], uint32(len(framed)-5))
	id := b.begin(path, "grpc-encoding", []string{"gzip", "gzip", "gzip", "identity"}[b.rng.IntN(4)])
	b.conn.Expect(id, &sent{what: "a compressed message for " + path, loose: b.admin})
	b.sent++
	return b.conn.Data(id, framed, true)
}

// begin opens a call with a header block that is in order.
func (b *batch) begin(path string, more ...string) uint32 {
	b.sent++
	fields := []string{
		":method", "POST", ":scheme", "http", ":path", path, ":authority", "weft", "content-type", "application/grpc",
		"te", "trailers",
	}
	if b.admin {
		fields = append(fields, "grpc-timeout", "500m")
	}
	if b.rng.IntN(16) == 0 {
		fields = append(fields, "authorization", "Bearer "+token)
	}
	return b.conn.Headers(false, append(fields, more...)...)
}

// abandon leaves a call before it is whole.
func (b *batch) abandon() error {
	id := b.begin(services[b.rng.IntN(len(services))].Path)
	if b.rng.IntN(2) == 0 {
		b.sent++
		if err := b.conn.Data(id, []byte{0, 0, 0, byte(b.rng.IntN(2)), byte(b.rng.Uint32()), 1, 2}, false); err != nil {
			return err
		}
	}
	if b.rng.IntN(3) > 0 {
		b.conn.Frame(frameReset, 0, id, []byte{0, 0, 0, byte(b.rng.IntN(14))})
		b.sent++
	} else {
		b.open = append(b.open, id)
	}
	return nil
}

var errEnded = errors.New("the server has ended")
