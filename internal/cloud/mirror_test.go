package cloud

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a source in memory.
type memory struct {
	files  map[string]string
	digest string
	fault  error                           // of List
	wrong  map[string]func(*Object) string // gives other bytes than those listed, or changes what is declared
	read   func()                          // after each byte
	lists  []string                        // the digests that List was asked for
	listed func()                          // at each List
	opened []string                        // what Open was asked for
}

func (s *memory) List(_ context.Context, digest string) (l Listing, err error) {
	s.lists = append(s.lists, digest)
	if s.listed != nil {
		s.listed()
	}
	for name, content := range s.files {
		sum := sha256.Sum256([]byte(content))
		mark := hex.EncodeToString(sum[:4])
		l.Objects = append(l.Objects, Object{Path: name, At: name, Size: int64(len(content)), Mark: mark})
	}
	l.Digest = s.digest
	return l, s.fault
}

func (s *memory) Open(_ context.Context, o *Object) (io.ReadCloser, error) {
	s.opened = append(s.opened, o.At)
	content := strings.NewReader(s.files[o.At])
	if s.wrong[o.At] != nil {
		content.Reset(s.wrong[o.At](o))
	}
	return io.NopCloser(reading(func(p []byte) (int, error) {
		n, err := content.Read(p[:1])
		if s.read != nil {
			s.read()
		}
		return n, err
	})), nil
}

// two are two states of a repository: version 1 of walker is another one in the second, as are its settings, version 2
// is gone, as is the model arm, and version 3 and the model leg are new.
var two = [2]map[string]string{
	{
		"walker/model.yaml": "a: 1", "walker/1/model.onnx": "one", "walker/1/data/w.bin": "weights",
		"walker/2/model.onnx": "two", "walker/warmup/x.json": "{}", "arm/1/model.onnx": "arm",
	},
	{
		"walker/model.yaml": "a: 2", "walker/1/model.onnx": "ONE", "walker/1/data/w.bin": "WEIGHTS",
		"walker/3/model.onnx": "3", "leg/model.yaml": "b: 1", "leg/7/model.onnx": "leg",
	},
}

// start opens a mirror of a source; nil: it does not answer. It returns what was logged.
func start(t *testing.T, cache, from string, source Source) (*Mirror, string, error) {
	t.Helper()
	m, log, err := startLogged(t, cache, from, source)
	return m, log.String(), err
}

// startLogged returns the log, to which the mirror goes on to write.
func startLogged(t *testing.T, cache, from string, source Source) (*Mirror, *bytes.Buffer, error) {
	t.Helper()
	var log bytes.Buffer
	ended := func() error { return nil }
	m, err := open(t.Context(), from, Config{Cache: cache, Log: slog.New(slog.NewJSONHandler(&log, nil))},
		func(ctx context.Context, _ address) (Source, error) {
			ended = ctx.Err
			if source == nil {
				return nil, errors.New("no network")
			}
			return source, nil
		})
	if ended() != nil {
		t.Errorf("the context of the source, which it uses from then on, has ended: %v", ended())
	}
	return m, &log, err
}

// content reads what a server sees in a folder: links are followed, and hidden files passed over.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if hidden(e.Name()) {
			continue
		}
		info, fault := os.Stat(at)
		if err = errors.Join(err, fault); err != nil {
			break
		}
		if info.IsDir() {
			for below, text := range content(t, at) {
				files[e.Name()+"/"+below] = text
			}
			continue
		}
		text, fault := os.ReadFile(at)
		files[e.Name()], err = string(text), errors.Join(err, fault)
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// unitIn is the unit of a path in a repository.
func unitIn(at string) string { return strings.Join(strings.SplitN(at, "/", 3)[:2], "/") }

