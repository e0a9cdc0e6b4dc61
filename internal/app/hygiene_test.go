package app

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/hostile"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
)

// logText keeps what loggers write.
type logText struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

// hygiene is a server with models in order and models that are not, and what it says.
type hygiene struct {
	*running
	text, json logText
	secrets    []string // what nobody but the operator may learn
	mu         sync.Mutex
	ended      int // guarded by mu; calls
}

func newHygiene(t *testing.T) *hygiene {
	t.Helper()
	repository := t.TempDir()
	put := func(path, content string) {
		path = filepath.Join(repository, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("policy/1/README", "")
	put("policy/2/README", "")
	put("policy/model.yaml", `{synth: {base: 10us, `+tensors+`}, versions: {policy: all}}`)
	put("broken/1/model.onnx", "no model")
	gather, err := sketch.Parse("i:i64[N]; Gather(f[1,2,3], i)")
	if err != nil {
		t.Fatal(err)
	}
	put("gather/1/model.onnx", string(gather.Graph.Marshal()))
	put("empty/1/README", "")
	put("wrong/1/model.onnx", "")
	put("wrong/model.yaml", "batching: {mode: secret_of_the_operator}\n")
	h := &hygiene{}
	var levels [2]slog.LevelVar
	to := slog.NewMultiHandler(
		newLogger(&h.text, &Settings{Server: config.Server{LogLevel: "debug", LogFormat: "text"}}, &levels[0]).Handler(),
		newLogger(&h.json, &Settings{Server: config.Server{LogLevel: "debug", LogFormat: "json"}}, &levels[1]).Handler())
	h.running = serveLogging(t, repository, nil, to)
	h.awaitReady(t)
	h.secrets = []string{
		repository, filepath.Dir(repository), "goroutine ", ".go:", "/proc/", "secret_of_the_operator",
		fmt.Sprintf("pid %d", os.Getpid()), fmt.Sprintf("pid=%d", os.Getpid()),
	}
	for _, secret := range []func() (string, error){os.Hostname, os.UserHomeDir, os.Getwd, os.Executable} {
		if s, err := secret(); err == nil && len(s) > 3 {
			h.secrets = append(h.secrets, s)
		}
	}
	return h
}

// answered checks what a caller learns.
func (h *hygiene) answered(t *testing.T, a *hostile.Answer) {
	h.mu.Lock()
	h.ended++
	h.mu.Unlock()
	message, err := url.PathUnescape(a.Message)
	if err != nil {
		t.Errorf("%v: message %q", a.Note, a.Message)
	}
	details, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(a.Details), "="))
	if err != nil {
		t.Errorf("%v: details %q", a.Note, a.Details)
	}
	all := message + "\n" + string(details) + "\n" + string(a.Data) + "\n" + a.Header
	for _, secret := range h.secrets {
		if strings.Contains(all, secret) {
			t.Errorf("%v: the answer has %q: %.300q", a.Note, secret, all)
		}
	}
	ours := !strings.HasPrefix(message, "invalid gRPC request content-type") &&
		!strings.HasPrefix(message, "malformed ") &&
		!strings.HasPrefix(message, "Received a HEADERS frame") && !strings.HasPrefix(message, "grpc: Decompressor is not")
	if ours && len(message) > predict.MaxText {
		t.Errorf("%v: a message of %d bytes: %.100q...", a.Note, len(message), message)
	}
	if a.Status == "13" && ours {
		t.Errorf("%v: INTERNAL: %.300q", a.Note, message)
	}
}

// send sends calls made by a function on one connection after another, and returns when they have ended.
func (h *hygiene) send(t *testing.T, address string, n int, call func(*hostile.Conn, int) error) {
	t.Helper()
	const each = 100
	for i := 0; i < n; {
		c, err := hostile.Dial(t.Context(), address, weftest.Patience, func(a *hostile.Answer) { h.answered(t, a) })
		if err != nil {
			t.Fatal(err)
		}
		for range min(each, n-i) {
			err := call(c, i)
			i++
			if err != nil { // the server has ended the connection, as it does for headers that are far too large
				t.Logf("call %d: %v", i, err)
				break
			}
		}
		if err := c.Settle(); err != nil {
			t.Error(err)
		}
		c.Close()
		for _, secret := range h.secrets {
			if strings.Contains(c.GoAway(), secret) {
				t.Errorf("the end of the connection has %q: %q", secret, c.GoAway())
			}
		}
	}
}

