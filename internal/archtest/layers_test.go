package archtest

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
)

// rule is one of the rules of imports.
type rule struct {
	of    string // a pattern of packages, a package, or a library
	names []string
	why   string
}

// importRules is the table of them.
//
//go:embed testdata/imports.txt
var importRules string

// layers, exclusive, libraries and standalone are the rules by their kind, which the table explains.
var (
	layers, exclusive     = rulesOf("layer"), rulesOf("exclusive")
	libraries, standalone = rulesOf("library"), rulesOf("standalone")
)

// rulesOf returns the rules of a kind.
func rulesOf(kind string) (all []rule) {
	other := true // the latest rule is of another kind
	for line := range strings.Lines(importRules) {
		if names, more := strings.CutPrefix(strings.TrimSpace(line), "#"); more || names == "" {
			continue
		}
		if names, below := strings.CutPrefix(line, "\t"); below {
			for name := range strings.SplitSeq(strings.Trim(names, ", \n"), ", ") {
				if !other {
					last := &all[len(all)-1]
					last.names = append(last.names, name)
				}
			}
			continue
		}
		begin, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		is, of, _ := strings.Cut(begin, " ")
		if other = is != kind; !other {
			all = append(all, rule{of: of, why: why})
		}
	}
	return all
}

func layering(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test || f.generated && !strings.HasPrefix(f.dir, "proto/gen/") {
			continue
		}
		row, ok := layerOf(f.dir)
		if !ok {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has no row in layers: add one to "+
				"internal/archtest/testdata/imports.txt that says what it may import and why", f.path(), f.dir))
			continue
		}
		for _, importPath := range f.imports() {
			pkg, ours := strings.CutPrefix(importPath, module+"/")
			if !ours {
				continue
			}
			if !coversAny(row.names, pkg) && pkg != f.dir {
				complaints = append(complaints,
					fmt.Sprintf("%s: %s must not import %s: %s", f.path(), f.dir, pkg, row.why))
			}
			for _, x := range exclusive {
				if covers(x.of+"/...", pkg) && !coversAny(x.names, f.dir) && !covers(x.of+"/...", f.dir) {
					complaints = append(complaints,
						fmt.Sprintf("%s: only %s imports %s: %s", f.path(), strings.Join(x.names, ", "), pkg, x.why))
				}
			}
		}
	}
	return complaints
}

func layerOf(dir string) (rule, bool) {
	for _, row := range layers {
		if covers(row.of, dir) {
			return row, true
		}
	}
	return rule{}, false
}

func coversAny(patterns []string, pkg string) bool {
	for _, pattern := range patterns {
		if covers(pattern, pkg) {
			return true
		}
	}
	return false
}

// covers reports whether the pattern names pkg: exactly, or ending in "..." as the go command means it.
func covers(pattern, pkg string) bool {
	prefix, deep := strings.CutSuffix(pattern, "...")
	if !deep {
		return pattern == pkg
	}
	return strings.HasPrefix(pkg+"/", prefix)
}

func TestLayering(t *testing.T) { holds(t, layering) }