// isWhole wants every unit in a folder to be as it is in one of the states, and no version to be without its settings.
func isWhole(t *testing.T, what, dir string) (versions int) {
	t.Helper()
	units := map[string]map[string]string{}
	for at, text := range content(t, dir) {
		unit := unitIn(at)
		if units[unit] == nil {
			units[unit] = map[string]string{}
		}
		units[unit][at] = text
	}
	for unit, files := range units {
		if versionNumber.MatchString(filepath.Base(unit)) {
			versions++
		}
		is := func(state map[string]string) bool {
			want := map[string]string{}
			for at, text := range state {
				if unitIn(at) == unit {
					want[at] = text
				}
			}
			return maps.Equal(want, files)
		}
		if !is(two[0]) && !is(two[1]) {
			t.Errorf("%s: unit %s has %v", what, unit, files)
		}
		model, _, _ := strings.Cut(unit, "/")
		if model != "arm" && units[model+"/model.yaml"] == nil {
			t.Errorf("%s: %s is there without settings", what, unit)
		}
	}
	return versions
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestKilledAtAnyByte: wherever a copy is broken off, after each byte and at each step of the file system, a start
// without a network serves whole versions only; with one it has everything.
func TestKilledAtAnyByte(t *testing.T) {
	cache := t.TempDir()
	var moments []string
	moment := func() { moments = append(moments, copyOf(t, cache)) }
	before := fsync
	defer func() { fsync = before }()
	for _, state := range two {
		source := &memory{files: state, read: moment}
		fsync = func(*os.File) error {
			moment()
			return nil
		}
		m, log, err := start(t, cache, "s3://bucket", source)
		if err != nil {
			t.Fatal(err, log)
		}
		if got := content(t, m.Dir()); !maps.Equal(got, state) {
			t.Fatalf("the copy has %v; want %v", got, state)
		}
	}
	fsync = before
	if len(moments) < 80 {
		t.Fatalf("%d moments were tried", len(moments))
	}
	if testing.Short() {
		moments = slices.Concat(moments[:2], moments[51:53], moments[len(moments)-3:])
	}
	nothing := 0
	for i, cache := range moments {
		what := fmt.Sprint("moment ", i)
		m, log, err := start(t, cache, "s3://bucket", nil)
		if strings.Contains(log, "ERROR") {
			t.Errorf("%s: a unit is neither as before nor as it was to be:\n%s", what, log)
		}
		if err != nil {
			nothing++
		} else if isWhole(t, what, m.Dir()) == 0 {
			t.Errorf("%s: no version, and no error", what)
		}
		m, log, err = start(t, cache, "s3://bucket", &memory{files: two[1]})
		if err != nil {
			t.Fatal(what, err, log)
		}
		if got := content(t, m.Dir()); !maps.Equal(got, two[1]) || strings.Contains(log, "ERROR") {
			t.Errorf("%s: with a network the copy has %v\n%s", what, got, log)
		}
		if left, _ := os.ReadDir(m.Dir() + "/" + copiesDir); len(left) != 2 {
			t.Errorf("%s: %v are left", what, left)
		}
	}
	t.Logf("%d moments, at %d of them nothing was complete", len(moments), nothing)
	if nothing == 0 || !testing.Short() && nothing > len(moments)/2 {
		t.Errorf("at %d of %d moments nothing was complete", nothing, len(moments))
	}
}

const victim = "WEFT_CLOUD_VICTIM"

func TestMain(m *testing.M) {
	fsync = func(*os.File) error { return nil } // what is written outlives a process, and tests are many
	settle = time.Millisecond
	cache := os.Getenv(victim)
	if cache == "" {
		os.Exit(m.Run())
	}
	for i := 0; ; i++ { // until it is killed
		source := &memory{files: two[i%2], read: func() { fmt.Print(".") }}
		_, err := open(context.Background(), "s3://bucket", Config{Cache: cache, Log: slog.New(slog.DiscardHandler)},
			func(context.Context, address) (Source, error) { return source, nil })
		if err != nil {
			panic(err)
		}
	}
}

// TestKilledProcess: the same with real processes, which are killed at random moments one after the other.
func TestKilledProcess(t *testing.T) {
	itself, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cache, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	kills := 40
	if testing.Short() {
		kills = 3
	}
	for i := range kills {
		process := exec.CommandContext(t.Context(), itself)
		process.Env = append(os.Environ(), victim+"="+cache)
		out, err := process.StdoutPipe()
		if err == nil {
			err = process.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, out, 1+random.Int64N(150)); err != nil {
			t.Fatal(err)
		}
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = process.Wait() // it was killed
		copied := copyOf(t, cache)
		if m, _, err := start(t, copied, "s3://bucket", nil); err == nil {
			isWhole(t, fmt.Sprint("kill ", i), m.Dir())
		} else if i > 20 {
			t.Errorf("kill %d: nothing is left: %v", i, err)
		}
	}
}

// TestWrongByte: what differs from what the source declares, or from what was copied, is not served, with both
// digests in the log. The other versions are.
func TestWrongByte(t *testing.T) {
	sum := sha256.Sum256([]byte("onE"))
	bad := hex.EncodeToString(sum[:])
	good := strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		wrong  func(*Object) string
		digest [2]string
	}{
		"sha256": {wrong: func(o *Object) string { o.SHA256 = good; return "onE" }, digest: [2]string{bad, good}},
		"md5": {
			wrong:  func(o *Object) string { o.MD5 = bytes.Repeat([]byte{1}, 16); return "onE" },
			digest: [2]string{fmt.Sprintf("%x", md5.Sum([]byte("onE"))), strings.Repeat("01", 16)},
		},
		"cut off": {wrong: func(*Object) string { return "on" }, digest: [2]string{"2 bytes", "3 were listed"}},
	} {
		source := &memory{files: maps.Clone(two[0]), wrong: map[string]func(*Object) string{"walker/1/model.onnx": c.wrong}}
		cache := t.TempDir()
		m, log, err := start(t, cache, "s3://bucket", source)
		if err != nil {
			t.Fatal(name, err)
		}
		if !strings.Contains(log, c.digest[0]) || !strings.Contains(log, c.digest[1]) {
			t.Errorf("%s: the log lacks %v:\n%s", name, c.digest, log)
		}
		want := maps.Clone(two[0])
		maps.DeleteFunc(want, func(at, _ string) bool { return unitIn(at) == "walker/1" })
		if got := content(t, m.Dir()); !maps.Equal(got, want) {
			t.Errorf("%s: the copy has %v", name, got)
		}
		// It is not fetched again at each look, but is at the next start.
		source.wrong = nil
		source.files = two[0]
		if m.Refresh(t.Context()); name == "md5" && len(content(t, m.Dir())) != len(want) {
			t.Errorf("%s: it was fetched again at once", name)
		}
		if m, _, err = start(t, cache, "s3://bucket", source); err != nil || !maps.Equal(content(t, m.Dir()), two[0]) {
			t.Errorf("%s: after a repair %v, %v", name, content(t, m.Dir()), err)
		}
	}
}

