package record

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// answered is an entry of a request that was answered.
func answered(at time.Time, episode string, number float32) Entry {
	return Entry{
		At:   at,
		Code: "OK",
		Request: &weftv1.PredictRequest{
			Model: &weftv1.ModelSpec{Name: "walker"}, EpisodeId: episode,
			RequestId: fmt.Sprintf("%s-%v", episode, number),
			Priority:  weftv1.Priority_PRIORITY_CRITICAL_PLUS, Outputs: []string{"y"},
			Inputs: map[string]*weftv1.Tensor{
				"x": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 2}, FloatValues: []float32{number, 2}},
				"z": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 1}, Raw: []byte{0, 0, 0, 1}},
			},
		},
		Response: &weftv1.PredictResponse{
			Model: &weftv1.ModelSpec{Name: "walker", VersionChoice: &weftv1.ModelSpec_Version{Version: 7}},
			Outputs: map[string]*weftv1.Tensor{
				"y": {Dtype: weftv1.DataType_DATA_TYPE_FP32, Shape: []int64{1, 1}, FloatValues: []float32{number * 2}},
			},
			Execution: &weftv1.ExecutionInfo{
				Slot: "canary", QueueUs: 11, ComputeUs: 22, DeviceUs: 5, Device: "cpu", BatchRequests: 3, BatchRows: 4,
				PaddedRows: 1,
				Executions: 1, FlushReason: weftv1.FlushReason_FLUSH_REASON_FULL,
			},
		},
	}
}

// begin starts a writer that records into the configuration's directory, or a new one, through create (nil: the disk).
func begin(t *testing.T, c Config, create creator) *Writer {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if create == nil {
		create = createFile
	}
	w, err := newWriter(c, create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, w) })
	return w
}

func end(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(t.Context()); err != nil && t.Context().Err() == nil {
		t.Error(err)
	}
}

// readAll returns the entries, and the damage as text with the directory cut off.
func readAll(t *testing.T, r *Reader) (entries []*Entry, damage []string) {
	t.Helper()
	for e, err := range r.Entries() {
		if err == nil {
			entries = append(entries, e)
			continue
		}
		damaged, ok := errors.AsType[*DamageError](err)
		if !ok || e != nil {
			t.Fatalf("entry %v, error %v; want none, and a *DamageError", e, err)
		}
		damage = append(damage, strings.ReplaceAll(err.Error(), filepath.Dir(damaged.File)+"/", ""))
	}
	return entries, damage
}

func open(t *testing.T, paths ...string) *Reader {
	t.Helper()
	r, err := Open(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// files returns the names of the recording's files in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// smallDisk is a disk with little room. Removing and cutting files makes room.
type smallDisk struct {
	mu      sync.Mutex
	room    int64 // guarded by mu
	created int   // guarded by mu
}

func (d *smallDisk) grow(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room += bytes
}

func (d *smallDisk) create(name string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.created++
	f, err := createFile(name)
	if err != nil {
		return nil, err
	}
	return &smallFile{disk: d, file: f.(*diskFile)}, nil
}

type smallFile struct {
	disk *smallDisk
	file *diskFile
	size int64
}

func (f *smallFile) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	fits := min(f.disk.room, int64(len(b)))
	n, err := f.file.Write(b[:fits])
	f.disk.room -= int64(n)
	f.size += int64(n)
	if err == nil && n < len(b) {
		err = &os.PathError{Op: "write", Path: f.file.Name(), Err: syscall.ENOSPC}
	}
	return n, err
}

func (f *smallFile) End(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.room += f.size - size
	return f.file.End(size)
}

// logbook collects log records.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logbook) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}
