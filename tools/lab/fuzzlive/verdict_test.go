package main

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/hostile"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// TestJudgeFindsWhatIsWrong with an answer, and nothing where nothing is.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	q := sound(rand.New(rand.NewPCG(1, 1)), echoModel)
	answer := func(change func(*weftv1.Tensor)) []byte {
		y := proto.CloneOf(q.GetInputs()["x"])
		change(y)
		data, err := proto.Marshal(&weftv1.PredictResponse{Outputs: map[string]*weftv1.Tensor{"y": y}})
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
	}
	asked := sent{over: native, exact: q}
	right := answer(func(*weftv1.Tensor) {})
	wrong := answer(func(y *weftv1.Tensor) {
		if len(y.GetRaw()) > 0 {
			y.Raw[0] ^= 1
		} else {
			y.FloatValues[0]++
		}
	})
	for _, tt := range []struct {
		name, want string
		answer     hostile.Answer
		sent       sent
	}{
		{"an answer", "", hostile.Answer{Status: "0", Data: right}, asked},
		{"a wrong answer", "is wrong", hostile.Answer{Status: "0", Data: wrong}, asked},
		{"no message", "is wrong", hostile.Answer{Status: "0"}, asked},
		{"a full queue", "", hostile.Answer{Status: "8"}, asked},
		{"a sound request refused", "status 3 for a sound request", hostile.Answer{Status: "3"}, asked},
		{"an error", "", hostile.Answer{Status: "3", Message: "wrong%20shape"}, sent{}},
		{"internal", "INTERNAL: the server failed", hostile.Answer{Status: "13", Message: "the server failed"}, sent{}},
		{"a malformed header", "", hostile.Answer{Status: "13", Message: "malformed grpc-timeout: %22x%22"}, sent{}},
		{"no status", "without a status", hostile.Answer{Reset: "CANCEL"}, sent{}},
		{"a block of headers that is none", "", hostile.Answer{Reset: "PROTOCOL_ERROR"}, sent{loose: true}},
		{"a broken message", "not percent-encoded", hostile.Answer{Status: "3", Message: "%"}, sent{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.answer.Note = &tt.sent
			err := judge(&tt.answer)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want ...%s...", err, tt.want)
			}
		})
	}
}

// TestEchoOfBytesThatAreSpoilt: a number may have the bytes that stand for others where a message is encoded.
func TestEchoOfBytesThatAreSpoilt(t *testing.T) {
	q := &weftv1.PredictRequest{Inputs: map[string]*weftv1.Tensor{"x": {Raw: []byte("\xee\x80\x80\xbe")}}}
	var came weftv1.PredictRequest
	if err := proto.Unmarshal(hostile.Encode(q), &came); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&weftv1.PredictResponse{Outputs: map[string]*weftv1.Tensor{"y": came.GetInputs()["x"]}})
	if err != nil {
		t.Fatal(err)
	}
	if !native.echoed(q, append(make([]byte, 5), data...)) {
		t.Errorf("the echo of what came is wrong: %x", data)
	}
}

func TestGrownFindsLeaks(t *testing.T) {
	series := func(change func(i int, h *holdings)) (all []holdings) {
		for i := range 20 {
			h := holdings{goroutines: 30 + i%3, heap: 20*mebibyte + int64(i%4)*mebibyte, rss: 200 * mebibyte}
			change(i, &h)
			all = append(all, h)
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		leaks  bool
		change func(i int, h *holdings)
	}{
		{"steady", false, func(int, *holdings) {}},
		{"a peak in between", false, func(i int, h *holdings) { h.goroutines += 100 * (i % 2); h.heap *= int64(1 + i%2) }},
		{"goroutines", true, func(i int, h *holdings) { h.goroutines += i }},
		{"objects", true, func(i int, h *holdings) { h.objects += 1000 * int64(i) }},
		{"heap", true, func(i int, h *holdings) { h.heap += 3 * int64(i) * mebibyte }},
		{"memory outside of the heap", true, func(i int, h *holdings) { h.rss += 8 * int64(i) * mebibyte }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := grown(series(tt.change)); (err != nil) != tt.leaks {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestPiledFindsNames that were kept after the first quarter.
func TestPiledFindsNames(t *testing.T) {
	for _, tt := range []struct {
		name   string
		keeps  bool
		change func(i int, h *holdings)
	}{
		{"steady", false, func(i int, h *holdings) { h.lines += i % 3; h.objects += int64(i) * 100 }},
		{"at first", false, func(i int, h *holdings) { h.lines += min(i, 4) * 100; h.objects += int64(min(i, 4)) * 10000 }},
		{"series", true, func(i int, h *holdings) { h.lines += 2 * i }},
		{"objects", true, func(i int, h *holdings) { h.objects += int64(i) * 1000 }},
	} {
		var all []holdings
		for i := range 20 {
			h := holdings{lines: 950, objects: 30_000}
			tt.change(i, &h)
			all = append(all, h)
		}
		if err := piled(all); (err != nil) != tt.keeps {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestLogHasFaults where a line is no record, or one of what no caller may cause.
func TestLogHasFaults(t *testing.T) {
	for line, fault := range map[string]bool{
		`{"level":"WARN","event":"change_refused"}`: false,
		`{"level":"INFO","event":"ready"}`:          false,
		`{"level":"ERROR","event":"some_event"}`:    true,
		`{"level":"WARN","event":"worker_output"}`:  true,
		`{"level":"INFO"}`:                          true,
		"panic: runtime error":                      true,
		"goroutine 1 [running]:":                    true,
	} {
		s := &server{}
		s.take([]byte(line))
		if (s.fault() != nil) != fault {
			t.Errorf("%s: %v", line, s.fault())
		}
	}
}
