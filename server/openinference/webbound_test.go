package openinference_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/sharedsched"
)

// bodies makes texts of JSON, most of them sound, that are to be large: of a few things very many.
type bodies struct{ *rand.Rand }

// many returns a list or the members of an object, of that many bytes or a few more.
func (b *bodies) many(open, shut string, bytes int, one func() string) string {
	var s strings.Builder
	s.WriteString(open)
	for s.Len() < bytes {
		if s.Len() > 1 {
			s.WriteByte(',')
		}
		s.WriteString(one())
	}
	return s.String() + shut
}

func (b *bodies) one(of ...string) string { return of[b.IntN(len(of))] }

// value returns any value, of about so many bytes.
func (b *bodies) value(bytes int) string {
	small := b.one("1", "null", "{}", "[]", `""`, `"\n"`, `"\ud83d\ude00"`, "true", "-1.5e3", "[[]]", `{"name":"x"}`,
		`{"parameters":{"a":1}}`, `{"data":[1]}`, `{"shape":[1]}`, `{"datatype":"FP64","shape":[1],"data":[1]}`)
	switch b.IntN(9) {
	case 0: // deep
		depth := b.IntN(bytes/2 + 1)
		return strings.Repeat("[", depth) + small + strings.Repeat("]", depth)
	case 1: // a number of very many digits
		return b.one("", "-", "0.", "1e") + strings.Repeat(b.one("1", "9"), bytes)
	case 2: // a long text
		return `"` + strings.Repeat(b.one("a", `\n`, `\u00e9`, `\ud83d\ude00`, "é"), bytes/2) + `"`
	case 3: // the same member again and again
		name := b.name()
		return b.many("{", "}", bytes, func() string { return name + ":" + small })
	case 4: // other members
		return b.many("{", "}", bytes, func() string { return fmt.Sprintf(`"%x":%s`, b.Uint32(), small) })
	case 5: // values within values
		part := bytes / 4
		return b.many("[", "]", bytes, func() string { return b.value(part) })
	case 6:
		part := bytes / 4
		return b.many("{", "}", bytes, func() string { return b.name() + ":" + b.value(part) })
	}
	return b.many("[", "]", bytes, func() string { return small }) // wide
}

func (b *bodies) name() string {
	return `"` + b.one("inputs", "outputs", "parameters", "id", "name", "datatype", "shape", "data", `\u0064ata`, "ready", "key",
		"byte_size", "log_info", "binary_data", "x") + `"`
}

// body returns a body whose outermost member may be one that requests have.
func (b *bodies) body(bytes int) string { return "{" + b.name() + ":" + b.value(bytes) + "}" }

// nobody is somebody who reads an answer, and keeps nothing of it.
type nobody struct {
	header http.Header
	code   int
	begins []byte
}

func (n *nobody) Header() http.Header  { return n.header }
func (n *nobody) WriteHeader(code int) { n.code = code }
func (n *nobody) Write(data []byte) (int, error) {
	n.begins = append(n.begins, data[:min(len(data), 400-len(n.begins))]...)
	return len(data), nil
}

// allocated asks a server, and returns its answer and how many bytes it has allocated.
func allocated(handler http.Handler, r *http.Request) (*nobody, int) {
	r.Header.Set("Authorization", "Bearer "+servertest.Token("all"))
	w := &nobody{header: http.Header{}, code: http.StatusOK}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	handler.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	return w, int(after.TotalAlloc - before.TotalAlloc)
}

