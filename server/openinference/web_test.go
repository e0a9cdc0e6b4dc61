package openinference_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// web asks a server over HTTP; headers are "Key: value". It returns "CODE body", and the answer's headers.
func web(t *testing.T, h *servertest.House, method, path, body string, headers ...string) (string, http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for _, header := range headers {
		key, value, _ := strings.Cut(header, ": ")
		r.Header.Set(key, value)
	}
	w := httptest.NewRecorder()
	h.Web().ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String())), w.Header()
}

const row = `{"inputs": [{"name": "observation", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}`

// TestWebInfer: elements in JSON, nested or not, and as bytes; outputs likewise.
func TestWebInfer(t *testing.T) {
	h := servertest.New(t, server.Config{})
	const path = "/v2/models/policy/infer"
	const answer = `200 {"model_name":"policy","model_version":"2","id":"a",` +
		`"parameters":{"slot":"prod","table":"53801e6bc13d8976"},"outputs":[` +
		`{"name":"action","datatype":"FP32","shape":[1,2],"data":[1,2]},{"name":"value","datatype":"FP32","shape":[1],"data":[10]}]}`
	for _, data := range []string{"[1, 2, 3, 4]", "[[1, 2, 3, 4]]", "[[[1],[2]], [[3],[4]]]", "[1.0, 2e0, 3, 4]"} {
		body := strings.Replace(row, "[1, 2, 3, 4]", data, 1)
		if got, _ := web(t, h, "POST", path, strings.Replace(body, "{", `{"id": "a", `, 1)); got != answer {
			t.Errorf("%s: %s", data, got)
		}
	}
	head := `{"inputs": [{"name": "observation", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}],` +
		`"outputs": [{"name": "value", "parameters": {"binary_data": true}}, {"name": "action"}]}`
	got, whole := web(t, h, "POST", "/v2/models/policy/versions/1/infer", head+string(floats(1, 2, 3, 4)),
		"Inference-Header-Content-Length: "+strconv.Itoa(len(head)))
	n, err := strconv.Atoi(whole.Get("Inference-Header-Content-Length"))
	if err != nil || len(got) < 4+n || got[4+n:] != string(floats(10)) || !strings.Contains(got, `"binary_data_size":4`) ||
		!strings.Contains(got, `"data":[1,2]`) || !strings.Contains(got, `"model_version":"1"`) ||
		whole.Get("Content-Length") != strconv.Itoa(len(got)-len("200 ")) {
		t.Errorf("bytes: %q: %v", got, err)
	}
	for body, want := range map[string]string{
		"":        "400 {\"error\":\"the body: expected JSON as docs/reference/protocols.md has it, got the end of it at byte 0, where an object was expected",
		"{":       "400",
		"[]":      "400",
		`{"x`:     "400",
		`{}`:      `400 {"error":"inputs[\"observation\"]: expected a tensor of fp32`,
		"[[[[[":   "400",
		row + "x": `400 {"error":"the body: `,
		strings.Replace(row, "3, 4", "3", 1): `400 {"error":"inputs[\"observation\"].data: expected 4 elements ` +
			`(shape [1,4] of fp32), got 3 elements"}`,
		strings.Replace(row, "4]}", `"x"]}`, 1):                           `400 {"error":"inputs[\"observation\"].data[3]: expected an element of FP32, got a text \"x\""}`,
		strings.Replace(row, "4]}", "{}]}", 1):                            `400 {"error":"inputs[\"observation\"].data: expected a list of elements`,
		strings.Replace(row, "FP32", "FP99", 1):                           `400 {"error":"inputs[\"observation\"].datatype: expected FP32, got \"FP99\""}`,
		strings.Replace(row, "{", `{"parameters": {"priority": []}, `, 1): `400 {"error":"parameters[\"priority\"]: expected a bool, a number or a text, got a list"}`,
		strings.Replace(row, `, "data": [1, 2, 3, 4]`, "", 1): `400 {"error":"inputs[\"observation\"]: expected 4 elements ` +
			`(shape [1,4]) in parameters[\"binary_data_size\"] or data, got none"}`,
		strings.Replace(row, "[1, 4]", `"x"`, 1):                                           `400 {"error":"inputs[\"observation\"].shape: expected a list, got a text"}`,
		strings.Replace(row, `"shape"`, `"data"`, 1):                                       `400 {"error":"inputs[\"observation\"].data: expected each member once, got it again"}`,
		strings.Replace(row, `"observation"`, "7", 1):                                      `400 {"error":"inputs[0].name: expected a text, got a number"}`,
		strings.Replace(row, "[1, 2,", "[1, \x00,", 1):                                     `400 {"error":"the body: expected JSON as docs/reference/protocols.md has it, got '\\x00' at byte 85, where a value`,
		strings.Replace(row, `"data"`, `"parameters": {"binary_data_size": 0}, "data"`, 1): `400 {"error":"inputs[\"observation\"]: expected either data or binary_data_size, got both"}`,
	} {
		if got, _ := web(t, h, "POST", path, body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s\nwant %s", body, got, want)
		}
	}
	for header, want := range map[string]string{
		"-1": "400", "x": "400", "999": "400",
		strconv.Itoa(len(row) - 1): "400", // broken JSON, and a byte of no input
	} {
		if got, _ := web(t, h, "POST", path, row, "Inference-Header-Content-Length: "+header); !strings.HasPrefix(got, want) {
			t.Errorf("a head of %s bytes: %s", header, got)
		}
	}
}

