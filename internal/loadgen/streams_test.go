package loadgen

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/cockroachdb/datadriven"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

func streamsOf(t *testing.T, yaml string) (string, []Stream, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "streams.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &Options{Streams: path, Duration: config.Duration(time.Second), Connections: 1}
	o.SetDefaults()
	streams, err := o.streams()
	return filepath.Dir(path), streams, err
}

func TestStreams(t *testing.T) {
	dir, got, err := streamsOf(t, `
streams:
  - {model: policy, rate: 100, arrivals: gamma, cv: 2.5, deadline: 20ms, priority: critical_plus}
  - {name: heavy, model: policy, label: stable, callers: 3, rows: 8, request: heavy.json}
  - {model: other, version: 2, trace: /times.txt, deadline: 0}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Stream{
		stream(func(s *Stream) {
			s.Rate, s.Arrivals, s.CV, s.Priority = 100, gamma, 2.5, "critical_plus"
			s.Deadline = config.Duration(20 * time.Millisecond)
		}),
		stream(func(s *Stream) {
			s.Name, s.Label, s.Callers, s.Rows, s.Request = "heavy", "stable", 3, 8, filepath.Join(dir, "heavy.json")
		}),
		stream(func(s *Stream) {
			s.Name, s.Model, s.Version, s.Trace, s.Deadline = "other", "other", 2, "/times.txt", 0
		}),
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestScripts reads flags and files of streams, of times and of requests, makes requests up, and judges figures.
func TestScripts(t *testing.T) {
	_, address := house(t)
	datadriven.Walk(t, "testdata/script", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			said, err := command(t, d, address)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return said + "\n"
		})
	})
}

// command carries out a command of a script, and names the files that it writes FILE.
func command(t *testing.T, d *datadriven.TestData, address string) (said string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(d.Input), 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err != nil {
			// The errors of protojson have one blank or the other, so that nobody compares them.
			err = errors.New(strings.NewReplacer(file, "FILE", address, "ADDRESS", "\u00a0", " ").Replace(err.Error()))
		}
	}()
	s := stream(func(s *Stream) { s.Rows = 2 })
	var figures []float64
	for field := range strings.FieldsSeq(d.Input) {
		if f, err := strconv.ParseFloat(field, 64); err == nil {
			figures = append(figures, f)
		}
	}
	switch d.Cmd {
	case "bench": // with a flag in each line
		o := &Options{}
		parser, err := kong.New(o)
		if err != nil {
			t.Fatal(err)
		}
		args := append(strings.Fields(d.Input), "--target="+address, "--duration=100ms", "--warmup=0s")
		if _, err := parser.Parse(args); err != nil {
			return "", err
		}
		return "measured", Run(t.Context(), o, io.Discard, io.Discard)
	case "streams":
		o := &Options{Streams: file, Duration: config.Duration(time.Second), Connections: 1}
		o.SetDefaults()
		streams, err := o.streams()
		return fmt.Sprintf("%d streams", len(streams)), err
	case "trace":
		s.Trace = file
		due, err := s.schedule(2 * time.Second)
		return fmt.Sprint(due), err
	case "requests": // for a model whose rows are the second dimension
		s.Request, s.Label = file, "stable"
		all, err := s.payloads(signatureOf(spec("x", weftv1.DataType_DATA_TYPE_FP32, 1, 2, -1)), native{})
		var saidSb121 strings.Builder
		for _, p := range all {
			m := decoded(t, p).GetModel()
			saidSb121.WriteString(fmt.Sprintf("%s, label %s: %d rows; ", m.GetName(), m.GetLabel(), p.rows))
		}
		said += saidSb121.String()
		return strings.TrimSuffix(said, "; "), err
	case "makeup": // two rows: type, dimension of rows or -1, dimensions
		shape := make([]int64, 0, len(figures))
		for _, f := range figures[2:] {
			shape = append(shape, int64(f))
		}
		_, err := s.payloads(signatureOf(spec("x", weftv1.DataType(figures[0]), int32(figures[1]), shape...)), native{})
		return "made up", err
	case "steady": // a line for each third: answers, answers a second, p50, p99
		var thirds []Third
		for f := range slices.Chunk(figures, 4) {
			thirds = append(thirds, Third{int64(f[0]), f[1], f[2], f[3]})
		}
		return cmp.Or(unsteady(thirds), "steady"), nil
	case "doubt": // p50 and p99 of the lag, and of the latency
		said := doubt(Quantiles{P50: figures[0], P99: figures[1]}, Quantiles{P50: figures[2], P99: figures[3]})
		return cmp.Or(said, "no doubt"), nil
	}
	return "", errors.New("no such command")
}