// TestWrongSettings: a model whose settings cannot be had stays as it was, since its versions would have others.
func TestWrongSettings(t *testing.T) {
	cut := func(*Object) string { return "a" }
	source := &memory{files: two[1], wrong: map[string]func(*Object) string{"walker/model.yaml": cut}}
	m, log, err := start(t, t.TempDir(), "s3://bucket", source)
	want := map[string]string{"leg/model.yaml": "b: 1", "leg/7/model.onnx": "leg"}
	if err != nil || !maps.Equal(content(t, m.Dir()), want) {
		t.Fatal(err, log)
	}
	cache := t.TempDir()
	if _, log, err = start(t, cache, "s3://bucket", &memory{files: two[0]}); err != nil {
		t.Fatal(err, log)
	}
	m, log, err = start(t, cache, "s3://bucket", source)
	maps.Copy(want, two[0])
	delete(want, "arm/1/model.onnx")
	if err != nil || !maps.Equal(content(t, m.Dir()), want) {
		t.Error(err, content(t, m.Dir()), log)
	}
}

// TestDamagedCache: a changed, missing or foreign file in the cache keeps its version from being served, or its
// model if it is of the settings, until it is fetched again.
func TestDamagedCache(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		gone   func(unit string) bool
		told   []string
	}{
		"flipped": {
			func(dir string) error { return os.WriteFile(dir+"/walker/1/model.onnx", []byte("onE"), 0o600) },
			func(unit string) bool { return unit == "walker/1" },
			[]string{fmt.Sprintf("%x", sha256.Sum256([]byte("onE"))), fmt.Sprintf("%x", sha256.Sum256([]byte("one")))},
		},
		"missing": {
			func(dir string) error { return os.Remove(dir + "/walker/1/data/w.bin") },
			func(unit string) bool { return unit == "walker/1" },
			[]string{"1/data/w.bin has the SHA-256", "it is missing"},
		},
		"added": {
			func(dir string) error { return os.WriteFile(dir+"/walker/1/more", nil, 0o600) },
			func(unit string) bool { return unit == "walker/1" },
			[]string{"1/more has the SHA-256"},
		},
		"link": {
			func(dir string) error {
				return errors.Join(os.Remove(dir+"/arm/1/model.onnx"), os.Symlink("/etc/passwd", dir+"/arm/1/model.onnx"))
			},
			func(unit string) bool { return unit == "arm/1" },
			[]string{"no regular file"},
		},
		"settings": {
			func(dir string) error { return os.WriteFile(dir+"/walker/model.yaml", []byte("a: 3"), 0o600) },
			func(unit string) bool { return strings.HasPrefix(unit, "walker/") },
			[]string{"model.yaml has the SHA-256"},
		},
		"foreign link": {
			func(dir string) error {
				return errors.Join(os.MkdirAll(dir+"/../x/y", 0o700), os.Symlink("../x", dir+"/other"))
			},
			func(string) bool { return false },
			[]string{"other", "not copied here"},
		},
		"foreign": {
			func(dir string) error {
				return errors.Join(os.MkdirAll(dir+"/walker/9", 0o700), os.WriteFile(dir+"/walker/9/model.onnx", nil, 0o600))
			},
			func(string) bool { return false }, nil,
		},
	} {
		for _, digest := range []string{"", "sha256:1"} {
			cache := t.TempDir()
			source := &memory{files: two[0], digest: digest}
			m, _, err := start(t, cache, "oci://reg/repo", source)
			if err == nil {
				err = c.damage(m.Dir())
			}
			if err != nil {
				t.Fatal(err)
			}
			again := copyOf(t, cache)
			m, log, err := start(t, cache, "oci://reg/repo", nil)
			if err != nil {
				t.Fatal(name, err)
			}
			want := maps.Clone(two[0])
			maps.DeleteFunc(want, func(at, _ string) bool { return c.gone(unitIn(at)) })
			if got := content(t, m.Dir()); !maps.Equal(got, want) {
				t.Errorf("%s: the copy has %v", name, got)
			}
			for _, text := range c.told {
				if !strings.Contains(log, text) {
					t.Errorf("%s: the log lacks %s:\n%s", name, text, log)
				}
			}
			source.lists = nil
			m, _, err = start(t, again, "oci://reg/repo", source)
			if err != nil || !maps.Equal(content(t, m.Dir()), two[0]) ||
				!strings.HasPrefix(name, "foreign") && !slices.Equal(slices.Compact(source.lists), []string{digest}) {
				t.Errorf("%s: with a network %v, %v, asked for %q", name, content(t, m.Dir()), err, source.lists)
			}
		}
	}
}

