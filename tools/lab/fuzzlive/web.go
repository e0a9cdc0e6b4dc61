package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weftserve/weft/internal/hostile"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// webOne: of so many batches one goes to the HTTP port.
const webOne = 8

// headLength is the field of a header that says where the JSON of a body ends.
const headLength = "Inference-Header-Content-Length"

// pages are the paths that a batch asks for, with what stands for a name, and what such a request has for its body.
var pages = []struct {
	path string
	body protoreflect.FullName // the kind of message, in JSON; "" for none
}{
	{"/v2", ""},
	{"/v2/health/live", ""},
	{"/v2/health/ready", ""},
	{"/v2/models/NAME", ""},
	{"/v2/models/NAME/ready", ""},
	{"/v2/models/NAME/config", ""},
	{"/v2/models/NAME/stats", ""},
	{"/v2/models/stats", ""},
	{"/v2/models/NAME/versions/NUMBER", ""},
	{"/v2/models/NAME/versions/NUMBER/infer", "inference.ModelInferRequest"},
	{"/v2/models/NAME/infer", "inference.ModelInferRequest"},
	{"/v2/repository/index", "inference.RepositoryIndexRequest"},
	{"/v2/systemsharedmemory/status", ""},
	{"/v2/systemsharedmemory/region/NAME/register", "inference.SystemSharedMemoryRegisterRequest"},
	{"/v2/systemsharedmemory/region/NAME/unregister", ""},
	{"/v2/logging", "inference.LogSettingsRequest"},
	{"/v2/trace/setting", "inference.TraceSettingRequest"},
	{"/readyz/NAME", ""},
}

// web is a batch of HTTP requests.
type web struct {
	*batch
	server string // HOST:PORT
	client *http.Client
}