// TestWebClassification: the largest elements of an output in its place; types that have none are refused unexecuted.
func TestWebClassification(t *testing.T) {
	h := servertest.New(t, server.Config{})
	const path = "/v2/models/policy/infer"
	body := strings.TrimSuffix(row, "}") + `, "outputs": [{"name": "action", "parameters": {"classification": 3}}, {"name": "value"}]}`
	got, _ := web(t, h, "POST", path, body)
	if !strings.HasSuffix(got, `"outputs":[{"name":"action","datatype":"BYTES","shape":[1,2],"data":["2.000000:1","1.000000:0"]},`+
		`{"name":"value","datatype":"FP32","shape":[1],"data":[10]}]}`) {
		t.Error(got)
	}
	for _, wrong := range []string{"-1", "0", "1.5", "true", `"1"`} {
		got, _ := web(t, h, "POST", path, strings.Replace(body, ": 3", ": "+wrong, 1))
		if !strings.HasPrefix(got, `400 {"error":"outputs[\"action\"].parameters[\"classification\"]: expected how many classes`) {
			t.Errorf("%s classes: %s", wrong, got)
		}
	}
	h.Run = func(context.Context, *catalog.Call) error {
		t.Error("it was executed")
		return servertest.ErrBoom
	}
	for dtype, name := range map[tensor.DType]string{tensor.Bool: "BOOL", tensor.String: "BYTES"} {
		v := servertest.PolicyVersion(1, catalog.Ready)
		signature := *v.Signature
		signature.Outputs = slices.Clone(signature.Outputs)
		signature.Outputs[0].DType, v.Signature = dtype, &signature
		h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
		got, _ := web(t, h, "POST", path, body)
		if !strings.Contains(got, "expected an output of numbers, got one of "+name) {
			t.Errorf("%v: %s", dtype, got)
		}
	}
}