// TestWebBodiesAreBounded: what a body makes the server allocate is bounded by its size, whatever is in it. A message
// may take four times its size besides itself; where the size is not known, the memory of the body is doubled as it
// comes.
func TestWebBodiesAreBounded(t *testing.T) {
	const times, free, packedTimes = 5, 5 << 18, 9
	c := policyOf(map[string]access.Role{"all": {Predict: []string{"*"}, Operate: []string{"*"}, Observe: []string{"*"}}})
	control := servertest.NewControl(t, c)
	h := servertest.New(t, server.Config{Access: &control.Control, SharedMemory: 1 << 20})
	h.ModelsChanged()
	h.Run = func(context.Context, *catalog.Call) error { return sharedsched.ErrDraining } // the elements have been read
	handler := h.Web()
	const infer, predict = "/v2/models/policy/infer", "/v1/models/policy:predict"
	ask := func(path, body string, packed bool) (code int) {
		t.Helper()
		sent, most := body, times*len(body)+free
		if packed {
			sent, most = zipped(body), packedTimes*len(body)+free
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(sent))
		if packed {
			r.Header.Set("Content-Encoding", "gzip")
		}
		w, took := allocated(handler, r)
		if took > most {
			t.Errorf("%s: %d bytes (packed: %t) take %d, %d for each: %.100s\n%d %s", path, len(body), packed, took,
				took/len(body), body, w.code, w.begins)
		}
		if w.code >= 400 && (w.code == http.StatusInternalServerError || !bytes.HasPrefix(w.begins, []byte(`{"error":"`))) {
			t.Errorf("%s: %.100s: %d %s", path, body, w.code, w.begins)
		}
		return w.code
	}
	const size = 1 << 18
	bodiesOf := 30
	if testing.Short() || race.Enabled {
		bodiesOf = 3
	}
	for _, one := range []string{"1", "null", "{}", "[]", `""`, `{"x":1}`} {
		list := "[" + strings.Repeat(one+",", size/(len(one)+1)) + one + "]"
		ask(infer, `{"inputs":`+list+"}", false)
		ask(infer, list, false)
		ask(infer, `{"observation":`+list+"}", false)
		ask(predict, `{"instances":`+list+"}", false)
		ask(predict, `{"inputs":{"observation":`+list+"}}", false)
	}
	rng := &bodies{rand.New(rand.NewPCG(35, 8))}
	for i := range 10 * bodiesOf {
		body := rng.body(1 << (10 + i%10))
		ask(infer, body, i%10 == 0)
		ask(predict, strings.Replace(body, `"inputs"`, `"instances"`, 1), i%10 == 0)
	}
	for _, path := range []string{
		"/v2/repository/index", "/v2/repository/models/policy/load", "/v2/repository/models/policy/unload", "/v2/logging",
		"/v2/trace/setting", "/v2/models/policy/trace/setting", "/v2/systemsharedmemory/region/a/register",
	} {
		for range bodiesOf {
			ask(path, rng.body(60<<10), false)
		}
	}
	for _, r := range servertest.Representations { // elements that the model takes, as short as can be
		v := servertest.PolicyVersion(1, catalog.Ready)
		spec := []tensor.Spec{{Name: "x", DType: r.DType, Shape: tensor.Shape{tensor.Unknown, tensor.Unknown}, BatchDim: 0}}
		v.Signature = &tensor.Signature{Inputs: spec, Outputs: spec}
		h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
		datatype, element := strings.ToUpper(r.DType.String()), "1"
		if r.DType == tensor.String {
			datatype, element = "BYTES", rng.one(`""`, `"\n"`)
		}
		data := rng.many("[", "]", size, func() string { return element })
		body := fmt.Sprintf(`{"inputs":[{"data":%s,"name":"x","datatype":%q,"shape":[1,%d]}]}`, data, datatype, strings.Count(data, ",")+1)
		for _, packed := range []bool{false, true} {
			if code := ask(infer, body, packed); code != http.StatusServiceUnavailable {
				t.Errorf("%s of %d bytes: %d", datatype, len(body), code)
			}
		}
	}
	h.Memory.WantAll()
}

