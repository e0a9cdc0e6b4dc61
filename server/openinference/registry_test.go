package openinference_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/openinference"
	"github.com/weftserve/weft/server/servertest"
	"github.com/weftserve/weft/server/status"
)

const plenty = 1 << 30

// TestRegister: what is no shared memory, or does not have the bytes, is refused, and the error says what was wrong.
func TestRegister(t *testing.T) {
	key, memory := servertest.SharedMemory(t, 100)
	beside := func(kind string, create func(path string) error) string {
		t.Helper()
		path := memory.Name() + kind
		if err := create(path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return key + kind
	}
	link := beside("link", func(path string) error { return os.Symlink(memory.Name(), path) })
	folder := beside("folder", func(path string) error { return os.Mkdir(path, 0o700) })
	pipe := beside("pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) })
	for name, c := range map[string]struct {
		name, key    string
		offset, size uint64
		says         string
	}{
		"no name":        {"", key, 0, 100, "name: "},
		"long name":      {strings.Repeat("x", 256), key, 0, 100, "256 bytes"},
		"no key":         {"a", "", 0, 100, "key: "},
		"a slash":        {"a", "/", 0, 100, "key: "},
		"a path":         {"a", "/shm" + key, 0, 100, "one name behind a slash"},
		"up":             {"a", "/..", 0, 100, "one name behind a slash"},
		"up and back":    {"a", "/../shm" + key, 0, 100, "one name behind a slash"},
		"here":           {"a", "/.", 0, 100, "one name behind a slash"},
		"two slashes":    {"a", "/" + key, 0, 100, "one name behind a slash"},
		"a zero byte":    {"a", key + "\x00", 0, 100, "one name behind a slash"},
		"a long key":     {"a", "/" + strings.Repeat("x", 256), 0, 100, "257 bytes"},
		"not there":      {"a", key + "not", 0, 100, "no such file"},
		"a link":         {"a", link, 0, 100, "too many levels of symbolic links"},
		"a folder":       {"a", folder, 0, 100, "is a directory"},
		"a pipe":         {"a", pipe, 0, 100, "which is none"},
		"no bytes":       {"a", key, 0, 0, "at least 1 byte"},
		"too many bytes": {"a", key, 0, 101, "at most the 100 bytes"},
		"past the end":   {"a", key, 1, 100, "100 bytes at offset 1"},
		"far past":       {"a", key, math.MaxUint64, 1, "1 bytes at offset 18446744073709551615"},
		"an overflow":    {"a", key, math.MaxUint64 - 9, 20, "20 bytes at offset"},
		"a large size":   {"a", key, 0, math.MaxUint64, "at most the 100 bytes"},
		"two in all":     {"a", key, math.MaxUint64, math.MaxUint64, "at most the 100 bytes"},
	} {
		r := openinference.NewRegistry(plenty)
		err := r.Register(c.name, c.key, c.offset, c.size)
		if _, is := errors.AsType[*tensor.FieldError](err); !is || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one with %q", name, err, c.says)
		}
	}
	r := openinference.NewRegistry(plenty)
	if err := r.Register("a", key, 10, 90); err != nil {
		t.Fatal(err)
	}
	err := r.Register("a", key, 0, 10)
	if _, is := errors.AsType[*status.ExistsError](err); !is || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a second one of the name: %v", err)
	}
	if err := r.Register("b", strings.TrimPrefix(key, "/"), 0, 1); err != nil { // as shm_open takes it on Linux
		t.Error(err)
	}
	all, err := r.List("")
	want := fmt.Sprint([]openinference.Region{{"a", key, 10, 90}, {"b", key[1:], 0, 1}})
	if fmt.Sprint(all) != want || err != nil {
		t.Errorf("registered are %v, %v, want %v", all, err, want)
	}
	if gone := r.Unregister("c"); len(gone) != 0 {
		t.Errorf("%v have gone", gone)
	}
	if gone := r.Unregister(""); fmt.Sprint(gone) != "[a b]" {
		t.Errorf("%v have gone", gone)
	}
	_, err = r.List("a")
	if _, is := errors.AsType[*status.AbsentError](err); !is || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("one that was unregistered: %v", err)
	}
}