// TestDigestIsKept: what a digest names is not asked for again.
func TestDigestIsKept(t *testing.T) {
	cache := t.TempDir()
	source := &memory{files: two[0], digest: "sha256:1"}
	if _, log, err := start(t, cache, "oci://reg/repo:tag", source); err != nil || !strings.Contains(log, "sha256:1") {
		t.Fatal(err, log)
	}
	source.files, source.digest = two[1], "sha256:2"
	m, log, err := start(t, cache, "oci://reg/repo:tag", source)
	if err == nil {
		err = os.Mkdir(m.Dir()+"/foreign", 0o700)
	}
	if err != nil || m.Refresh(t.Context()) != 0 || len(source.lists) != 1 || !strings.Contains(log, "sha256:1") {
		t.Errorf("%v, listed for %q:\n%s", err, source.lists, log)
	}
	if !maps.Equal(content(t, m.Dir()), two[0]) {
		t.Errorf("the copy has %v", content(t, m.Dir()))
	}
}

// TestOffline: with versions in the cache a start waits half a second for a source, and serves them; else it waits
// longer, and fails.
func TestOffline(t *testing.T) {
	cache := t.TempDir()
	if m, log, err := start(t, cache, "gs://bucket/models", nil); err == nil ||
		!strings.Contains(err.Error(), "has no version either") {
		t.Errorf("%v, %v:\n%s", m, err, log)
	}
	hangs := func() (took time.Duration, log string, err error) {
		synctest.Test(t, func(t *testing.T) {
			began, end := time.Now(), make(chan struct{})
			defer close(end)
			var text bytes.Buffer
			config := Config{Cache: cache, Log: slog.New(slog.NewJSONHandler(&text, nil))}
			_, err = open(t.Context(), "gs://bucket/models", config,
				func(context.Context, address) (Source, error) {
					<-end
					return nil, errors.New("too late")
				})
			took, log = time.Since(began), text.String()
		})
		return took, log, err
	}
	if took, _, err := hangs(); err == nil || took != coldPatience {
		t.Errorf("%v after %v", err, took)
	}
	if _, _, err := start(t, cache, "gs://bucket/models", &memory{files: two[0]}); err != nil {
		t.Fatal(err)
	}
	if took, log, err := hangs(); err != nil || took != warmPatience || !strings.Contains(log, "repository_offline") {
		t.Errorf("%v after %v:\n%s", err, took, log)
	}
}