const gRPC = "application/grpc"

// nastyCalls sends each text field of each message with nasty strings, and random messages.
func (h *hygiene) nastyCalls(t *testing.T, rng *rand.Rand, address string, methods []hostile.Method) {
	k := hostile.Maker{
		RNG: rng, Words: []string{"policy", "broken", "x", "y", "stable", "e1", "", "1", "weft.v1.ModelService"}, Nasty: 0.5,
	}
	for _, m := range methods {
		texts := hostile.Texts(m.Input)
		note := func(i int) string { return fmt.Sprintf("%s #%d", m.Path, i) }
		h.send(t, address, 3*len(texts)+40, func(c *hostile.Conn, i int) error {
			message := k.Message(m.Input)
			if i < 3*len(texts) {
				d := dynamicpb.NewMessage(m.Input)
				if name := m.Input.Fields().ByName("model"); name != nil && name.Message() == nil {
					hostile.Around(d, texts[0], "policy")
				}
				hostile.Around(d, texts[i/3], hostile.Text(rng))
				message = d
			}
			id := c.Headers(false, ":method", "POST", ":scheme", "http", ":path", m.Path, ":authority", "weft",
				"content-type", gRPC, "te", "trailers", "grpc-timeout", "2S")
			c.Expect(id, note(i))
			return c.Message(id, hostile.Encode(message), true)
		})
	}
}

// headerNames are those whose values a caller chooses.
var headerNames = []string{
	":path", ":authority", ":method", ":scheme", "content-type", "user-agent", "grpc-timeout", "grpc-encoding",
	"grpc-accept-encoding", "te", "x-nasty", "x-nasty-bin", "host", "traceparent", "baggage", "grpc-trace-bin",
}

// nastyHeaders sends calls with nasty values of each header field.
func (h *hygiene) nastyHeaders(t *testing.T, rng *rand.Rand, address, method string, n int) {
	h.send(t, address, n, func(c *hostile.Conn, i int) error {
		fields := []string{
			":method", "POST", ":scheme", "http", ":path", method, ":authority", "weft", "content-type", gRPC,
			"te", "trailers", "grpc-timeout", "2S",
		}
		name, value := headerNames[i%len(headerNames)], string(hostile.Spoil([]byte(hostile.Text(rng))))
		switch {
		case name == ":path" && rng.IntN(4) > 0:
			value = "/" + value + "/" + value
			if rng.IntN(3) == 0 {
				value = method + value
			}
		case rng.IntN(2) == 0: // of the octets that HTTP allows, so that it gets further
			value = strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, value)
		}
		if name == "content-type" && rng.IntN(2) == 0 {
			value = gRPC + "+" + value
		}
		is := false
		for j := 0; j < len(fields); j += 2 {
			if fields[j] == name {
				fields[j+1], is = value, true
			}
		}
		if !is {
			fields = append(fields, name, value)
		}
		id := c.Headers(false, fields...)
		c.Expect(id, fmt.Sprintf("%s: %.80q", name, value))
		return c.Message(id, nil, true)
	})
}