func TestLayeringComplains(t *testing.T) {
	imports := func(pkg string) string { return "import _ \"" + module + "/" + pkg + "\"\n" }
	tests := []struct{ file, imports, want string }{
		{"cmd/weft/serve.go", "runtime/host", "is a package"},
		{"internal/replay/replay.go", "runtime/host", "as any client does"},
		{"internal/loadgen/runner.go", "sharedsched", "must not be part of"},
		{"server/server.go", "runtime/host", "behind the interfaces"},
		{"server/routing/table.go", "sharedsched", "pure arithmetic"},
		{"sharedsched/core.go", "runtime/tensor", "stands alone"},
		{"tools/lab/sim/sim.go", "runtime/synth", "without anything that runs it"},
		{"runtime/tensor/tensor.go", "sharedsched", "vocabulary"},
		{"runtime/catalog/catalog.go", "runtime/host", "plain values"},
		{"runtime/modelrepo/repo.go", "runtime/ort", "loads nothing"},
		{"runtime/engine/session.go", "runtime/modelrepo", "either side may live"},
		{"runtime/execution/unit.go", "runtime/host", "who keeps models resident"},
		{"runtime/execution/unit.go", "runtime/proof", "why rows may be joined"},
		{"runtime/proof/prove.go", "runtime/execution", "behind an interface"},
		{"runtime/modelfile/read.go", "runtime/modelrepo", "runs nothing and knows no host"},
		{"runtime/host/host.go", "runtime/ort", "what residency decides"},
		{"runtime/host/host.go", "server", "what residency decides"},
		{"runtime/ort/engine.go", "runtime/host", "another process"},
		{"runtime/synth/engine.go", "internal/config", "neither requests"},
		{"gpu/device.go", "gpu/nvidia", "without one"},
		{"gpu/nvidia/device.go", "sharedsched", "devices only"},
		{"internal/onnxgraph/graph.go", "runtime/tensor", "a matter of its format"},
		{"examples/controlloop/main.go", "server", "outside this repository"},
		{"proto/weftclient/client.go", "runtime/tensor", "should not have to build one"},
		{"scripts/setup/main.go", "runtime/ort", "before anything else"},
		{"scripts/setup/main.go", "internal/config", "before anything else"},
		{"tools/lab/gpucheck/load.go", "runtime/host", "as any client does"},
		{"tools/lab/gpucheck/smi.go", "gpu/nvidia", "as any client does"},
		{"internal/surprise/x.go", "runtime/tensor", "no row in layers"},
	}
	for _, tt := range tests {
		t.Run(tt.file+" imports "+tt.imports, func(t *testing.T) {
			wantComplaint(t, layering, map[string]string{tt.file: imports(tt.imports)}, tt.want)
		})
	}
	t.Run("telemetry imported by a package that may import everything else", func(t *testing.T) {
		got := complaintsAbout(t, layering, map[string]string{"runtime/host/host.go": imports("internal/telemetry")})
		if len(got) != 2 || !strings.Contains(got[1], "only internal/app imports internal/telemetry") {
			t.Errorf("complaints %q, want the layer's and the exclusive rule's", got)
		}
	})
	wantComplaint(t, layering, map[string]string{"tools/lab/sim/sim.go": imports("sharedsched/schedtest")},
		"only a test imports")
	wantComplaint(t, layering, map[string]string{"internal/app/gpu.go": imports("gpu/gputest")}, "only a test imports")
	wantComplaint(t, layering, map[string]string{"internal/app/sim.go": imports("tools/lab/sim")}, "its laboratory")
	t.Run("allowed", func(t *testing.T) {
		wantNone(t, layering, map[string]string{
			"sharedsched/schedtest/s.go":      imports("sharedsched"),
			"server/house_test.go":            imports("sharedsched/schedtest"),
			"internal/app/app.go":             imports("internal/telemetry"),
			"internal/telemetry/a.go":         imports("sharedsched"),
			"internal/telemetry/listen/b.go":  imports("internal/telemetry"),
			"server/server_test.go":           imports("runtime/host"),
			"sharedsched/scheduler.go":        imports("sharedsched/fairq"),
			"gpu/gputest/fake.go":             imports("gpu"),
			"internal/app/gpu.go":             imports("gpu/nvidia"),
			"internal/app/gpu_test.go":        imports("gpu/gputest"),
			"runtime/host/host.go":            imports("runtime/catalog"),
			"internal/config/pbtxt/d.go":      imports("internal/config"),
			"examples/train/policy.go":        imports("internal/onnxgraph"),
			"proto/gen/inference/v1/i.pb.go":  imports("proto/gen/weft/v1"),
			"scripts/setup/main.go":           imports("internal/ortlib"),
			"tools/lab/gpucheck/engine.go":    imports("runtime/ort"),
			"tools/lab/gpucheck/reasons.go":   imports("gpu"),
			"runtime/modelrepo/repository.go": imports("internal/config"),
		})
	})
}
