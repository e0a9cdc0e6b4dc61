package cloud

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingGoesWhileSomethingWaits: what is gone at the source stays while a part of its model cannot be had, since
// that may be what was to take its place.
func TestNothingGoesWhileSomethingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memory{files: map[string]string{"walker/1/model.onnx": "one"}}
		m, log, err := start(t, t.TempDir(), "s3://bucket", source)
		if err != nil {
			t.Fatal(err, log)
		}
		source.files = map[string]string{"walker/2/model.onnx": "two"}
		source.wrong = map[string]func(*Object) string{"walker/2/model.onnx": func(*Object) string { return "tw" }}
		for range 4 {
			m.Refresh(t.Context())
			if got := content(t, m.Dir()); got["walker/1/model.onnx"] != "one" || len(got) != 1 {
				t.Fatalf("the copy has %v", got)
			}
		}
		source.wrong = nil
		time.Sleep(refusedFor)
		if m.Refresh(t.Context()); !maps.Equal(content(t, m.Dir()), source.files) {
			t.Errorf("after a minute the copy has %v", content(t, m.Dir()))
		}
	})
}

// TestNoFilesLeft: a start that runs out of file descriptors, at whatever step, takes nothing out of the cache.
func TestNoFilesLeft(t *testing.T) {
	cache := t.TempDir()
	first, log, err := start(t, cache, "oci://reg/repo", &memory{files: two[0], digest: "sha256:1"})
	if err != nil {
		t.Fatal(err, log)
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
			t.Error(err)
		}
	}
	config := Config{Cache: cache, Log: slog.New(slog.DiscardHandler)}
	dial := func(context.Context, address) (Source, error) { return nil, syscall.EMFILE }
	faults := 0
	try := func(n uint64, step int) (ended bool) {
		limit(n)
		_, err := open(&counted{t.Context(), &step, func() { limit(0) }}, "oci://reg/repo", config, dial)
		limit(before.Cur)
		if got := content(t, first.Dir()); !maps.Equal(got, two[0]) {
			t.Fatalf("with %d descriptors, %v: the copy has %v", n, err, got)
		}
		if err == nil {
			return true
		}
		if !strings.Contains(err.Error(), syscall.EMFILE.Error()) || !strings.Contains(err.Error(), cache) {
			t.Fatalf("with %d descriptors: %v", n, err)
		}
		faults++
		return false
	}
	for n := uint64(3); !try(n, -1); n++ {
	}
	for step := 1; !try(before.Cur, step); step++ {
	}
	if faults < 9 {
		t.Errorf("%d starts failed", faults)
	}
}

// counted calls then when it was asked so many times whether it has ended.
type counted struct {
	context.Context //nolint:containedctx // it is one
	left            *int
	then            func()
}

func (c counted) Err() error {
	if *c.left--; *c.left == 0 {
		c.then()
	}
	return c.Context.Err()
}

// TestUnreadableList: nothing goes that cannot be told from what was copied.
func TestUnreadableList(t *testing.T) {
	source := &memory{files: two[0]}
	m, log, err := start(t, t.TempDir(), "s3://bucket", source)
	if err != nil {
		t.Fatal(err, log)
	}
	list := filepath.Join(m.Dir(), "walker", listFile)
	if err := errors.Join(os.Remove(list), os.Mkdir(list, 0o700)); err != nil {
		t.Fatal(err)
	}
	source.files = two[1]
	m.Refresh(t.Context())
	if m.Refresh(t.Context()); !maps.Equal(content(t, m.Dir()), two[0]) {
		t.Errorf("the copy has %v", content(t, m.Dir()))
	}
}

// TestSecondStart: another process on the cache takes nothing over that is being written at the source, and
// everything that is complete there.
func TestSecondStart(t *testing.T) {
	cache := t.TempDir()
	source := &memory{files: maps.Clone(two[0])}
	if _, log, err := start(t, cache, "s3://bucket", source); err != nil ||
		!strings.Contains(log, `"event":"repository_copying","source":"s3://bucket","digest":"",`) ||
		!strings.Contains(log, `"files":6,"bytes":22}`) {
		t.Fatal(err, log)
	}
	source.files["walker/4/model.onnx"] = "half"
	source.listed = func() {
		if source.files["walker/4/model.onnx"] == "half" && len(source.lists) == 3 {
			source.files["walker/4/model.onnx"] = "whole"
		}
	}
	m, log, err := start(t, cache, "s3://bucket", source)
	if err != nil || !maps.Equal(content(t, m.Dir()), two[0]) || strings.Contains(log, "repository_offline") {
		t.Errorf("the copy has %v, %v\n%s", content(t, m.Dir()), err, log)
	}
	m, log, err = start(t, cache, "s3://bucket", source)
	if err != nil || !maps.Equal(content(t, m.Dir()), source.files) {
		t.Errorf("the copy has %v, %v\n%s", content(t, m.Dir()), err, log)
	}
}

