package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weftserve/weft/server/routing"
)

// Mux is an http.ServeMux that tells callers of what it does not have which call is nearest, and that takes patterns
// whose last segment ends in a verb, such as "POST /v1/models/{model}:predict".
type Mux struct {
	// Main is the pattern of the call that most callers look for.
	Main string

	mux      http.ServeMux
	patterns []string // as they were given
	verbs    []string
}

// HandleFunc adds a pattern, a method and a path.
func (m *Mux) HandleFunc(pattern string, serve http.HandlerFunc) {
	m.Known(pattern)
	// To http.ServeMux the verb is a segment of its own, as it is to ServeHTTP.
	path, verb, has := strings.Cut(pattern, "}:")
	if has {
		m.verbs = append(m.verbs, verb)
		pattern = path + "}/:" + verb
	}
	m.mux.HandleFunc(pattern, serve)
}

// Known adds patterns of calls that another handler serves.
func (m *Mux) Known(patterns ...string) { m.patterns = append(m.patterns, patterns...) }

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, path := r, r.URL.Path
	if at := strings.LastIndexByte(path, ':'); at > 0 && path[at-1] != '/' && slices.Contains(m.verbs, path[at+1:]) {
		url := *r.URL
		url.Path, url.RawPath = path[:at]+"/"+path[at:], ""
		with := *r
		with.URL = &url
		r = &with
	}
	serve, pattern := m.mux.Handler(r)
	if pattern != "" {
		m.mux.ServeHTTP(w, r)
		asked.Pattern = r.Pattern // for traces
		return
	}
	// It is not found, or the method is not allowed, or the path has a cleaner form: ServeMux says it in the head.
	said := probe{header: w.Header(), code: http.StatusOK}
	serve.ServeHTTP(&said, r)
	WriteJSON(w, said.code, map[string]string{"error": fmt.Sprintf("there is no call %s %s: %s", r.Method,
		routing.Quote(path), m.Nearest(r.Method, path))})
}

// probe takes an answer for its head alone.
type probe struct {
	header http.Header
	code   int
}

func (p *probe) Header() http.Header            { return p.header }
func (p *probe) Write(data []byte) (int, error) { return len(data), nil }
func (p *probe) WriteHeader(code int)           { p.code = code }

// elsewhere has paths at which other servers have calls, and the call here that does the same: by letters another is
// nearer.
var elsewhere = map[string]string{
	"/v2/health":                     "GET /v2/health/ready",
	"/ping":                          "GET /readyz", // TorchServe, SageMaker
	"/monitoring/prometheus/metrics": "GET /metrics",
	"/v2/models/{model}/predict":     "POST /v2/models/{model}/infer",
}

// Nearest names the call that is nearest to one that there is not. It is Main for what is near to nothing and computes
// something.
func (m *Mux) Nearest(method, path string) string {
	const near = 4 // a slip or two
	best, least := m.Main, 1<<30
	for asked, meant := range elsewhere {
		if distance(asked, path) == 0 {
			best, least = meant, -1
		}
	}
	for _, p := range m.patterns {
		with, of, _ := strings.Cut(p, " ")
		far := distance(of, path)
		if method == http.MethodPost && (with != method || far > near) {
			continue
		}
		if far = 2 * far; with != method {
			far++ // the path tells more of what is wanted
		}
		if far < least {
			best, least = p, far
		}
	}
	return "the nearest is " + best + ", and /docs has all"
}

// distance is how many characters of a path must be changed to make one of a pattern (Levenshtein's distance, by Wagner
// and Fischer, "The string-to-string correction problem", 1974). Segments stand for the wildcards in their place.
func distance(pattern, path string) int {
	const most = 64 // a path that is longer is near to nothing
	path = path[:min(len(path), most)]
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, segment := range want {
		if i >= len(got) || segment == "" || segment[0] != '{' {
			continue
		}
		want[i], _, _ = strings.Cut(got[i], ":")
		if _, verb, has := strings.Cut(segment, "}:"); has {
			want[i] += ":" + verb
		}
	}
	pattern = strings.Join(want, "/")
	row := make([]int, len(path)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(pattern) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(path) {
			change := corner
			if pattern[i] != path[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, corner+1, row[j]+1)
		}
	}
	return row[len(path)]
}