// TestWebPacked: bodies may be packed, and answers are where that is welcome and they are not small.
func TestWebPacked(t *testing.T) {
	h := servertest.New(t, server.Config{MaxMessageBytes: 100 << 10})
	const path = "/v2/models/policy/infer"
	plain, _ := web(t, h, "POST", path, row)
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	_, _ = z.Write([]byte(row)) // into memory
	_ = z.Close()
	behind := strings.Replace(row, `"data": [1, 2, 3, 4]`, `"parameters": {"binary_data_size": 16}`, 1)
	flipped := []byte(zipped(row))
	flipped[len(flipped)-5] ^= 1 // in the sum
	for name, c := range map[string]struct{ coding, body, head, want string }{
		"gzip":               {"gzip", zipped(row), "", plain},
		"GZIP":               {"GZIP", zipped(row), "", plain},
		"deflate":            {"deflate", deflated.String(), "", plain},
		"bytes behind":       {"gzip", zipped(behind + string(floats(1, 2, 3, 4))), strconv.Itoa(len(behind)), plain},
		"identity":           {"identity", row, "", plain},
		"another coding":     {"br", row, "", `501 {"error":"Content-Encoding \"br\": this server does not have that; send bodies as they are`},
		"no gzip":            {"gzip", row, "", `400 {"error":"the body: `},
		"cut short":          {"gzip", zipped(row)[:60], "", `400 {"error":"the body: `},
		"a wrong sum":        {"gzip", string(flipped), "", `400 {"error":"the body: `},
		"too large unpacked": {"gzip", zipped(strings.Repeat(row, 2000)), "", `413 {"error":"the message takes more than 102400 bytes when it is decompressed`},
		"too large packed":   {"gzip", strings.Repeat(zipped(row), 2000), "", `413 {"error":"the message takes `},
	} {
		got, _ := web(t, h, "POST", path, c.body, "Content-Encoding: "+c.coding, "Inference-Header-Content-Length: "+c.head)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{call.Inputs[0].Clone()}
		return nil
	}
	v := servertest.PolicyVersion(1, catalog.Ready)
	open := tensor.Shape{tensor.Unknown, tensor.Unknown}
	spec := []tensor.Spec{{Name: "x", DType: tensor.Uint8, Shape: open, BatchDim: 0}}
	v.Signature = &tensor.Signature{Inputs: spec, Outputs: spec}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	for accepts, packs := range map[string]bool{
		"gzip": true, "deflate, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0": false, "identity": false, "": false,
	} {
		for _, elements := range []int{1, 20_000} {
			for _, more := range []string{"", `, "outputs": [{"name": "x", "parameters": {"binary_data": true}}]`} {
				body := fmt.Sprintf(`{"inputs": [{"name": "x", "shape": [1, %d], "datatype": "UINT8", "data": [7%s]}]%s}`,
					elements, strings.Repeat(",7", elements-1), more)
				want, asIs := web(t, h, "POST", path, body)
				got, header := web(t, h, "POST", path, body, "Accept-Encoding: "+accepts)
				const head = "Inference-Header-Content-Length"
				if (header.Get("Content-Encoding") == "gzip") != (packs && elements > 1) || header.Get(head) != asIs.Get(head) {
					t.Errorf("%q, %d elements%s: %v", accepts, elements, more, header)
				}
				if header.Get("Content-Encoding") != "" {
					got = "200 " + unzipped(t, strings.TrimPrefix(got, "200 "))
				}
				if got != want {
					t.Errorf("%q, %d elements%s: %.100q, want %.100q", accepts, elements, more, got, want)
				}
			}
		}
	}
}

func unzipped(t *testing.T, packed string) string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestWebAnswersAreBounded: an answer in JSON takes several times the memory of its tensors, and the server has only a
// little of it at a time.
func TestWebAnswersAreBounded(t *testing.T) {
	h := servertest.New(t, server.Config{})
	v := servertest.PolicyVersion(1, catalog.Ready)
	const rows = 4 << 20
	in := tensor.Spec{Name: "x", DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown}, BatchDim: 0}
	out := tensor.Spec{Name: "y", DType: tensor.Uint8, Shape: tensor.Shape{tensor.Unknown, rows}, BatchDim: 0}
	v.Signature = &tensor.Signature{Inputs: []tensor.Spec{in}, Outputs: []tensor.Spec{out}}
	h.Current.Store(servertest.SnapshotOf(2, &catalog.Model{Name: "policy", Versions: []*catalog.Version{v}}))
	h.Run = func(_ context.Context, call *catalog.Call) error {
		call.Results = []tensor.Tensor{{DType: tensor.Uint8, Shape: tensor.Shape{1, rows}, Data: make([]byte, rows)}}
		return nil
	}
	const body = `{"inputs":[{"name":"x","datatype":"UINT8","shape":[1],"data":[1]}]}`
	for _, coding := range []string{"", "gzip"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/policy/infer", strings.NewReader(body))
		r.Header.Set("Accept-Encoding", coding)
		w, took := allocated(h.Web(), r)
		if w.code != http.StatusOK || w.header.Get("Content-Encoding") != coding || took > rows+2<<20 {
			t.Errorf("%q: %d %v %.100q: %d bytes", coding, w.code, w.header, w.begins, took)
		}
	}
}

// TestWebRefusalsAreRead: who sends a whole body before it reads learns why it was refused.
func TestWebRefusalsAreRead(t *testing.T) {
	h := servertest.New(t, server.Config{MaxMessageBytes: 1 << 20})
	s := httptest.NewServer(h.Web())
	defer s.Close()
	const sent = 8 << 20
	for _, header := range []string{fmt.Sprintf("Content-Length: %d", sent), "Transfer-Encoding: chunked"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		head := "POST /v2/models/policy/infer HTTP/1.1\r\nHost: x\r\n" + header + "\r\n\r\n"
		body := strings.Repeat(" ", sent)
		if strings.Contains(head, "chunked") {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", sent, body)
		}
		_, wrote := io.WriteString(conn, head+body)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || wrote != nil {
			t.Fatalf("%s: %v, %v", header, wrote, err)
		}
		if answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %v", header, answer)
		}
		_ = answer.Body.Close()
		_ = conn.Close()
	}
}

func zipped(text string) string {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(text)) // into memory
	_ = z.Close()
	return packed.String()
}