// TestWebTypes: each type of elements comes and goes in JSON.
func TestWebTypes(t *testing.T) {
	h := servertest.New(t, server.Config{})
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	lists := map[string]string{
		"bool": "[false,true]", "int8": "[-128,127]", "int16": "[-32768,32767]", "int32": "[-1,16909060]",
		"int64": "[-2,72623859790382856]", "uint8": "[0,255]", "uint16": "[0,65535]", "uint32": "[0,4294967295]",
		"uint64": "[1,18446744073709551615]", "fp16": "[1,-2]", "bf16": "[1,-2]", "fp32": "[1,-2]", "fp64": "[1,-2]",
		"string": `["a","é\n"]`,
	}
	ask := func(datatype, data string) string {
		got, _ := web(t, h, "POST", "/v2/models/policy/infer", fmt.Sprintf(
			`{"inputs": [{"name": "x", "shape": [2], "datatype": %q, "data": %s}]}`, datatype, data))
		return got
	}
	for _, r := range servertest.Representations {
		v := servertest.PolicyVersion(1, catalog.Ready)
		spec := []tensor.Spec{{Name: "x", DType: r.DType, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}}
		v.Signature = &tensor.Signature{Inputs: spec, Outputs: spec}
		h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
		name, list := strings.ToUpper(r.DType.String()), lists[r.DType.String()]
		if name == "STRING" {
			name = "BYTES"
		}
		if got := ask(name, list); !strings.HasSuffix(got, `"shape":[2],"data":`+list+`}]}`) {
			t.Errorf("%s: %s", name, got)
		}
		wides := map[string]string{"FP16": "[70000, 1]", "BF16": "[1e39, 1]", "FP32": "[1e39, 1]", "FP64": "[1e309, 1]"}
		if wide := wides[name]; wide != "" {
			if got := ask(name, wide); !strings.HasPrefix(got, `400 {"error":"inputs[\"x\"].data[0]: expected an element of `+name) {
				t.Errorf("%s %s: %s", name, wide, got)
			}
		}
		for _, odd := range []string{"[NaN,Infinity]", "[-Infinity,-0.5]"} {
			if got := ask(name, odd); strings.HasSuffix(got, `"shape":[2],"data":`+odd+`}]}`) != r.DType.IsFloat() {
				t.Errorf("%s %s: %s", name, odd, got)
			}
		}
		if strings.Contains(name, "INT") {
			for _, wrong := range []string{"[99999999999999999999, 1]", "[1.5, 1]", "[true, 1]", `["1", 1]`} {
				if got := ask(name, wrong); !strings.HasPrefix(got, `400 {"error":"inputs[\"x\"].data[0]: expected an element of `+name) {
					t.Errorf("%s %s: %s", name, wrong, got)
				}
			}
		}
	}
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{{DType: tensor.String, Shape: tensor.Shape{1}, Data: []byte("\x01\x00\x00\x00\xff")}}
		return nil
	}
	if got := ask("BYTES", `["a", "b"]`); !strings.HasPrefix(got, "501 ") || !strings.Contains(got, "binary_data") {
		t.Errorf("bytes that are no text: %s", got)
	}
}

