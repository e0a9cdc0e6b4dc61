package config_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
)

func TestServerDefaultsAreValid(t *testing.T) {
	s := config.DefaultServer()
	if err := s.Check().Err(); err != nil {
		t.Error(err)
	}
}

func TestServerFile(t *testing.T) {
	got, err := config.ServerFile("weft.yaml", []byte("listen: 0.0.0.0:80\nhttp: \"\"\ndevices: [cuda, "+
		"cpu]\ndrain-timeout: 1m\nmax-message-bytes: 4MiB\nmax-concurrent-requests: 0\nlog-level: "+
		"debug\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"listen": "0.0.0.0:80", "http": "", "devices": []any{"cuda", "cpu"}, "drain-timeout": "1m",
		"max-message-bytes": "4MiB", "max-concurrent-requests": "0", "log-level": "debug",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// A file may lean on a flag: that its values do not fit the defaults is not a fault of the file.
func TestServerFileIsNotJudgedAlone(t *testing.T) {
	if _, err := config.ServerFile("weft.yaml",
		[]byte("max-message-bytes: 1GiB\nmax-queued-bytes: 1MiB\nhttp: 127.0.0.1:9000\n")); err != nil {
		t.Error(err)
	}
}

func TestServerFileFaults(t *testing.T) {
	source, err := os.ReadFile("testdata/server/each.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values, err := config.ServerFile("each.yaml", source)
	if err == nil || values != nil {
		t.Fatalf("values %v, error %v", values, err)
	}
	golden(t, "testdata/server/each.txt", err.Error()+"\n")
}

func TestServerCheckTogether(t *testing.T) {
	s := config.DefaultServer()
	s.MaxQueuedBytes = config.MiB
	s.AdminListen = s.Listen
	s.HTTP, s.Pprof = "", true
	s.Devices = nil
	s.DrainTimeout, s.LameDuck = config.Duration(48*time.Hour), config.Period(48*time.Hour)
	golden(t, "testdata/server/together.txt", s.Check().Error()+"\n")

	s = config.DefaultServer()
	s.Listen, s.HTTP, s.AdminListen = "127.0.0.1:0", "127.0.0.1:0", ""
	if err := s.Check().Err(); err != nil {
		t.Errorf("two free ports: %v", err)
	}
}

func TestServerPrintReadsBack(t *testing.T) {
	want := config.DefaultServer()
	want.ONNXRuntimeLib, want.Devices = "/opt/lib.so", []string{"cuda:1", "cpu:4"}
	text, err := config.Print(want)
	if err != nil {
		t.Fatal(err)
	}
	var got config.Server
	if err := config.Decode("printed", []byte(text), &got, got.Check); err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}