// TestRefresh: changes come in once two listings agree, what is gone goes, and nothing goes by a faulty listing.
func TestRefresh(t *testing.T) {
	source := &memory{files: maps.Clone(two[0])}
	m, log, err := start(t, t.TempDir(), "s3://bucket", source)
	if err != nil {
		t.Fatal(err, log)
	}
	look := func(soon time.Duration, want map[string]string) {
		t.Helper()
		if got := m.Refresh(t.Context()); got != soon {
			t.Errorf("the next look is in %v; want %v", got, soon)
		}
		if got := content(t, m.Dir()); !maps.Equal(got, want) {
			t.Errorf("the copy has %v; want %v", got, want)
		}
	}
	look(0, two[0])
	source.files["walker/4/model.onnx"] = "half"
	look(settle, two[0])
	source.files["walker/4/model.onnx"] = "whole"
	look(settle, two[0])
	look(0, source.files)
	source.fault = errors.New("no answer")
	look(0, source.files)
	source.fault, source.files = nil, map[string]string{"README": "moved"}
	look(0, content(t, m.Dir()))
	if len(content(t, m.Dir())) != 7 {
		t.Errorf("the copy has %v", content(t, m.Dir()))
	}
	source.files = two[1]
	m.Refresh(t.Context())
	look(0, two[1])
	if entries, err := os.ReadDir(m.Dir()); err != nil || len(entries) != 3 {
		t.Errorf("the copy has %v, %v", entries, err)
	}
}

