package archtest

import (
	"fmt"
	"strings"
	"testing"
)

// layer says what one folder's packages may import of this module, and why nothing else.
// A pattern is a package path; ending in /... it covers the package and all below it.
type layer struct {
	packages string
	may      []string
	why      string
}

// layers is the order of the house, in the order of docs/ARCHITECTURE.md. The first row that covers a
// package counts. Test files may reach further.
var layers = []layer{
	{
		"cmd/...",
		[]string{"internal/...", "proto/gen/...", "server/rollout", "sharedsched/trace"},
		"a command reads its flags; what it does is a package",
	},
	{
		"internal/app",
		[]string{"..."},
		"it puts the parts of a server together, and is the only package that knows them all",
	},
	{
		"internal/replay",
		[]string{
			"proto/gen/...", "internal/certs", "internal/config", "internal/progress", "internal/record", "runtime/tensor",
			"runtime/tensor/compare", "server/rollout", "server/shadow", "server/wire",
		},
		"it asks a server as any client does, and judges by the rules that the server has",
	},
	{
		"internal/ask",
		[]string{
			"proto/gen/weft/...", "proto/weftclient", "internal/certs", "internal/config", "runtime/tensor", "server/wire",
		},
		"it asks a server as any client does",
	},
	{
		"internal/top",
		[]string{
			"proto/gen/weft/...", "proto/weftclient", "internal/ask", "internal/config", "runtime/catalog", "server/activity",
			"server/predict", "sharedsched",
		},
		"it asks a server as any client does, and shows what that says; its made-up server keeps a server's own log",
	},
	{
		"internal/loadgen",
		[]string{
			"proto/gen/...", "internal/certs", "internal/config", "internal/progress", "runtime/tensor", "server/wire",
			"sharedsched/arrivals",
		},
		"it asks a server as any client does; what it measures it must not be part of",
	},
	{
		"internal/weftest",
		[]string{"proto/gen/...", "runtime/engine", "runtime/tensor"},
		"what tests stand on must not stand on what they test",
	},
	{
		"proto/weftclient",
		[]string{"proto/gen/weft/..."},
		"programs that call a server should not have to build one",
	},
	{
		"proto/gen/...",
		[]string{"proto/gen/..."},
		"generated code must be usable by a client that has nothing else of Weft",
	},
	{
		"server",
		[]string{
			"internal/owntime", "proto/gen/weft/...", "server/transport", "server/openinference",
			"server/predict", "server/tfserving", "server/weftapi", "server/status",
			"server/activity", "server/live", "server/breaker", "server/access", "server/protect", "server/routing",
			"sharedsched", "runtime/catalog",
		},
		"the edge puts its parts together; engines, devices and files stay behind the interfaces that app hands in",
	},
	{
		"server/predict",
		[]string{
			"internal/owntime", "server/routing", "server/breaker", "server/shadow", "server/rollout", "sharedsched",
			"runtime/catalog", "runtime/tensor",
		},
		"the pipeline is the same for every protocol, and knows none",
	},
	{
		"server/wire",
		[]string{
			"proto/gen/weft/...", "server/predict", "server/routing", "server/protect", "server/wire/elements",
			"sharedsched", "runtime/tensor",
		},
		"it carries values between messages and memory for the edge, for recordings and for replays, and serves nobody",
	},
	{
		"server/wire/elements",
		[]string{"server/predict", "server/protect", "runtime/tensor"},
		"elements of tensors lie alike in the messages of all protocols",
	},
	{
		"server/status",
		[]string{
			"server/access", "server/protect", "server/predict", "server/routing", "server/rollout", "sharedsched",
			"runtime/catalog", "runtime/tensor",
		},
		"what an error means to a caller is the same for every service",
	},
	{
		"server/transport",
		[]string{
			"server/access", "server/protect", "server/predict", "server/routing", "server/status", "server/wire/elements",
			"sharedsched", "runtime/tensor",
		},
		"how calls come in, and go through the pipeline, is the same for every service and every protocol",
	},
	{
		"server/access",
		[]string{"proto/gen/weft/...", "server/protect", "sharedsched", "runtime/catalog"},
		"who calls, and what they may do, is found out in the same way whatever is called; where the rules come from is for " +
			"others to know",
	},
	{
		"server/weftapi",
		[]string{
			"proto/gen/weft/...", "server/activity", "server/transport", "server/predict", "server/wire",
			"server/wire/elements", "server/status", "server/routing", "server/shadow", "server/rollout",
			"server/access", "server/protect", "sharedsched", "runtime/catalog", "runtime/tensor",
		},
		"a protocol is one codec before the pipeline, and knows no other protocol",
	},
	{
		"server/activity",
		[]string{"proto/gen/weft/...", "server/predict", "server/wire", "sharedsched", "runtime/catalog"},
		"what is remembered for people decides nothing: nothing that decides may read it",
	},
	{
		"server/live",
		[]string{"proto/gen/weft/...", "server/access", "server/activity", "server/protect", "server/status"},
		"the page shows what the API shows, and nothing else",
	},
	{
		"server/openinference",
		[]string{
			"proto/gen/inference", "server/transport", "server/predict", "server/wire/elements", "server/protect", "server/status", "server/routing",
			"server/access", "sharedsched", "runtime/catalog", "runtime/tensor",
		},
		"a protocol is one codec before the pipeline, and knows no other protocol",
	},
	{
		"server/tfserving",
		[]string{
			"proto/gen/tensorflow/...", "server/transport", "server/predict", "server/protect", "server/wire/elements",
			"server/routing", "server/access", "sharedsched", "runtime/catalog", "runtime/tensor",
		},
		"a protocol is one codec before the pipeline, and knows no other protocol",
	},
	{
		"server/servertest",
		[]string{
			"proto/gen/weft/...", "server", "server/access", "server/predict", "server/transport", "sharedsched",
			"runtime/catalog", "runtime/tensor",
		},
		"the fixture of the server's tests is imported by tests only",
	},
	{"server/servertest/script", nil, "scripts are played on anything, and stand on nothing"},
	{
		"server/routing",
		[]string{"runtime/catalog"},
		"which version answers is pure arithmetic on an immutable snapshot of the catalog",
	},
	{
		"server/protect",
		[]string{"internal/owntime", "sharedsched"},
		"what a caller costs shows in frames, bytes and endings, whatever the calls are about",
	},
	{
		"server/breaker",
		[]string{},
		"whether a version is fit follows from how its requests ended, and from nothing else",
	},
	{
		"server/rollout",
		[]string{"runtime/catalog"},
		"a verdict is arithmetic on what was counted; how traffic is moved is behind an interface",
	},
	{
		"server/shadow",
		[]string{"runtime/catalog", "runtime/tensor", "runtime/tensor/compare", "sharedsched"},
		"mirroring knows tensors and the scheduler, neither the protocol nor how models are hosted",
	},
	{
		"sharedsched",
		[]string{"sharedsched/cost", "sharedsched/fairq", "sharedsched/iheap"},
		"the algorithm stands alone: it knows neither who runs it nor who records it",
	},
	{
		"sharedsched/...",
		[]string{"sharedsched/..."},
		"the scheduler stands alone, so that production, tests and simulator run the same code",
	},
	{
		"runtime/tensor",
		[]string{},
		"tensors are the vocabulary of every other package",
	},
	{
		"runtime/tensor/compare",
		[]string{"runtime/tensor"},
		"how far two tensors are apart is arithmetic; how much is tolerated, and why, is for those who ask",
	},
	{
		"runtime/catalog",
		[]string{"runtime/tensor", "sharedsched"},
		"it is made of plain values, so that the edge can know resident models without knowing their host",
	},
	{
		"runtime/modelrepo",
		[]string{
			"internal/config/...", "proto/gen/inference", "proto/gen/tensorflow/serving", "runtime/tensor",
			"runtime/modelrepo/rooted",
		},
		"reading the repository loads nothing and runs nothing",
	},
	{
		"runtime/modelrepo/rooted",
		[]string{},
		"where links lead is a matter of the file system",
	},
	{
		"runtime/modelfile",
		[]string{"runtime/modelrepo/rooted", "proto/gen/onnx"},
		"what a model is made of follows from its files: it runs nothing and knows no host",
	},
	{
		"runtime/decisions",
		[]string{"runtime/catalog"},
		"what wins over what is a function of values, and what is kept knows neither engines nor the repository",
	},
	{
		"runtime/fleet/placement",
		[]string{},
		"where a version goes is arithmetic on what is known of the devices",
	},
	{
		"runtime/fleet",
		[]string{"runtime/fleet/placement", "runtime/catalog"},
		"a device has room and load, and may be lost, whatever runs on it",
	},
	{
		"runtime/residency",
		[]string{"runtime/catalog", "runtime/decisions", "runtime/modelrepo", "runtime/fleet/placement"},
		"what is loaded next follows from what is wanted and what is: it runs nothing, waits for nothing and reads " +
			"no " +
			"clock",
	},
	{
		"runtime/host",
		[]string{
			"runtime/residency", "runtime/fleet/...", "runtime/engine", "runtime/execution", "runtime/serving",
			"runtime/audit", "sharedsched",
			"runtime/catalog", "runtime/decisions", "runtime/modelrepo",
		},
		"it carries out what residency decides; how a version answers is a matter of serving",
	},
	{
		"runtime/serving",
		[]string{
			"internal/owntime", "runtime/residency", "runtime/fleet/...", "runtime/engine", "runtime/execution", "runtime/proof",
			"runtime/quarantine", "runtime/audit", "sharedsched", "runtime/catalog", "runtime/tensor", "runtime/modelrepo",
			"runtime/modelfile",
		},
		"a version answers by its replicas, whatever made it resident; when it comes and goes is its owner's to say",
	},
	{
		"runtime/quarantine",
		[]string{"runtime/tensor"},
		"which requests are not to be run again follows from how their runs ended, whoever runs them",
	},
	{
		"runtime/audit",
		[]string{"runtime/execution", "runtime/proof", "runtime/catalog", "runtime/tensor", "sharedsched"},
		"whether batches change answers follows from rows that are run again; what runs them is behind an interface",
	},
	{
		"runtime/proof",
		[]string{
			"runtime/proof/structure", "runtime/engine", "runtime/catalog", "runtime/modelrepo", "runtime/tensor",
			"runtime/tensor/compare",
		},
		"whether rows may be joined follows from what made-up rows give; what runs them, and when, is behind an " +
			"interface",
	},
	{
		"runtime/proof/structure",
		[]string{"runtime/modelfile", "proto/gen/onnx", "runtime/tensor"},
		"what a graph says of its rows is arithmetic on the graph: it runs nothing and knows no host",
	},
	{
		"runtime/engine",
		[]string{"internal/owntime", "runtime/tensor"},
		"what engines and those who use them agree on speaks of tensors, and of whose time a run takes, so that either " +
			"side may live in another process",
	},
	{
		"runtime/worker/sandbox/...",
		[]string{},
		"what confines a process knows nothing of what runs there",
	},
	{
		"runtime/worker",
		[]string{"internal/owntime", "runtime/engine", "runtime/tensor", "runtime/worker/sandbox"},
		"what crosses between two processes is a batch; which engine runs it, and for whom, neither end knows",
	},
	{
		"runtime/execution",
		[]string{"internal/owntime", "runtime/engine", "runtime/catalog", "runtime/tensor", "sharedsched"},
		"how requests become executions does not depend on who keeps models resident, nor on why rows may be joined",
	},
	{
		"runtime/ort",
		[]string{"runtime/engine", "runtime/tensor", "runtime/tensor/compare"},
		"an engine gets batches in buffers and knows neither requests nor the host; it must be able to live in " +
			"another process",
	},
	{
		"runtime/ort/simgpu",
		[]string{"internal/ortlib"},
		"what tests stand on must not stand on what they test",
	},
	{
		"runtime/synth",
		[]string{"runtime/engine", "runtime/tensor"},
		"an engine gets batches in buffers and knows neither requests nor the host",
	},
	{
		"gpu",
		[]string{},
		"what a device is must be sayable on a machine without one",
	},
	{
		"gpu/...",
		[]string{"gpu"},
		"a device driver knows devices only",
	},
	{
		"internal/config/...",
		[]string{"internal/config/..."},
		"reading settings is a leaf",
	},
	{
		"internal/telemetry/...",
		[]string{
			"internal/telemetry/...", "runtime/catalog", "server/protect", "server/predict", "server/shadow", "sharedsched", "gpu",
		},
		"telemetry listens to the house, nothing in the house waits for it",
	},
	{
		"internal/certs",
		[]string{"internal/config"},
		"who speaks at the other end of a connection follows from certificates, and not from what is said",
	},
	{
		"internal/owntime",
		[]string{},
		"what time a process had is for the system to tell, whoever judges by it",
	},
	{
		"internal/onnxgraph",
		[]string{"proto/gen/onnx"},
		"what a model file holds is a matter of its format, whoever runs it",
	},
	{
		"internal/onnxgraph/sketch",
		[]string{"internal/onnxgraph", "runtime/tensor"},
		"a sketch is a model file and its values, and says nothing of who runs it",
	},
	{
		"internal/poison",
		[]string{},
		"it has tests only, which ask the real program as any client does",
	},
	{
		"internal/hostile",
		[]string{},
		"what is sent must not depend on what it is sent to",
	},
	{
		"internal/ortlib",
		[]string{},
		"finding the library is a leaf",
	},
	{
		"internal/ortlib/fetch",
		[]string{"internal/ortlib"},
		"make setup builds it before anything else",
	},
	{
		"internal/lifecycle/...",
		[]string{},
		"starting and stopping things in order is a leaf",
	},
	{
		"internal/threads",
		[]string{},
		"how many threads there are, and how they take turns, is the system's matter",
	},
	{
		"internal/progress",
		[]string{},
		"what is shown of a command's progress is text",
	},
	{
		"internal/race",
		[]string{},
		"how a test was built is a leaf",
	},
	{
		"internal/record",
		[]string{"proto/gen/weft/...", "server/predict", "server/wire"},
		"a recording holds what went over the wire, and is read where there is no server",
	},
	{
		"internal/bench",
		[]string{},
		"it measures the house from test files, which may reach everywhere",
	},
	{
		"internal/archtest",
		[]string{},
		"it reads the source as text",
	},
	{
		"examples/...",
		[]string{"examples/...", "proto/gen/...", "proto/weftclient", "internal/onnxgraph"},
		"an example shows what a client outside this repository can do",
	},
	{
		"scripts/...",
		[]string{"internal/ortlib", "internal/ortlib/fetch", "internal/progress"},
		"scripts run before anything else can be built",
	},
	{
		"tools/lab/affinity",
		[]string{},
		"where a process runs is a leaf",
	},
	{
		"tools/lab/harness/...",
		[]string{"internal/ortlib", "tools/lab/affinity"},
		"it runs programs, whatever they serve",
	},
	{
		"tools/lab/attack",
		[]string{"proto/gen/...", "internal/onnxgraph", "tools/lab/affinity", "tools/lab/harness"},
		"it attacks and measures programs from outside",
	},
	{
		"tools/lab/demo",
		[]string{
			"proto/gen/weft/...", "proto/gen/onnx", "proto/weftclient", "internal/onnxgraph", "examples/plant",
			"tools/lab/harness",
		},
		"it plays those who ask a server, and looks at it from outside",
	},
	{
		"tools/lab/way",
		[]string{"proto/gen/weft/...", "tools/lab/harness"},
		"it asks a server as any client does, and looks at its stacks",
	},
	{
		"tools/lab/planted",
		[]string{},
		"it runs the Go command, and knows the product as text",
	},
	{
		"tools/lab/gpucheck",
		[]string{
			"proto/gen/...", "internal/onnxgraph", "internal/ortlib", "runtime/modelrepo", "runtime/ort",
			"runtime/tensor", "runtime/tensor/compare", "server/wire", "gpu", "tools/lab/harness",
		},
		"it asks a server as any client does, and compares it with the engine alone; what it measures it must not be " +
			"part of, though it may use its words",
	},
	{
		"tools/lab/fuzzlive",
		[]string{"internal/hostile", "internal/onnxgraph/...", "proto/gen/...", "tools/lab/harness"},
		"it sends a program what any caller could",
	},
	{
		"tools/lab/limits",
		[]string{
			"proto/gen/...", "internal/loadgen", "internal/onnxgraph", "internal/ortlib", "runtime/ort",
			"runtime/tensor", "tools/lab/affinity", "tools/lab/harness",
		},
		"it measures programs from outside, and the engine alone",
	},
	{
		"tools/lab/sim",
		[]string{"sharedsched/..."},
		"the scheduler is simulated without anything that runs it",
	},
	{
		"tools/lab/simulate",
		[]string{"internal/progress", "tools/lab/sim"},
		"it plays schedulers, and no server",
	},
}