// TestManyRegions: there is a bound, and room again when some were unregistered.
func TestManyRegions(t *testing.T) {
	key, _ := servertest.SharedMemory(t, 1)
	r := openinference.NewRegistry(plenty)
	defer r.Unregister("")
	for i := range 1024 {
		if err := r.Register(strconv.Itoa(i), key, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Register("more", key, 0, 1); err == nil || !strings.Contains(err.Error(), "at most 1024 regions") {
		t.Errorf("one more: %v", err)
	}
	r.Unregister("7")
	if err := r.Register("more", key, 0, 1); err != nil {
		t.Error(err)
	}
}

// heap is a tensor.Memory.
type heap struct{ lent int }

func (h *heap) Get(size int) *[]byte {
	h.lent++
	data := make([]byte, size)
	return &data
}
func (h *heap) Put(*[]byte) { h.lent-- }

// TestParts: of made-up regions and parts, those are read and written that lie within, and nothing else changes.
func TestParts(t *testing.T) {
	const size = 64
	key, memory := servertest.SharedMemory(t, size)
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() uint64 { // mostly near the bounds
		switch rng.IntN(8) {
		case 0:
			return rng.Uint64()
		case 1:
			return math.MaxUint64 - rng.Uint64N(size)
		case 2:
			return math.MaxInt64 - rng.Uint64N(size)
		default:
			return rng.Uint64N(1 + rng.Uint64N(size+3))
		}
	}
	within := func(offset, bytes, most uint64) bool { // in numbers that do not overflow
		return bytes <= most && offset <= most && offset+bytes <= most
	}
	content := make([]byte, size)
	parts, registered := 0, 0
	for range 20_000 {
		r := openinference.NewRegistry(plenty)
		at, bytesOf := number(), number()
		err := r.Register("r", key, at, bytesOf)
		if want := bytesOf > 0 && within(at, bytesOf, size); (err == nil) != want {
			t.Fatalf("registering %d bytes at %d of %d: %v", bytesOf, at, size, err)
		}
		if err != nil {
			continue
		}
		registered++
		offset, n := number(), number()
		p, err := r.Part(`inputs["x"]`, "r", offset, n)
		if want := within(offset, n, bytesOf); (err == nil) != want {
			t.Fatalf("%d bytes at %d of a region of %d: %v", n, offset, bytesOf, err)
		}
		if err == nil {
			parts++
			for i := range content {
				content[i] = byte(rng.Uint32())
			}
			if _, err := memory.WriteAt(content, 0); err != nil {
				t.Fatal(err)
			}
			want := content[at+offset : at+offset+n]
			got, err := p.Read(&heap{})
			if err != nil || !bytes.Equal(*got, want) {
				t.Fatalf("read %v, %v, want %v", got, err, want)
			}
			for i := range want { // in content, too
				want[i] = byte(rng.Uint32())
			}
			if err := p.Write(want); err != nil {
				t.Fatal(err)
			}
			now := make([]byte, size)
			if _, err := memory.ReadAt(now, 0); err != nil || !bytes.Equal(now, content) {
				t.Fatalf("written: %v, %v, want %v", now, err, content)
			}
			p.Release()
		}
		r.Unregister("")
	}
	if parts < 500 || registered-parts < 500 {
		t.Errorf("%d of %d parts lie within: the numbers show nothing", parts, registered)
	}
}

// TestTruncated: memory that became smaller is an error that says so, and does not become larger.
func TestTruncated(t *testing.T) {
	key, memory := servertest.SharedMemory(t, 100)
	r, h := openinference.NewRegistry(plenty), &heap{}
	if err := r.Register("r", key, 10, 90); err != nil {
		t.Fatal(err)
	}
	p, err := r.Part(`inputs["x"]`, "r", 40, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if err := memory.Truncate(99); err != nil {
		t.Fatal(err)
	}
	const want = `expected 50 bytes at offset 40 of region "r", got 49 bytes: the shared memory is smaller`
	if _, err := p.Read(h); err == nil || !strings.Contains(err.Error(), want) || h.lent != 0 {
		t.Errorf("reading: %v; %d pieces of memory are lent", err, h.lent)
	}
	if err := p.Write(make([]byte, 50)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("writing: %v", err)
	}
	if info, err := memory.Stat(); err != nil || info.Size() != 99 {
		t.Errorf("it has %d bytes, %v", info.Size(), err)
	}
	if err := p.Write(make([]byte, 49)); err != nil {
		t.Errorf("writing what there is room for: %v", err)
	}
}

// TestBudget: what was read counts until it is released, once for each part.
func TestBudget(t *testing.T) {
	key, _ := servertest.SharedMemory(t, 100)
	r, h := openinference.NewRegistry(150), &heap{}
	if err := r.Register("r", key, 0, 100); err != nil {
		t.Fatal(err)
	}
	part := func() *openinference.Part {
		t.Helper()
		p, err := r.Part(`inputs["x"]`, "r", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := part(), part()
	for range 2 {
		if _, err := first.Read(h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := second.Read(h); err == nil || !strings.Contains(err.Error(), "100 of 150 bytes wait") {
		t.Errorf("beyond the bound: %v", err)
	}
	second.Release()
	first.Release()
	again := part()
	if _, err := again.Read(h); err != nil {
		t.Error(err)
	}
	again.Release()
}

// TestUnregisterWhileInUse: anybody who has a part reads all of it, or finds none; and files are closed in the end.
func TestUnregisterWhileInUse(t *testing.T) {
	key, memory := servertest.SharedMemory(t, 1<<20)
	if _, err := memory.WriteAt(bytes.Repeat([]byte{7}, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	r := openinference.NewRegistry(plenty)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 200 {
				p, err := r.Part(`inputs["x"]`, "r", 0, 1<<20)
				if err != nil {
					continue
				}
				data, err := p.Read(&heap{})
				if err != nil || (*data)[0] != 7 || (*data)[1<<20-1] != 7 {
					t.Error(err)
				}
				p.Release()
			}
		})
	}
	for range 200 {
		if err := r.Register("r", key, 0, 1<<20); err != nil {
			t.Error(err)
		}
		r.Unregister("r")
	}
	users.Wait()
	if err := r.Register("r", key, 0, 1<<20); err != nil {
		t.Fatal(err)
	}
	p, err := r.Part(`inputs["x"]`, "r", 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r.Unregister("r")
	before := opened(t, memory.Name())
	if _, err := p.Read(&heap{}); err != nil {
		t.Error(err)
	}
	p.Release()
	if after := opened(t, memory.Name()); before != 2 || after != 1 { // once by this test
		t.Errorf("while it was used the file was open %d times, and is %d times", before, after)
	}
}

// opened returns how many times this process has a file open.
func opened(t *testing.T, name string) int {
	t.Helper()
	open := 0
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && to == name {
			open++
		}
	}
	return open
}
