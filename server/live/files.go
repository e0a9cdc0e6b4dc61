package live

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed assets
var assets embed.FS

// policy is what the page may do: load what is its own, and nothing else. It has no scripts or styles within its HTML,
// so that a name in an answer cannot become one.
const policy = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// packed has files, by name, as they were compressed when they were asked for first.
var packed sync.Map

// Docs serves the page of the models' calls, whose files are below Path, and its data in openapi.json beside it.
func Docs(w http.ResponseWriter, r *http.Request) { serveFile(w, r, "docs.html") }

// files serves the files of the page.
func files(w http.ResponseWriter, r *http.Request) {
	serveFile(w, r, cmp.Or(strings.TrimPrefix(r.URL.Path, Path), "index.html"))
}

// serveFile serves a file of the pages. Browsers ask each time (no-cache): another release has other files under the
// same names.
func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	data, err := assets.ReadFile(path.Join("assets", name))
	if err != nil {
		fail(w, http.StatusNotFound, "the page has no such file; it begins at "+Path)
		return
	}
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("Content-Type", cmp.Or(mime.TypeByExtension(path.Ext(name)), "text/plain; charset=utf-8"))
	head.Set("Cache-Control", "no-cache")
	if !takesGzip(r) {
		_, _ = w.Write(data) //nolint:gosec // a file of the page
		return
	}
	small, known := packed.Load(name)
	if !known {
		small, _ = packed.LoadOrStore(name, compress(data, gzip.BestCompression))
	}
	head.Set("Content-Encoding", "gzip")
	_, _ = w.Write(small.([]byte)) //nolint:gosec // a file of the page
}

// takesGzip reports whether the caller says that it can decompress; how much it prefers that is not looked at.
func takesGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// send sends data, compressed where that is welcome.
func send(w http.ResponseWriter, r *http.Request, data []byte) {
	if takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		data = compress(data, gzip.BestSpeed)
	}
	_, _ = w.Write(data)
}

// compress compresses what is in memory; nothing in it can fail.
func compress(data []byte, level int) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, level)
	_, _ = w.Write(data) // memory takes everything
	_ = w.Close()
	return b.Bytes()
}