// TestLayout: what a source has becomes a repository.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		from, name string
		paths      string
		want       string // units, or what the error says
	}{
		{"s3://b/models", "", "m/1/model.onnx m/1/d/w m/model.yaml m/warmup/x README", "m/1:2 m/model.yaml:1 m/warmup:1"},
		{"s3://b/models", "", "m/1/ m/2/.gitkeep m/.DS_Store .git/x lost+found/1/x m/3/x", "m/3:1"},
		{
			"s3://b/team/walker", "", "model.onnx w.bin model.yaml warmup/x",
			"walker/1:2 walker/model.yaml:1 walker/warmup:1",
		},
		{"s3://walker", "", "1/model.onnx 2/model.onnx config.pbtxt", "walker/1:1 walker/2:1 walker/config.pbtxt:1"},
		{"oci://reg:5000/team/walker:v1", "", "model.onnx", "walker/1:1"},
		{"oci://reg/team/walker@sha256:12", "", "model.onnx", "walker/1:1"},
		{"oci://reg/team/walker@sha256:12", "leg", "1/model.onnx", "leg/1:1"},
		{"s3://b/models", "leg", "m/1/model.onnx", "--name leg: s3://b/models is a repository"},
		{"s3://b/models", "", "m/1/model.onnx model.onnx", `"m/1/model.onnx" and "model.onnx": one is of a repository`},
		{"s3://b/models", "", "m/1/pipeline.yaml 1/model.onnx", `"m/1/pipeline.yaml" and "1/model.onnx"`},
		{"s3://b", "", "../x", `"../x" cannot be the path of a file`},
		{"s3://b", "", "/etc/x", `cannot be the path`},
		{"s3://b", "", "m/1/../../x", `cannot be the path`},
		{"s3://b", "", `m/1/a\b`, `cannot be the path`},
		{"s3://b", "", "m//1/x", `cannot be the path`},
	} {
		a, err := parse(c.from, c.name)
		if err != nil {
			t.Fatal(err)
		}
		var objects []Object
		for at := range strings.FieldsSeq(c.paths) {
			objects = append(objects, Object{Path: at})
		}
		models, err := a.layout(objects)
		var got []string
		for _, model := range slices.Sorted(maps.Keys(models)) {
			units := models[model].units()
			for _, unit := range slices.Sorted(maps.Keys(units)) {
				got = append(got, model+"/"+unit+":"+strconv.Itoa(len(units[unit])))
			}
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if text := strings.Join(got, " "); text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%s with %s is %s; want %s", c.from, c.paths, text, c.want)
		}
	}
}

// TestNoSecrets: credentials are refused in URLs, and are neither in the log nor in the cache, whatever an SDK says.
func TestNoSecrets(t *testing.T) {
	const secret = "hunter2"
	for _, from := range []string{
		"s3://key:" + secret + "@bucket/models", "s3://bucket?endpoint=http://a:" + secret + "@host",
		"s3://bucket?endpoint=http://a:" + secret + "%40host", "s3://bucket?region=" + secret + "%zz",
		"s3://a b:" + secret + "@c",
	} {
		m, log, err := start(t, t.TempDir(), from, &memory{files: two[0]})
		if err == nil || strings.Contains(err.Error()+log, secret) {
			t.Errorf("%s: %v, %v\n%s", from, m, err, log)
		}
	}
	cache := t.TempDir()
	fault := fmt.Errorf(`Get "https://u:%[1]s@host/c?sig=%[1]s&x=1": refused; https://host/?sig=%[1]s, `+
		`https://host?sig=a@b&x=%[1]s`, secret)
	source := &memory{files: two[0], fault: fault}
	if _, log, err := start(t, cache, "azblob://c/p?domain=x", source); err == nil ||
		strings.Contains(err.Error()+log, secret) || !strings.Contains(err.Error(), "https://host/c") {
		t.Errorf("%v\n%s", err, log)
	}
	source.fault = nil
	if _, _, err := start(t, cache, "azblob://c/p?domain=x", source); err != nil {
		t.Fatal(err)
	}
	source.fault = fault
	if _, log, err := start(t, cache, "azblob://c/p?domain=x", source); err != nil || strings.Contains(log, secret) ||
		!strings.Contains(log, "repository_offline") {
		t.Errorf("%v\n%s", err, log)
	}
	for at, text := range content(t, cache) {
		if strings.Contains(at+text, secret) {
			t.Errorf("%s has %s", at, text)
		}
	}
}

// TestCacheMustBeWritable: the fault names the flag.
func TestCacheMustBeWritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := start(t, file, "s3://bucket", &memory{files: two[0]})
	if err == nil || !strings.Contains(err.Error(), "--cache") {
		t.Error(err)
	}
}