// TestWebPages: what is said of the server and of models, and how much it is said with.
func TestWebPages(t *testing.T) {
	h := servertest.New(t, server.Config{Release: "v9"})
	h.Begin()
	for path, want := range map[string]string{
		"GET /v2":                                       `200 {"extensions":[`,
		"GET /v2/health/live":                           `200 {"live":true} `,
		"GET /v2/health/ready":                          `200 {"ready":true} `,
		"GET /v2/models/policy/ready":                   `200 {"name":"policy","ready":true} `,
		"GET /v2/models/policy/versions/3/ready":        `503 {"name":"policy","ready":false} `,
		"GET /v2/models/x/ready":                        "404 {",
		"GET /v2/models/policy":                         `200 {"inputs":[{"datatype":"FP32","name":"observation","shape":[-1,4]}]`,
		"GET /v2/models/policy/versions/9":              "404 {",
		"GET /v2/models/policy/config":                  `200 {"backend":"onnxruntime"`,
		"GET /v2/models/policy/stats":                   `200 {"model_stats":[{`,
		"GET /v2/models/stats":                          `200 {"model_stats":[{`,
		"POST /v2/repository/index":                     `200 [{"name":"policy","reason":"","state":"READY","version":"1"}`,
		"POST /v2/repository/models/policy/unload":      `403 {"error":"this address does not take`,
		"GET /v2/models/policy/infer":                   "405 ",
		"GET /v2/nonesuch":                              "404 ",
		"GET /v2/models/%2e%2e%2fpolicy/versions/1":     "404 {",
		"POST /v2/models/policy/versions/stable/infer":  "400 {",
		"GET /v2/models/policy/versions/99999999999999": "404 {",
	} {
		method, at, _ := strings.Cut(path, " ")
		if got, _ := web(t, h, method, at, row); !strings.HasPrefix(got+" ", want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got, _ := web(t, h, "POST", "/v2/repository/index", `{"ready": true}`); strings.Contains(got, "LOADING") {
		t.Errorf("the index of ready ones: %s", got)
	}
	h.Run = func(context.Context, *catalog.Call) error {
		return &sharedsched.Refusal{Reason: sharedsched.RefusedQueueFull, MaxQueue: 7, RetryAfter: 1500e6}
	}
	got, answer := web(t, h, "POST", "/v2/models/policy/infer", row)
	if !strings.HasPrefix(got, `429 {"error":"the queue is full`) && !strings.Contains(got, "queue is full") ||
		answer.Get("Retry-After") != "2" {
		t.Errorf("a full queue: %s, %v", got, answer)
	}
}

// TestWebLimits: a body, and an answer, may be as large as a message.
func TestWebLimits(t *testing.T) {
	h := servertest.New(t, server.Config{MaxMessageBytes: 4096})
	got, _ := web(t, h, "POST", "/v2/models/policy/infer", row+strings.Repeat(" ", 4096))
	if !strings.HasPrefix(got, "413 ") || !strings.Contains(got, "4096") {
		t.Errorf("a large body: %s", got)
	}
	wide := `{"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [` + strings.Repeat("1,", 1000) + "1]}]}"
	if got, _ = web(t, h, "POST", "/v2/models/policy/infer", wide); !strings.HasPrefix(got, "413 ") {
		t.Errorf("a body of much larger tensors: %s", got)
	}
	if got, _ = web(t, h, "POST", "/v2/logging", strings.Repeat(" ", 64<<10+1)); !strings.HasPrefix(got, "413 ") ||
		strings.Contains(got, "max-message-bytes") {
		t.Errorf("a large body of settings: %s", got)
	}
	h = servertest.New(t, server.Config{})
	handler := h.Web()
	var slow []*io.PipeWriter
	var done sync.WaitGroup
	for range 4 { // 64 MiB, and only a little of it comes
		from, to := io.Pipe()
		slow = append(slow, to)
		done.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/policy/infer", from)
			r.ContentLength = 16 << 20
			handler.ServeHTTP(httptest.NewRecorder(), r)
		})
		if _, err := to.Write(make([]byte, 64<<10+1)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(body string) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/policy/infer",
			strings.NewReader(body)))
		return w.Code
	}
	large := row + strings.Repeat(" ", 100<<10)
	if small, code := ask(row), ask(large); small != 200 || code != 429 {
		t.Errorf("beside bodies of 64 MiB a small one is %d, and a large one %d", small, code)
	}
	many := `{"inputs": [` + strings.Repeat("{},", 10_000) + "{}]}"
	for levels, want := range map[int]string{100: "400 {\"error\":\"inputs", 101: "400 {\"error\":\"the body: "} {
		deep := `{"x": ` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
		if got, _ := web(t, h, "POST", "/v2/models/policy/infer", deep); !strings.HasPrefix(got, want) {
			t.Errorf("%d levels: %s", levels, got)
		}
	}
	if got, _ := web(t, h, "POST", "/v2/models/policy/infer", many); !strings.Contains(got, "3072 inputs, outputs") {
		t.Errorf("many parts: %.200s", got)
	}
	for _, to := range slow {
		_ = to.Close()
	}
	done.Wait()
	if code := ask(large); code != 200 {
		t.Errorf("a large one is %d when the others have ended", code)
	}
}

// TestWebAccess: over HTTP an identity may what it may over gRPC, by its token.
func TestWebAccess(t *testing.T) {
	c := policyOf(map[string]access.Role{
		"pilot": {Predict: []string{"policy"}}, "other": {Predict: []string{"walker"}}, "watcher": {Observe: []string{"*"}},
		"operator": {Operate: []string{"*"}},
	})
	control := servertest.NewControl(t, c)
	h := servertest.New(t, server.Config{Access: &control.Control})
	h.ModelsChanged()
	for path, want := range map[string][5]string{ // of nobody, pilot, other, watcher, operator
		"GET /v2/health/live":                      {"200", "200", "200", "200", "200"},
		"GET /v2":                                  {"401", "200", "200", "200", "403"},
		"GET /v2/models/policy":                    {"401", "200", "404", "200", "403"},
		"POST /v2/models/policy/infer":             {"401", "200", "404", "403", "403"},
		"GET /v2/models/policy/stats":              {"401", "403", "404", "200", "403"},
		"POST /v2/repository/index":                {"401", "403", "403", "200", "403"},
		"POST /v2/repository/models/policy/unload": {"401", "403", "404", "403", "403"},
	} {
		method, at, _ := strings.Cut(path, " ")
		for i, name := range []string{"", "pilot", "other", "watcher", "operator"} {
			var headers []string
			if name != "" {
				headers = []string{"Authorization: Bearer " + servertest.Token(name)}
			}
			if got, _ := web(t, h, method, at, row, headers...); !strings.HasPrefix(got, want[i]) {
				t.Errorf("%s by %q: %s, want %s", path, name, got, want[i])
			}
		}
	}
}

