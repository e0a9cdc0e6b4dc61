package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTraceFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace")
	record, err := createTrace(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("event ", 100) + "\n")
	for range 1000 {
		if _, err := record.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, bytes.Repeat(line, 1000)) {
		t.Errorf("%d bytes were kept of %d (%v)", len(got), 1000*len(line), err)
	}
	if _, err := record.Write(line); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v of a write after the end", err)
	}
}

// TestTraceFileTellsFaultsOnce: a disk that is full is reported when it happens, and once more at the end.
func TestTraceFileTellsFaultsOnce(t *testing.T) {
	var told bytes.Buffer
	record, err := createTrace(filepath.Join(t.TempDir(), "trace"), slog.New(slog.NewTextHandler(&told, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := record.file.Close(); err != nil { // from here on writing fails
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 1<<15)
	for range 10 {
		_, err = record.Write(line)
	}
	if !errors.Is(err, os.ErrClosed) || strings.Count(told.String(), "event=sched_trace_cut") != 1 {
		t.Errorf("error %v, told %q", err, &told)
	}
	if err := record.close(); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("error %v at the end", err)
	}
}

func TestTraceNowhere(t *testing.T) {
	if _, err := createTrace(t.TempDir(), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "sched-trace") {
		t.Errorf("error %v for a folder", err)
	}
}

// TestTraceFileTellsOfACut: that the disk does not keep up is one line of the log.
func TestTraceFileTellsOfACut(t *testing.T) {
	var told bytes.Buffer
	record, err := createTrace(filepath.Join(t.TempDir(), "trace"), slog.New(slog.NewTextHandler(&told, nil)))
	if err != nil {
		t.Fatal(err)
	}
	record.cut()
	if strings.Count(told.String(), "event=sched_trace_cut") != 1 || !strings.Contains(told.String(), "keep up") {
		t.Errorf("told %q", &told)
	}
	if err := record.close(); err != nil {
		t.Error(err)
	}
}
