//go:build cloud

package cloud

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

// service is one in this process. It can turn a byte of what it answers, and refuse to answer.
type service struct {
	*httptest.Server
	turn  func(path string) bool
	down  bool
	calls int
}

func serve(t *testing.T, h http.Handler) *service {
	t.Helper()
	s := &service{turn: func(string) bool { return false }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls++
		switch {
		case s.down:
			http.Error(w, "down", http.StatusServiceUnavailable)
		case r.Method == http.MethodGet && s.turn(r.URL.Path):
			h.ServeHTTP(&turning{ResponseWriter: w}, r)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

type turning struct {
	http.ResponseWriter
	done bool
}

func (w *turning) Write(p []byte) (int, error) {
	if p = slices.Clone(p); !w.done && len(p) > 0 {
		p[len(p)/2]++
		w.done = true
	}
	return w.ResponseWriter.Write(p)
}

func mirrored(t *testing.T, cache, from string) (*Mirror, string, error) {
	t.Helper()
	var log bytes.Buffer
	m, err := Open(t.Context(), from, Config{Cache: cache, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	return m, log.String(), err
}

func TestS3(t *testing.T) {
	const secret = "wJalrXUtnFEMI"
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIASECRET")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	s := serve(t, gofakes3.New(backend).Server())
	query := "?region=us-east-1&use_path_style=true&endpoint=" + s.URL
	bucket, err := blob.OpenBucket(t.Context(), "s3://models"+query)
	if err != nil {
		t.Fatal(err)
	}
	defer bucket.Close()
	put := func(files map[string]string) {
		t.Helper()
		for at, text := range files {
			if err := bucket.WriteAll(t.Context(), "team/"+at, []byte(text), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(two[0])
	cache, from := t.TempDir(), "s3://models/team"+query
	m, log, err := mirrored(t, cache, from)
	if err != nil || !maps.Equal(content(t, m.Dir()), two[0]) {
		t.Fatal(err, log, m)
	}
	for at := range two[0] {
		if err := bucket.Delete(t.Context(), "team/"+at); err != nil {
			t.Fatal(err)
		}
	}
	put(two[1])
	m.Refresh(t.Context())
	if m.Refresh(t.Context()); !maps.Equal(content(t, m.Dir()), two[1]) {
		t.Errorf("the copy has %v", content(t, m.Dir()))
	}
	s.down = true
	m, log, err = mirrored(t, cache, from)
	if err != nil || !maps.Equal(content(t, m.Dir()), two[1]) || !strings.Contains(log, "repository_offline") {
		t.Error(err, log)
	}
	if _, _, err = mirrored(t, t.TempDir(), "s3://models/none"+query); err == nil {
		t.Error("a start with neither source nor cache")
	}
	s.down, s.turn = false, func(path string) bool { return strings.HasSuffix(path, "walker/1/model.onnx") }
	if m, log, err = mirrored(t, t.TempDir(), from); err != nil || !strings.Contains(log, "repository_copy_failed") ||
		!strings.Contains(log, "expect 7MvEew==, actual 9dD1Og==") {
		t.Error(err, log)
	}
	if got := content(t, m.Dir()); got["walker/1/model.onnx"] != "" || got["walker/3/model.onnx"] == "" {
		t.Errorf("with a wrong byte the copy has %v", got)
	}
	for at, text := range content(t, cache) {
		if strings.Contains(at+text+log, secret) || strings.Contains(at+text+log, "AKIASECRET") {
			t.Errorf("%s has credentials: %s", at, text)
		}
	}
}

// TestWrittenWhileRead: what was written after it was listed is not taken for what was listed, with any service.
func TestWrittenWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bucket{memblob.OpenBucket(nil)}
		defer b.Close()
		for want := range 2 {
			if err := b.WriteAll(t.Context(), "m/1/model.onnx", []byte("one"), nil); err != nil {
				t.Fatal(err)
			}
			l, err := b.List(t.Context(), "")
			if err != nil || len(l.Objects) != 1 {
				t.Fatal(l, err)
			}
			if time.Sleep(time.Second); want > 0 {
				err = b.WriteAll(t.Context(), "m/1/model.onnx", []byte("two"), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			file, err := b.Open(t.Context(), &l.Objects[0])
			if want == 0 && err == nil {
				err = file.Close()
			}
			if (err != nil) != (want > 0) {
				t.Errorf("written %d times after the listing: %v", want, err)
			}
		}
	})
}

// tarOf packs entries: of a name that ends in / a folder, of content that begins with -> a link.
func tarOf(t *testing.T, entries ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		at, text := entries[i], entries[i+1]
		h := &tar.Header{Name: at, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if link, is := strings.CutPrefix(text, "->"); is {
			h.Typeflag, h.Linkname, h.Size, text = tar.TypeSymlink, link, 0, ""
		}
		if strings.HasSuffix(at, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// push pushes layers, and returns the URL of the artifact.
func (s *service) push(t *testing.T, tag string, config types.MediaType, layers ...mutate.Addendum) string {
	t.Helper()
	image, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	if config != "" {
		image = mutate.ConfigMediaType(image, config)
	}
	at := strings.TrimPrefix(s.URL, "http://") + "/team/walker:" + tag
	reference, err := name.ParseReference(at)
	if err == nil {
		err = remote.Write(reference, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "oci://" + at
}

func layer(content []byte, kind types.MediaType, at string) mutate.Addendum {
	a := mutate.Addendum{Layer: static.NewLayer(content, kind), MediaType: kind}
	if at != "" {
		a.Annotations = map[string]string{filePath: at}
	}
	return a
}

func TestRegistry(t *testing.T) {
	s := serve(t, registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, 0))))
	const pack = "application/vnd.cncf.model."
	for what, c := range map[string]struct {
		config types.MediaType
		layers []mutate.Addendum
		want   map[string]string // nil: a fault
		fault  string
	}{
		"image": {layers: []mutate.Addendum{
			layer(gzipped(t, tarOf(t, "etc/passwd", "root", "etc/link", "->/etc/passwd", "models/", "",
				"./models/m/1/model.onnx", "old", "models/m/2/model.onnx", "2", "models/gone/1/model.onnx", "x",
				"models/hid/1/model.onnx", "x")), types.OCILayer, ""),
			layer(tarOf(t, "/models/m/1/model.onnx", "new", "models/.wh.gone", "", "models/hid/.wh..wh..opq", "",
				"models/hid/2/model.onnx", "y", "models/synth/1/", ""), types.OCIUncompressedLayer, ""),
		}, want: map[string]string{"m/1/model.onnx": "new", "m/2/model.onnx": "2", "hid/2/model.onnx": "y"}},
		"modelpack": {config: pack + "config.v1+json", layers: []mutate.Addendum{
			layer([]byte("raw"), pack+"weight.v1.raw", "model.onnx"),
			layer(gzipped(t, tarOf(t, "w/a.bin", "weights")), pack+"weight.v1.tar+gzip", "w"),
			layer([]byte("a: 1"), pack+"weight.config.v1.raw", "model.yaml"),
		}, want: map[string]string{"walker/1/model.onnx": "raw", "walker/1/w/a.bin": "weights", "walker/model.yaml": "a: 1"}},
		"up": {layers: []mutate.Addendum{
			layer(tarOf(t, "models/../../x", "y"), types.OCIUncompressedLayer, ""),
		}, fault: "unsafe tar path"},
		"link": {layers: []mutate.Addendum{
			layer(tarOf(t, "models/m/1/model.onnx", "->/etc/passwd"), types.OCIUncompressedLayer, ""),
		}, fault: "link or a device"},
		"pack up": {config: pack + "config.v1+json", layers: []mutate.Addendum{
			layer([]byte("raw"), pack+"weight.v1.raw", "../model.onnx"),
		}, fault: "cannot be the path"},
		"none": {layers: []mutate.Addendum{layer(tarOf(t, "etc/x", "y"), types.OCIUncompressedLayer, "")}, fault: "no model"},
	} {
		from := s.push(t, strings.ReplaceAll(what, " ", "-"), c.config, c.layers...)
		cache := t.TempDir()
		m, log, err := mirrored(t, cache, from)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %v; want %q", what, err, c.fault)
			}
			continue
		}
		if err != nil || !maps.Equal(content(t, m.Dir()), c.want) || !strings.Contains(log, `"digest":"sha256:`) {
			t.Errorf("%s: %v\n%s", what, err, log)
			continue
		}
		before := s.calls
		first := m
		if m, log, err = mirrored(t, cache, from); err != nil || s.calls != before ||
			!maps.Equal(content(t, m.Dir()), c.want) || !strings.Contains(log, `"digest":"sha256:`) {
			t.Errorf("%s: the second start: %v, %d calls\n%s", what, err, s.calls-before, log)
		}
		// It is not copied again at once, whatever is missing.
		err = errors.Join(os.RemoveAll(m.Dir()+"/walker"), os.RemoveAll(m.Dir()+"/m"))
		if first.Refresh(t.Context()); err != nil || s.calls != before {
			t.Errorf("%s: while layers wait, %d calls, %v", what, s.calls-before, err)
		}
		config := digestOf(t, from)
		s.turn = func(path string) bool { return strings.Contains(path, "/blobs/") && !strings.Contains(path, config) }
		_, log, err = mirrored(t, t.TempDir(), from)
		both := regexp.MustCompile(`got .?"sha256:\w{64}.?", want .?"sha256:\w{64}`)
		if text := log + fmt.Sprint(err); err == nil || !both.MatchString(text) {
			t.Errorf("%s: with a wrong byte: %v\n%s", what, err, log)
		}
		s.turn = func(string) bool { return false }
	}
	for _, from := range []string{
		"oci://reg/repo?password=hunter2", "s3://b?secret_access_key=hunter2", "azblob://b?sas=hunter2",
	} {
		if _, log, err := mirrored(t, t.TempDir(), from); err == nil || strings.Contains(log+err.Error(), "hunter2") {
			t.Errorf("%s: %v\n%s", from, err, log)
		}
	}
	bomb := gzipped(t, tarOf(t, "models/m/1/model.onnx", strings.Repeat("0", 3000)))
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("models/m/1/%d", i), "")
	}
	for tag, bomb := range map[string][]byte{"bomb": bomb, "many": tarOf(t, many...)} {
		from := s.push(t, tag, "", layer(bomb, types.OCILayer, ""))
		var log bytes.Buffer
		config := Config{Cache: t.TempDir(), Most: 7000, Log: slog.New(slog.NewJSONHandler(&log, nil))}
		_, err := Open(t.Context(), from, config)
		if err == nil || !strings.Contains(err.Error(), "--max-upload-bytes") {
			t.Errorf("%s: %v\n%s", tag, err, &log)
		}
	}
}

// digestOf returns the digest of an artifact's config, which is a blob, too.
func digestOf(t *testing.T, from string) string {
	t.Helper()
	reference, err := name.ParseReference(strings.TrimPrefix(from, "oci://"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(reference)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}