// exclusive packages have fewer importers than the layers alone would allow.
var exclusive = []struct{ pkg, importers, why string }{
	{
		"internal/telemetry", "internal/app",
		"metrics libraries stay out of the house: packages emit events, app attaches listeners",
	},
	{laboratory, laboratory + "/...", "a server does without its laboratory"},
	{"internal/weftest", "a test", "what tests share is for test files, which are not asked"},
	{"sharedsched/schedtest", "a test", "stand-ins are for test files, which are not asked"},
	{"tools/lab/harness/harnesstest", "a test", "what tests share is for test files, which are not asked"},
	{"internal/race", "a test", "nothing works otherwise under the race detector"},
	{"gpu/gputest", "a test", "stand-ins are for test files, which are not asked"},
	{"runtime/ort/simgpu", "a test", "stand-ins are for test files, which are not asked"},
}

func layering(t *tree) []string {
	var complaints []string
	for _, f := range t.files {
		if f.test || f.generated && !strings.HasPrefix(f.dir, "proto/gen/") {
			continue
		}
		row, ok := layerOf(f.dir)
		if !ok {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has no row in layers: add one that says what "+
				"it may import and why", f.path(), f.dir))
			continue
		}
		for _, importPath := range f.imports() {
			pkg, ours := strings.CutPrefix(importPath, module+"/")
			if !ours {
				continue
			}
			if !coversAny(row.may, pkg) && pkg != f.dir {
				complaints = append(complaints,
					fmt.Sprintf("%s: %s must not import %s: %s", f.path(), f.dir, pkg, row.why))
			}
			for _, x := range exclusive {
				if (pkg == x.pkg || strings.HasPrefix(pkg, x.pkg+"/")) && !covers(x.importers, f.dir) &&
					!covers(x.pkg+"/...", f.dir) {
					complaints = append(complaints,
						fmt.Sprintf("%s: only %s imports %s: %s", f.path(), x.importers, pkg, x.why))
				}
			}
		}
	}
	return complaints
}

func layerOf(dir string) (layer, bool) {
	for _, row := range layers {
		if covers(row.packages, dir) {
			return row, true
		}
	}
	return layer{}, false
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
