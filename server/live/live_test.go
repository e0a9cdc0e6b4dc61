package live_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
)

// answer is what a page answers, with its body unpacked.
type answer struct {
	code int
	head http.Header
	data []byte
}

// get asks for a page as somebody, "" for nobody.
func get(t *testing.T, from *httptest.Server, path, token string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, from.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := from.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, data}
}

// open serves the page of a server that is open to all.
func open(t *testing.T) (*servertest.House, *httptest.Server) {
	t.Helper()
	h := servertest.New(t, server.Config{})
	h.Address = "127.0.0.1:9000"
	page := httptest.NewServer(h.Server.Live())
	t.Cleanup(page.Close)
	return h, page
}

func TestCalls(t *testing.T) {
	h, page := open(t)
	want, err := h.Catalog.ListModels(t.Context(), &weftv1.ListModelsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	data := get(t, page, "/live/api/ListModels", "").data
	got := &weftv1.ListModelsResponse{}
	if err := protojson.Unmarshal(data, got); err != nil || !proto.Equal(got, want) {
		t.Errorf("ListModels gives %s (%v), want %v", data, err, want)
	}
	for path, want := range map[string]int{
		"/live/api/GetModel?name=policy":                               http.StatusOK,
		"/live/api/GetSchedulerState?max_decisions=3":                  http.StatusOK,
		"/live/api/GetHistory?model=policy&version=1&day=true":         http.StatusOK,
		"/live/api/ListRequests?limit=5&end=REQUEST_END_LATE":          http.StatusOK,
		"/live/api/GetModel?name=nonesuch":                             http.StatusNotFound,
		"/live/api/GetModel":                                           http.StatusBadRequest,
		"/live/api/GetModel?name=a&name=b":                             http.StatusBadRequest,
		"/live/api/GetModel?colour=red":                                http.StatusBadRequest,
		"/live/api/GetHistory?day=perhaps":                             http.StatusBadRequest,
		"/live/api/GetHistory?version=1":                               http.StatusBadRequest,
		"/live/api/GetHistory?model=policy&version=99999999999":        http.StatusBadRequest,
		"/live/api/ListRequests?limit=-1":                              http.StatusBadRequest,
		"/live/api/ListRequests?limit=2000":                            http.StatusBadRequest,
		"/live/api/ListRequests?end=SOON":                              http.StatusBadRequest,
		"/live/api/ExplainRequest?request=%231":                        http.StatusNotFound,
		"/live/api/WatchActivity":                                      http.StatusNotFound,
		"/live/api/UnloadVersion?model=policy":                         http.StatusNotFound,
		"/live/nonesuch.js":                                            http.StatusNotFound,
		"/live/activity?back_ms=much":                                  http.StatusBadRequest,
		"/live/activity?back_ms=60001":                                 http.StatusBadRequest,
		"/live/trace.json.gz?seconds=61":                               http.StatusBadRequest,
		"/live/api/GetHistory?model=" + strings.Repeat("x", 1000) + "": http.StatusNotFound,
	} {
		a := get(t, page, path, "")
		var why struct{ Error string }
		if err := json.Unmarshal(a.data, &why); err != nil {
			t.Errorf("%s answers %q: %v", path, a.data[:min(len(a.data), 80)], err)
		}
		if a.code != want || (why.Error == "") != (want == http.StatusOK) {
			t.Errorf("%s answers %d %q, want %d", path, a.code, why.Error, want)
		}
	}
}

// Each event has an Activity, and the first one reaches back. Commands are told where the server is.
func TestActivity(t *testing.T) {
	h, page := open(t)
	if _, err := h.Predictions.Predict(t.Context(), servertest.Observation("robot-7")); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL+"/live/activity?back_ms=60000", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := page.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Weft-Address"); got != "127.0.0.1:9000" {
		t.Errorf("the address of the server is %q", got)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var run string
	for events := 0; events < 2 && lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		a := &weftv1.Activity{}
		if err := protojson.Unmarshal([]byte(data), a); err != nil {
			t.Fatalf("an event has %s: %v", data, err)
		}
		if events++; events == 1 {
			run = a.GetRun()
		}
		if a.GetRun() != run || run == "" {
			t.Errorf("event %d is of the run %q, the first of %q", events, a.GetRun(), run)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestTrace(t *testing.T) {
	_, page := open(t)
	a := get(t, page, "/live/trace.json.gz", "")
	if a.head.Get("Content-Type") != "application/gzip" || a.head.Get("Content-Disposition") == "" {
		t.Errorf("the headers are %v", a.head)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(a.data))
	if err != nil {
		t.Fatal(err)
	}
	var trace struct{ TraceEvents []json.RawMessage }
	if err := json.NewDecoder(unpacked).Decode(&trace); err != nil {
		t.Error(err)
	}
}

// Who may see what: the files are anybody's, the numbers are not.
func TestWhoMaySee(t *testing.T) {
	roles := map[string]access.Role{"observer": {Observe: []string{"*"}}, "caller": {Predict: []string{"*"}}}
	control := servertest.NewControl(t, &access.Config{Roles: roles, Identities: []access.Entry{
		{Name: "caller", Roles: []string{"caller"}, Weight: 1}, {Name: "observer", Roles: []string{"observer"}, Weight: 1},
	}})
	h := servertest.New(t, server.Config{Access: &control.Control})
	page := httptest.NewServer(h.Server.Live())
	defer page.Close()
	for _, path := range []string{"activity?back_ms=x", "api/ListModels", "trace.json.gz"} {
		for token, want := range map[string]int{
			"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, servertest.Token("caller"): http.StatusForbidden,
		} {
			if a := get(t, page, "/live/"+path, token); a.code != want {
				t.Errorf("%s by %q: %d %s, want %d", path, token, a.code, a.data, want)
			}
		}
		a := get(t, page, "/live/"+path, servertest.Token("observer"))
		if a.code == http.StatusUnauthorized || a.code == http.StatusForbidden {
			t.Errorf("%s by an observer: %d %s", path, a.code, a.data)
		}
	}
	if a := get(t, page, "/live/", ""); a.code != http.StatusOK {
		t.Errorf("the page itself: %d", a.code)
	}
}

// mostBytes are what all files of the page may take, compressed.
const mostBytes = 120 << 10

// Every file is served with its type, under a policy that lets the page load nothing of others, and all are small.
func TestFiles(t *testing.T) {
	_, page := open(t)
	types := map[string]string{
		"": "text/plain", ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain",
		".json": "application/json", ".webmanifest": "application/manifest+json",
	}
	all := 0
	err := filepath.WalkDir("assets", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, "assets/")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL+"/live/"+name, http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("Accept-Encoding", "gzip")
		resp, err := page.Client().Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		packed, err := io.ReadAll(resp.Body)
		all += len(packed)
		kind := types[filepath.Ext(name)]
		if kind == "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) {
			t.Errorf("%s is served as %q, want %q", name, resp.Header.Get("Content-Type"), kind)
		}
		if !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s is served under the policy %q", name, resp.Header.Get("Content-Security-Policy"))
		}
		return err
	})
	if err != nil || all == 0 || all > mostBytes {
		t.Errorf("the files take %d bytes, compressed, want at most %d: %v", all, mostBytes, err)
	}
	t.Logf("the files take %d bytes, compressed", all)
}
