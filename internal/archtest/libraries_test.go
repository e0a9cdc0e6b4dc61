package archtest

import (
	"fmt"
	"strings"
	"testing"
)

func libraryUse(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test {
			continue
		}
		for _, importPath := range f.imports() {
			for _, rule := range libraries {
				if covers(rule.of+"/...", importPath) && !coversAny(rule.names, f.dir) {
					complaints = append(complaints, fmt.Sprintf("%s: only %s may import %s: %s",
						f.path(), strings.Join(rule.names, ", "), importPath, rule.why))
				}
			}
			for _, rule := range standalone {
				if covers(rule.of, f.dir) && foreign(importPath) && !coversAny(rule.names, importPath) {
					complaints = append(complaints, fmt.Sprintf("%s: %s must not import %s: %s",
						f.path(), f.dir, importPath, rule.why))
				}
			}
		}
	}
	return complaints
}

// foreign reports whether the path is neither ours nor the standard library's, whose first element has
// no dot.
func foreign(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return strings.Contains(first, ".") && !covers(module+"/...", importPath)
}

// statusInOnePackage holds server/status's monopoly on gRPC status codes.
func statusInOnePackage(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test || !covers("server/...", f.dir) || f.dir == "server/status" || f.dir == "server/servertest" {
			continue
		}
		for _, importPath := range f.imports() {
			if importPath == "google.golang.org/grpc/codes" || importPath == "google.golang.org/grpc/status" {
				complaints = append(complaints, fmt.Sprintf("%s: only server/status may import %s: "+
					"what an error means to a client is decided in one place", f.path(), importPath))
			}
		}
	}
	return complaints
}

func TestLibraryUse(t *testing.T) { holds(t, libraryUse) }

func TestLibraryUseComplains(t *testing.T) {
	tests := []struct{ file, imports, want string }{
		{"runtime/host/host.go", "github.com/yalue/onnxruntime_go", "only runtime/ort"},
		{"gpu/gputest/fake.go", "github.com/NVIDIA/go-nvml/pkg/nvml", "only gpu/nvidia"},
		{"runtime/host/host.go", "google.golang.org/grpc/codes", "without an RPC library"},
		{"server/routing/table.go", "google.golang.org/grpc", "without an RPC library"},
		{"server/predict/pipeline.go", "google.golang.org/protobuf/proto", "for every protocol"},
		{"sharedsched/cost/cost.go", "golang.org/x/sync/errgroup", "anybody's library"},
		{"scripts/setup/main.go", "github.com/alecthomas/kong", "before any library"},
		{"internal/ask/explain.go", "charm.land/bubbletea/v2", "by one command"},
		{"proto/weftclient/client.go", "golang.org/x/sync/errgroup", "should not have to build one"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			wantComplaint(t, libraryUse, map[string]string{tt.file: "import _ \"" + tt.imports + "\"\n"}, tt.want)
		})
	}
	wantNone(t, libraryUse, map[string]string{
		"runtime/ort/engine.go":    "import _ \"github.com/yalue/onnxruntime_go\"\n",
		"server/server.go":         "import _ \"google.golang.org/grpc\"\n",
		"sharedsched/core_test.go": "import _ \"pgregory.net/rapid\"\n",
		"sharedsched/core.go":      "import _ \"math/bits\"\n",

		"proto/weftclient/error.go": "import _ \"google.golang.org/genproto/googleapis/rpc/errdetails\"\n",
	})
}

func TestStatusInOnePackage(t *testing.T) { holds(t, statusInOnePackage) }

func TestStatusInOnePackageComplains(t *testing.T) {
	const src = "import _ \"google.golang.org/grpc/codes\"\n"
	wantComplaint(t, statusInOnePackage, map[string]string{"server/weftapi/predict.go": src},
		"server/weftapi/predict.go")
	wantComplaint(t, statusInOnePackage, map[string]string{"server/shadow/status.go": src}, "server/shadow/status.go")
	wantNone(t, statusInOnePackage, map[string]string{
		"server/status/table.go": src, "server/predict_test.go": src, "examples/controlloop/main.go": src,
	})
}