// TestCallersLearnNothingOfTheMachine and leave nothing in the log and in the metrics that is not safe to look at,
// whatever they send.
func TestCallersLearnNothingOfTheMachine(t *testing.T) {
	h := newHygiene(t)
	predictions := hostile.Methods("weft.v1.PredictionService", "weft.v1.ModelService", "grpc.health.v1.Health",
		"grpc.reflection.v1.ServerReflection")
	rng := rand.New(rand.NewPCG(0, 0)) // make fuzz-live has other seeds
	h.nastyCalls(t, rng, h.conn.Target()[len("passthrough:"):], withoutWatch(predictions))
	h.nastyCalls(t, rng, h.admin.Target()[len("passthrough:"):], hostile.Methods("weft.v1.AdminService"))
	for _, target := range []string{h.conn.Target(), h.admin.Target()} {
		h.nastyHeaders(t, rng, target[len("passthrough:"):], "/weft.v1.ModelService/ListModels", 400)
	}
	h.wantCleanLog(t)
	h.wantCleanMetrics(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("%d calls ended, %d lines of log", h.ended, len(h.text.lines()))
}

// TestErrorsOfTheEngineTellNothingOfTheMachine, but what is wrong with the request.
func TestErrorsOfTheEngineTellNothingOfTheMachine(t *testing.T) {
	h := newHygiene(t)
	_, err := weftv1.NewPredictionServiceClient(h.conn).Predict(t.Context(), &weftv1.PredictRequest{
		Model: &weftv1.ModelSpec{Name: "gather"},
		Inputs: map[string]*weftv1.Tensor{
			"i": {Dtype: weftv1.DataType_DATA_TYPE_INT64, Shape: []int64{1}, Int64Values: []int64{99}},
		},
	})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "out of data bounds") {
		t.Errorf("%v, want INTERNAL with what the engine said", err)
	}
	for _, secret := range append(h.secrets, ".cc", "onnxruntime/", "/work", "/home") {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error has %q: %v", secret, err)
		}
	}
}

// withoutWatch leaves out the call that ends with its connection only.
func withoutWatch(all []hostile.Method) (out []hostile.Method) {
	for _, m := range all {
		if !strings.HasSuffix(m.Path, "/Watch") {
			out = append(out, m)
		}
	}
	return out
}

var textLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=("[a-zA-Z ,]+"|\w+) event=[a-z_]+( |$)`)

// wantCleanLog wants each line to be the record of one event, of printable characters only.
func (h *hygiene) wantCleanLog(t *testing.T) {
	t.Helper()
	for format, log := range map[string]*logText{"text": &h.text, "json": &h.json} {
		for _, line := range log.lines() {
			var record struct{ Time, Level, Msg, Event string }
			switch {
			case format == "json" && (json.Unmarshal([]byte(line), &record) != nil || record.Event == ""),
				format == "text" && !textLine.MatchString(line):
				t.Errorf("%s: no record: %.200q", format, line)
			case strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }):
				t.Errorf("%s: not printable: %.300q", format, line)
			case len(line) > 32<<10:
				t.Errorf("%s: a line of %d bytes: %.200q...", format, len(line), line)
			}
		}
	}
}

var (
	seriesOf = regexp.MustCompile(`(?m)^weft_\w+\{(.*)\} \S+$`)
	labelOf  = regexp.MustCompile(`(\w+)="([^"]*)"`)
	valueOf  = regexp.MustCompile(`^([A-Za-z0-9_.:+/-]*|\(devel\))$`) // (devel) is the version of a test
)

// wantCleanMetrics wants no label to come from a caller.
func (h *hygiene) wantCleanMetrics(t *testing.T) {
	t.Helper()
	_, page := h.get(t, "/metrics")
	all := seriesOf.FindAllStringSubmatch(page, -1)
	if len(all) == 0 || len(all) > 1000 {
		t.Errorf("%d series", len(all))
	}
	for _, series := range all {
		if rest := labelOf.ReplaceAllString(series[1], ""); strings.Trim(rest, ",") != "" {
			t.Errorf("labels %q", series[1])
		}
		for _, label := range labelOf.FindAllStringSubmatch(series[1], -1) {
			known := label[1] != "model" || label[2] == "" || label[2] == "policy" || label[2] == "broken" ||
				label[2] == "empty" || label[2] == "wrong" || label[2] == "gather"
			if !known || !valueOf.MatchString(label[2]) {
				t.Errorf("the label %s=%q: %q", label[1], label[2], series[0])
			}
		}
	}
}
