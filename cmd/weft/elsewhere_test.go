package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/modelrepo"
)

var named = regexp.MustCompile(`--([a-z][a-z-]+)`)

// TestElsewhereNamesFlagsThatExist wants each counterpart to be a flag of `weft serve`, a setting of model.yaml, an
// argument or nothing, and no flag of ours to be taken for another server's.
func TestElsewhereNamesFlagsThatExist(t *testing.T) {
	var line commandLine
	parser, err := newParser(&line, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for _, f := range flagsOf(parser.Model.Children[0]) {
		ours[f.Name] = true
	}
	if len(elsewhere()) < 60 {
		t.Errorf("the table has %d flags", len(elsewhere()))
	}
	for name, instead := range elsewhere() {
		if ours[name] {
			t.Errorf("--%s is a flag of ours: the parser takes it", name)
		}
		flags := named.FindAllStringSubmatch(instead, -1)
		for _, f := range flags {
			if !ours[f[1]] {
				t.Errorf("--%s: there is no --%s in %q", name, f[1], instead)
			}
		}
		if len(flags) == 0 && !regexp.MustCompile(`model\.yaml|^nothing|argument|^2>`).MatchString(instead) {
			t.Errorf("--%s: %q names nothing that could be written", name, instead)
		}
	}
}

// TestBatchingParametersBecomeAModelYAML reads what is advised as a model.yaml.
func TestBatchingParametersBecomeAModelYAML(t *testing.T) {
	text, err := batchingParameters("f", []byte(`max_batch_size { value: 128 } batch_timeout_micros { value: 2500 }
		max_enqueued_batches { value: 8 } num_batch_threads { value: 4 } allowed_batch_sizes: [32, 128]
		pad_variable_length_inputs: true thread_pool_name { value: "x" }`))
	if err != nil {
		t.Fatal(err)
	}
	_, advised, _ := strings.Cut(text, "\n")
	m, err := modelrepo.ReadManifest("model.yaml", []byte(advised))
	if err != nil {
		t.Fatalf("%s\n%v", advised, err)
	}
	b := m.Batching
	if b.MaxBatchSize != 128 || b.BatchTimeout.String() != "2.5ms" || b.MaxQueue != 1024 ||
		!slices.Equal(b.AllowedBatchSizes, []int{32, 128}) {
		t.Errorf("%s\nis %+v", advised, b)
	}
}
