package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/ortlib"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"weft":    main,
		"predict": askMany,
	})
}

// TestScripts runs testdata/script/*.txtar against the real program. Beyond the usual commands there are
//
//	freeport NAME...            sets each variable to an unused address of the loopback interface
//	serving ADDRESS [DIR]       waits until the server's health is SERVING; DIR has the certificates of --tls-dev
//	settled ADDRESS             waits until the server has loaded what it can, by its HTTP address
//	waiting ADDRESS MODEL N     waits until N requests wait in the model's queues and one is being executed
//	state ADDRESS MODEL N STATE waits until the version has the state, such as READY
//	signal [last] NAME...       sends the signals to what runs in the background, or to what began last
//	exec predict ADDRESS MODEL N [INPUT]  sends N requests at once and prints how many ended with which code
//
// and the condition [onnxruntime]: the library was fetched. LIBRARY is where it is, CARTPOLE and HOPPER are models, and
// gru.onnx is one with state.
func TestScripts(t *testing.T) {
	library, missing := ortlib.Find()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeport": freePort, "serving": serving, "settled": settled, "waiting": waiting, "state": awaitState,
			"signal": sendSignals,
		},
		Condition: func(name string) (bool, error) { return name == "onnxruntime" && missing == nil, nil },
		Setup: func(env *testscript.Env) error {
			env.Setenv("LIBRARY", library)
			for name, model := range map[string]string{"CARTPOLE": "cartpole", "HOPPER": "hopper"} {
				path, err := filepath.Abs("../../examples/models/" + model + "/1/model.onnx")
				if err != nil {
					return err
				}
				env.Setenv(name, path)
			}
			recurrent, err := sketch.Parse("obs[N,3] h[N,3]; hn = Tanh(Add(obs, h)); act = Neg(hn); act, hn")
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(env.WorkDir, "gru.onnx"), recurrent.Graph.Marshal(), 0o600); err != nil {
				return err
			}
			// Nothing is exported, nor found, on account of where the tests run.
			for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"} {
				env.Setenv(name, "none")
			}
			env.Setenv("GOCOVERDIR", os.Getenv("GOCOVERDIR"))
			return nil
		},
	})
}

// TestCalledAs: hints name the program as a shell finds it.
func TestCalledAs(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if got := calledAs(); got != os.Args[0] {
		t.Errorf("off the PATH: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "weft"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := calledAs(); got != "weft" {
		t.Errorf("on the PATH: %q", got)
	}
}