// TestSharedCache: who waits for another process says so once, and does not act on what it listed before that.
func TestSharedCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memory{files: maps.Clone(two[0])}
		m, log, err := startLogged(t, t.TempDir(), "s3://bucket", source)
		if err != nil {
			t.Fatal(err, log)
		}
		delete(source.files, "arm/1/model.onnx")
		if soon := m.Refresh(t.Context()); soon != settle {
			t.Fatalf("the next look is in %v", soon)
		}
		other, err := os.Open(filepath.Join(m.home, "lock"))
		if err == nil {
			err = syscall.Flock(int(other.Fd()), syscall.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		soon := make(chan time.Duration)
		go func() { soon <- m.Refresh(t.Context()) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(source.lists) != 3 || strings.Count(log.String(), `"repository_locked"`) != 1 {
			t.Errorf("%d listings while another process has the lock:\n%s", len(source.lists), log)
		}
		arm := filepath.Join(m.Dir(), "arm") // the other process has it change
		to, err := os.Readlink(arm)
		if err = errors.Join(err, os.Rename(filepath.Join(m.Dir(), to), filepath.Join(m.Dir(), copiesDir, "other")),
			os.Remove(arm), os.Symlink(copiesDir+"/other", arm),
			os.WriteFile(filepath.Join(arm, listFile), []byte(`{"1/model.onnx":{"mark":"other"}}`), 0o600),
			other.Close()); err != nil {
			t.Fatal(err)
		}
		if got := <-soon; got != settle || content(t, m.Dir())["arm/1/model.onnx"] != "arm" {
			t.Errorf("the next look is in %v, the copy has %v", got, content(t, m.Dir()))
		}
	})
}

// TestFailuresPause: what could be copied but not put in its place is not copied again at once.
func TestFailuresPause(t *testing.T) {
	source := &memory{files: maps.Clone(two[0])}
	m, log, err := start(t, t.TempDir(), "s3://bucket", source)
	if err == nil {
		err = os.MkdirAll(filepath.Join(m.Dir(), "leg", "x"), 0o700) // stands in the way of the link
	}
	if err != nil {
		t.Fatal(err, log)
	}
	source.files["leg/7/model.onnx"] = "leg"
	for range 4 {
		m.Refresh(t.Context())
	}
	opened := slices.DeleteFunc(source.opened, func(at string) bool { return at != "leg/7/model.onnx" })
	if len(opened) != 1 {
		t.Errorf("leg was copied %d times", len(opened))
	}
}

// TestOfflineOnce: the cause that a repository cannot be followed is told once until it can be.
func TestOfflineOnce(t *testing.T) {
	source := &memory{files: maps.Clone(two[0])}
	m, log, err := startLogged(t, t.TempDir(), "s3://bucket", source)
	if err != nil {
		t.Fatal(err, log)
	}
	told := func(want int) {
		t.Helper()
		for range 3 {
			m.Refresh(t.Context())
		}
		if got := strings.Count(log.String(), `"repository_offline"`); got != want {
			t.Errorf("told %d times; want %d:\n%s", got, want, log)
		}
	}
	source.files = map[string]string{"walker/model.yaml": "a: 1"} // and no version
	told(1)
	source.files = two[0]
	told(1)
	source.fault = fs.ErrPermission
	told(2)
	if text := log.Bytes(); !bytes.Contains(text, []byte("credentials")) ||
		bytes.Index(text, []byte("credentials")) < bytes.LastIndex(text, []byte(`"repository_copied"`)) {
		t.Errorf("credentials are named where it does not answer only:\n%s", text)
	}
}

// hanging stops to answer within its files.
type hanging struct{ *memory }

func (s hanging) Open(ctx context.Context, o *Object) (io.ReadCloser, error) {
	first := strings.NewReader(s.files[o.At][:1])
	return io.NopCloser(io.MultiReader(first, reading(func([]byte) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}))), nil
}

// TestFileThatStops: a file that does not go on is given up.
func TestFileThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, source := time.Now(), hanging{&memory{files: two[1]}}
		_, log, err := start(t, t.TempDir(), "s3://bucket", source)
		if took := time.Since(began); err == nil || took%coldPatience != 0 || !strings.Contains(log, "nothing came for 30s") {
			t.Errorf("%v after %v:\n%s", err, took, log)
		}
	})
}
