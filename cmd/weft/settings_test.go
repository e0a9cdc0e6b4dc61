package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
)

func parse(t *testing.T, args ...string) (config.Server, error) {
	t.Helper()
	var line commandLine
	parser, err := newParser(&line, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"serve", "models"}, args...))
	return line.Serve.Server, err
}

func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weft.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func unsetLibrary(t *testing.T) {
	t.Helper()
	t.Setenv("WEFT_ONNXRUNTIME_LIB", "") // so that it is restored
	os.Unsetenv("WEFT_ONNXRUNTIME_LIB")
}

func TestFlagDefaultsEqualDefaultServer(t *testing.T) {
	unsetLibrary(t)
	got, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.DefaultServer(), got); diff != "" {
		t.Errorf("defaults of the flags (-DefaultServer +flags):\n%s", diff)
	}
}

func TestPrecedence(t *testing.T) {
	t.Setenv("WEFT_ONNXRUNTIME_LIB", "from-environment")
	path := settingsFile(t, `
listen: 127.0.0.1:1
http: ""
devices: [cuda, cpu]
drain-timeout: 1m
max-queued-bytes: 2GiB
onnxruntime-lib: from-file
log-level: debug
`)
	got, err := parse(t, "--listen=127.0.0.1:2", "--config="+path, "--drain-timeout=2m")
	if err != nil {
		t.Fatal(err)
	}
	want := config.DefaultServer()
	want.Listen = "127.0.0.1:2"                // flag over file
	want.DrainTimeout = config.Duration(12e10) // flag over file
	want.HTTP = ""                             // file over default, also when empty
	want.Devices = []string{"cuda", "cpu"}
	want.MaxQueuedBytes = 2 * config.GiB
	want.LogLevel = "debug"
	want.ONNXRuntimeLib = "from-environment" // environment over file
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}

	unsetLibrary(t)
	if got, err = parse(t, "--config="+path); err != nil || got.ONNXRuntimeLib != "from-file" {
		t.Errorf("without the variable: %q, %v", got.ONNXRuntimeLib, err)
	}
}

func TestFaultsReachTheCaller(t *testing.T) {
	path := settingsFile(t, "listn: x\nmax-queued-bytes: 1MB\n")
	_, err := parse(t, "--config="+path)
	faults, ok := errors.AsType[config.Faults](err)
	if !ok || len(faults) != 2 ||
		!strings.Contains(err.Error(), path+":1:1: listn: unknown key; did you mean \"listen\"?") {
		t.Errorf("error %T: %v", err, err)
	}
}

func TestFlagErrorsSayWhatWasExpected(t *testing.T) {
	for arg, want := range map[string]string{
		"--drain-timeout=5":      "expected a duration with its unit",
		"--drain-timeout=-1ms":   "expected a duration that is not negative",
		"--max-queued-bytes=1MB": "expected a whole number of bytes",
		"--log-level=loud":       `must be one of "debug","info","warn","error"`,
	} {
		if _, err := parse(t, arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