// TestWebQuota: a body counts once, however large it is, and whether its size is known or not.
func TestWebQuota(t *testing.T) {
	c := policyOf(map[string]access.Role{"pilot": {Predict: []string{"*"}}})
	const quota = 100 << 10
	c.Identities[0].Quota.Bytes = quota
	control := servertest.NewControl(t, c)
	h := servertest.New(t, server.Config{Access: &control.Control})
	for size, want := range map[int]int{
		len(row): 200, 64<<10 - 1: 200, 64 << 10: 200, 64<<10 + 1: 200, quota: 200, quota + 1: 413,
	} {
		for _, known := range []bool{true, false} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/policy/infer",
				strings.NewReader(row+strings.Repeat(" ", size-len(row))))
			r.Header.Set("Authorization", "Bearer "+servertest.Token("pilot"))
			if !known {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			if h.Web().ServeHTTP(w, r); w.Code != want {
				t.Errorf("%d bytes (known: %v): %d %s, want %d", size, known, w.Code, w.Body, want)
			}
			if used := control.Policy().Used(time.Now())["pilot"][access.BytesInFlight]; used != 0 {
				t.Errorf("%d bytes (known: %v): %v of the quota remain used", size, known, used)
			}
		}
	}
	body := &counted{Reader: strings.NewReader(row + strings.Repeat(" ", 10*quota))}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/policy/infer", body)
	r.Header.Set("Authorization", "Bearer "+servertest.Token("pilot"))
	r.Header.Set("Expect", "100-continue") // what is refused is not passed over
	r.ContentLength = -1
	w := httptest.NewRecorder()
	if h.Web().ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge || body.read > 3*quota {
		t.Errorf("%d after %d bytes, want %d after at most %d", w.Code, body.read, http.StatusRequestEntityTooLarge, 3*quota)
	}
}

// counted counts what is read of it.
type counted struct {
	io.Reader

	read int
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.read += n
	return n, err
}

func policyOf(roles map[string]access.Role) *access.Config {
	c := &access.Config{Roles: roles}
	for name := range roles {
		c.Identities = append(c.Identities, access.Entry{Name: name, Roles: []string{name}, Weight: 1})
	}
	slices.SortFunc(c.Identities, func(a, b access.Entry) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// FuzzWebInfer: whatever a body is, the answer is none that blames the server.
func FuzzWebInfer(f *testing.F) {
	f.Add(row, "")
	f.Add(strings.Replace(row, "[1, 2, 3, 4]", "[[1, 2], [3, 4]]", 1), "")
	f.Add(`{"inputs": [{"name": "observation", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}]}`+
		string(floats(1, 2, 3, 4)), "114")
	f.Add(`{"id": "a", "parameters": {"priority": 1, "binary_data_output": true, "x": null}, "outputs": [{"name": "value"}]}`, "9")
	h := &servertest.House{Run: servertest.RunPolicy}
	h.Current.Store(servertest.PolicySnapshot())
	h.Server = server.New(server.Config{Logger: slog.New(slog.DiscardHandler)}, h, h)
	handler := h.Web()
	f.Add(`{"observation": [[1, 2, 3, 4]], "id": "a"}`, "")
	f.Add(`[1, 2, 3, 4]`, "")
	f.Add(`{"instances": [[1, 2, 3, 4], [5, 6, 7, 8]], "signature_name": "serving_default"}`, "")
	f.Add(`{"instances": [{"observation": [1, 2, 3, 4]}, {"observation": [{"b64": "AA=="}, 6, 7, 8]}]}`, "")
	f.Fuzz(func(t *testing.T, body, head string) {
		for _, path := range []string{"/v2/models/policy/infer", "/v1/models/policy:predict"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			if head != "" {
				r.Header["Inference-Header-Content-Length"] = []string{head}
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code >= 500 && w.Code != http.StatusNotImplemented || w.Code == 200 && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