// all sends them, and says what is wrong with the answers.
func (w *web) all(ctx context.Context) error {
	defer w.client.CloseIdleConnections()
	for w.sent < batchSize/4 {
		w.sent++
		var err error
		switch n := w.rng.IntN(10); {
		case n < 3:
			err = w.echo(ctx)
		case n < 7:
			err = w.infer(ctx)
		default:
			err = w.ask(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// echo sends the echo a sound request, and wants the answer to be what it was asked.
func (w *web) echo(ctx context.Context) error {
	q := sound(w.rng, echoModel)
	body, head := w.encode(q)
	answer, err := w.send(ctx, http.MethodPost, "/v2/models/"+echoModel+"/infer", body, headLength, head)
	if err != nil {
		return err
	}
	switch answer.status {
	case http.StatusTooManyRequests:
		return nil
	case http.StatusOK:
	default:
		return fmt.Errorf("HTTP %d for a sound request: %.300s", answer.status, answer.body)
	}
	got := answer.body
	if n, err := strconv.Atoi(answer.header.Get(headLength)); err == nil {
		got = got[n:]
	} else {
		var m struct{ Outputs []struct{ Data []float32 } }
		if err := json.Unmarshal(got, &m); err != nil || len(m.Outputs) != 1 {
			return fmt.Errorf("over HTTP the answer %.300s: %w", got, err)
		}
		got = elements(&weftv1.Tensor{FloatValues: m.Outputs[0].Data})
	}
	if !bytes.Equal(got, elements(q.GetInputs()["x"])) {
		return fmt.Errorf("over HTTP the echo of %v is wrong: %x", q, got)
	}
	return nil
}

// encode returns a body with the tensors in its JSON or behind it, and in the latter case the length of the JSON. It
// panics if JSON has no form of the request, as it has of all that are made here.
func (w *web) encode(q *weftv1.PredictRequest) (body []byte, head string) {
	type object = map[string]any
	var inputs []object
	var behind []byte
	for name, t := range q.GetInputs() {
		in := object{"name": name, "datatype": strings.TrimPrefix(t.GetDtype().String(), "DATA_TYPE_"), "shape": t.GetShape()}
		switch {
		case len(t.GetRaw()) > 0:
			in["parameters"] = object{"binary_data_size": len(t.GetRaw())}
			behind = append(behind, t.GetRaw()...)
		case t.GetDtype() == weftv1.DataType_DATA_TYPE_STRING:
			var texts []string
			for _, text := range t.GetStringValues() {
				texts = append(texts, string(text))
			}
			in["datatype"], in["data"] = "BYTES", texts
		case t.GetDtype() == weftv1.DataType_DATA_TYPE_INT64:
			in["data"] = t.GetInt64Values()
		case t.GetDtype() == weftv1.DataType_DATA_TYPE_BOOL:
			in["data"] = t.GetBoolValues()
		default:
			in["data"] = t.GetFloatValues()
		}
		if in["shape"] == nil {
			in["shape"] = []int64{}
		}
		inputs = append(inputs, in)
	}
	m := object{"inputs": inputs}
	if w.rng.IntN(2) == 0 {
		m["parameters"] = object{"binary_data_output": true}
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	if len(behind) == 0 && w.rng.IntN(2) == 0 {
		return text, ""
	}
	return append(text, behind...), strconv.Itoa(len(text))
}

// infer sends a request that was sound, or any message in the place of one.
func (w *web) infer(ctx context.Context) error {
	model := append([]string{echoModel}, others...)[w.rng.IntN(1+len(others))]
	body, head := w.encode(sound(w.rng, model))
	switch w.rng.IntN(5) {
	case 0:
		body = hostile.Mutated(w.rng, body)
	case 1: // another length
		head = []string{"0", "-1", "1", strconv.Itoa(len(body) + 1), "9223372036854775808", "x", ""}[w.rng.IntN(7)]
	case 2: // a piece of it is another
		pieces := [][]byte{
			[]byte(`[[[[[[`), []byte(`1e999`), []byte(`"\ud800"`), []byte(`null`), []byte(`{}`), []byte(`-1`), []byte(`[]`),
			[]byte(`{"binary_data_size":4}`), []byte(`9223372036854775807`), []byte(`"FP16"`), []byte(`true`),
			{0xff},
		}
		at := w.rng.IntN(len(body))
		end := min(len(body), at+w.rng.IntN(8))
		body = append(append(bytes.Clone(body[:at]), pieces[w.rng.IntN(len(pieces))]...), body[end:]...)
	case 3:
		body = w.message("inference.ModelInferRequest")
	case 4:
		body = bytes.Repeat([]byte("["), 1+w.rng.IntN(100_000))
	}
	_, err := w.send(ctx, http.MethodPost, "/v2/models/"+model+"/infer", body, headLength, head)
	return err
}

// message returns any message of a kind in JSON.
func (w *web) message(kind protoreflect.FullName) []byte {
	m := w.maker.Message(hostile.Kind(kind))
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return []byte(w.maker.Word()) // JSON has no form of it
	}
	return text
}

// ask asks for any page, by any method.
func (w *web) ask(ctx context.Context) error {
	p := pages[w.rng.IntN(len(pages))]
	name := w.maker.Word()
	name = name[:min(len(name), 1000)] // a path that is longer than a header may be ends the connection
	path := strings.ReplaceAll(p.path, "NAME", url.PathEscape(name))
	path = strings.ReplaceAll(path, "NUMBER", []string{"1", "0", "-1", "x", "9223372036854775808"}[w.rng.IntN(5)])
	method, body := http.MethodGet, []byte(nil)
	if p.body != "" {
		method, body = http.MethodPost, w.message(p.body)
	}
	if w.rng.IntN(8) == 0 {
		method = []string{http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodHead, "X"}[w.rng.IntN(5)]
	}
	_, err := w.send(ctx, method, path, body)
	return err
}

// page is an answer.
type page struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request, with the fields of its header that are not "". The error is what is wrong with any answer.
func (w *web) send(ctx context.Context, method, path string, body []byte, fields ...string) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	packed := w.rng.IntN(16) == 0
	if packed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // into memory
		_ = z.Close()
		body = b.Bytes()
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+w.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make a request for %q: %w", path, err)
	}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			request.Header.Set(fields[i], fields[i+1])
		}
	}
	if packed {
		request.Header.Set("Content-Encoding", "gzip")
	}
	if w.rng.IntN(16) == 0 {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %.300s of %d bytes: %w", method, path, len(body), err)
	}
	defer response.Body.Close()
	answer := &page{status: response.StatusCode, header: response.Header}
	if answer.body, err = io.ReadAll(response.Body); err != nil {
		return nil, fmt.Errorf("%s %.300s of %d bytes: %w", method, path, len(body), err)
	}
	if fault := answer.fault(); fault != "" {
		return nil, fmt.Errorf("%s %.300s %.300v %.300q: HTTP %d, %s: %.300s", method, path, fields, body, answer.status,
			fault, answer.body)
	}
	return answer, nil
}

// fault says what is wrong with an answer, whatever was asked; "" for nothing.
func (p *page) fault() string {
	if p.status == http.StatusInternalServerError {
		return "the server failed"
	}
	if p.status >= 400 && len(p.body) > 0 && p.header.Get("Content-Type") == "application/json" {
		var said struct{ Error string }
		if err := json.Unmarshal(p.body, &said); err != nil || said.Error == "" {
			return "no error is told"
		}
	}
	return ""
}
