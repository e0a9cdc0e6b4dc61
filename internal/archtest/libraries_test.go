package archtest

import (
	"fmt"
	"strings"
	"testing"
)

// libraries names the packages that may import a library; everything below the library's path counts.
// Test files may reach further.
var libraries = []struct {
	library string
	in      []string
	why     string
}{
	{
		"github.com/yalue/onnxruntime_go",
		[]string{"runtime/ort"},
		"the binding is replaceable: no type of it may escape",
	},
	{
		"github.com/coreos/go-systemd/v22",
		[]string{"internal/lifecycle"},
		"how a service manager is told is one package's to know",
	},
	{
		"github.com/NVIDIA/go-nvml",
		[]string{"gpu/nvidia"},
		"a call into a library that never loaded kills the process, so one package guards it",
	},
	{
		"github.com/landlock-lsm/go-landlock",
		[]string{"runtime/worker/sandbox"},
		"what it does to a process cannot be undone, so one package does it",
	},
	{
		"github.com/elastic/go-seccomp-bpf",
		[]string{"runtime/worker/sandbox", "scripts/packages/confine"},
		"what it does to a process cannot be undone, so one package does it in the server",
	},
	{
		"github.com/coreos/go-oidc/v3",
		[]string{"server/access"},
		"whose word a token is, is decided in one place",
	},
	{
		"github.com/go-jose/go-jose/v4",
		[]string{"server/access"},
		"whose word a token is, is decided in one place",
	},
	{
		"golang.org/x/net",
		[]string{"internal/hostile", "tools/lab/attack", "internal/app"},
		"only who sends frames as they are needs them; a server has those of its RPC library",
	},
	{
		"github.com/spiffe/go-spiffe",
		[]string{"internal/certs"},
		"where certificates come from is one package's to know",
	},
	{
		"charm.land/bubbletea/v2",
		[]string{"internal/top"},
		"a terminal is drawn on by one command",
	},
	{
		"google.golang.org/grpc",
		[]string{
			"server", "server/access", "server/protect", "server/status", "server/transport",
			"server/weftapi", "server/openinference", "server/tfserving",
			"server/servertest", "cmd/...",
			"internal/app", "internal/ask", "internal/certs", "internal/loadgen", "internal/replay",
			"internal/top", "internal/weftest", "proto/gen/...", "proto/weftclient", "examples/...", "internal/telemetry/...",
			"tools/lab/...",
		},
		"everything behind the edge works without an RPC library",
	},
}

// standalone packages import the standard library and this module only, but for the libraries named.
var standalone = []struct {
	packages string
	but      []string
	why      string
}{
	{"sharedsched/...", nil, "the scheduler must be readable and movable without anybody's library"},
	{"gpu", nil, "what a device is needs no driver"},
	{"server/predict", nil, "the way of a request is the same for every protocol"},
	{"internal/archtest", nil, "the rules must not break with a library"},
	{"internal/ortlib/...", nil, "set-up runs before any library is fetched"},
	{"scripts/setup", nil, "set-up runs before any library is fetched"},
	{
		"proto/weftclient",
		[]string{
			"google.golang.org/grpc/...", "google.golang.org/protobuf/...", "google.golang.org/genproto/googleapis/rpc/...",
		},
		"programs that call a server should not have to build one",
	},
}

func libraryUse(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test {
			continue
		}
		for _, importPath := range f.imports() {
			for _, rule := range libraries {
				if covers(rule.library+"/...", importPath) && !coversAny(rule.in, f.dir) {
					complaints = append(complaints, fmt.Sprintf("%s: only %s may import %s: %s",
						f.path(), strings.Join(rule.in, ", "), importPath, rule.why))
				}
			}
			for _, rule := range standalone {
				if covers(rule.packages, f.dir) && foreign(importPath) && !coversAny(rule.but, importPath) {
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
