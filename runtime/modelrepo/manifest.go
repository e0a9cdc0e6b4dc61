package modelrepo

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weftserve/weft/internal/config"
)

// ManifestName is the file next to a model's version directories that holds its settings; it is optional.
const ManifestName = "model.yaml"

// Manifest is the settings of one model. [Defaults] returns those of a model without a file.
type Manifest struct {
	// Synth makes this a synthetic model, which has a latency curve in place of a model file. Without it the model is an
	// ONNX model.
	Synth *Synth `yaml:"synth,omitempty"`
	// ONNX says how ONNX Runtime runs the model. It is an error in a synthetic model.
	ONNX ONNX `yaml:"onnx"`
	// Isolation (server or model; default server) is the model's process. `server`: as the server's `isolation` says.
	// `model`: one process for each version on each device. A process takes about 30 MB, and on a GPU a CUDA context; when
	// it dies, no other model waits. A synthetic model refuses it. It is ignored, with a note, where models run in the
	// server's process.
	Isolation Isolation `yaml:"isolation" enum:"server,model"`
	// Replicas (1 to 64, or auto; default 1) is the number of devices on which each version is loaded, so that they share
	// its requests; auto follows the load. A version never has more replicas than devices that can run it. Each replica
	// takes the version's memory on its device.
	Replicas Replicas `yaml:"replicas"`
	// Copies (up to 1000; default: the server's copies) is the number of replicas of the roster that have the model.
	// Raise it for a model that needs more capacity than that many servers have. It has no effect without a roster.
	Copies int `yaml:"copies,omitempty"`
	// Weight (0.001 to 1000; default 1) is the model's share of a contended device relative to other flows
	// (docs/concepts/fairness.md); by default, a flow is a version. Twice the weight is twice the device time. It has
	// no effect on an idle device.
	Weight float64 `yaml:"weight"`
	// Fairness (version, model or identity; default version) is the owner of a share: each version, the model with all
	// its versions, or each calling identity, across all models of the device that say so. With identity, Weight applies
	// to requests without a known identity, and batching.max_queue applies per identity.
	Fairness Fairness `yaml:"fairness" enum:"version,model,identity"`
	// TargetLatency (default 0) is the latency target of requests that bring none. It orders requests and ends
	// batching.batch_timeout early; it refuses nothing. 0 means five times the measured cost of a full batch, within 20
	// ms and 1 s, and does not end batching.batch_timeout. Too low makes other models wait and batches small. Too high
	// makes this model wait for others.
	TargetLatency config.Duration `yaml:"target_latency"`
	// MaxLatency (default 10s) is the deadline of requests that bring none. Requests that cannot meet it are refused or
	// dropped. 0 disables it, so that such requests wait without end. Too high computes answers for callers that have
	// left.
	MaxLatency config.Duration `yaml:"max_latency"`
	// Batching says how requests share executions.
	Batching Batching `yaml:"batching"`
	// Versions selects the versions that are served, and names them.
	Versions Versions `yaml:"versions"`
	// Traffic divides the requests that name neither a version nor a label. By default the newest ready version that was
	// not rolled back answers them; a running episode stays at its version.
	Traffic *Traffic `yaml:"traffic,omitempty"`
	// Declared is the signature that a config.pbtxt says the model has; nil: none says so. The opened model must have it.
	Declared *Declared `yaml:"-"`
	// Warmup lists requests that run before a version is ready. A version whose warm-up fails does not load. By default
	// only synthetic inputs run.
	Warmup []Warmup `yaml:"warmup,omitempty"`
	// State says which inputs the server keeps between the requests of an episode. By default it keeps only pairs that it
	// recognises by names and shapes; none in place of the keys keeps nothing.
	State *State `yaml:"state,omitempty"`
}

// Isolation is which process a model runs in: server or model.
type Isolation string

// The processes.
const (
	IsolateAsServer Isolation = "server"
	IsolateModel    Isolation = "model"
)

// Fairness is the owner of a share of the device: version, model or identity.
type Fairness string

// The owners.
const (
	FairVersion  Fairness = "version"
	FairModel    Fairness = "model"
	FairIdentity Fairness = "identity"
)

// Defaults returns the manifest of a model that has no file.
func Defaults() Manifest {
	return Manifest{
		ONNX:       defaultONNX(),
		Isolation:  IsolateAsServer,
		Replicas:   1,
		Weight:     1,
		Fairness:   FairVersion,
		MaxLatency: config.Duration(10 * time.Second),
		Batching: Batching{
			Mode:           BatchAuto,
			MaxBatchCost:   config.Duration(100 * time.Millisecond),
			OnFull:         RefuseWhenFull,
			MaxRequestRows: 4096,
			Audit:          0.01,
		},
		Versions: Versions{Policy: Policy{Latest: 1}, Transition: AvailabilityFirst},
	}
}

// ReadManifest reads a model.yaml over the defaults; file names it in faults. The error is config.Faults with
// everything that is wrong in it; whether the versions it names exist is for [Repository.Scan] to say.
func ReadManifest(file string, data []byte) (Manifest, error) {
	m := Defaults()
	err := config.Decode(file, data, &m, m.Check)
	return m, err
}

// Print gives the effective settings as YAML that ReadManifest reads back.
func Print(m *Manifest) (string, error) { return config.Print(m) }

// Replicas is the number of devices of a version: 1 or more, or AutoReplicas.
type Replicas int

// AutoReplicas is written auto: as many as the load needs.
const AutoReplicas Replicas = -1

// maxReplicas keeps a number from being a typing error.
const maxReplicas = 64

// UnmarshalText reads a number of at least 1, or auto.
func (r *Replicas) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = AutoReplicas
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > maxReplicas {
		return fmt.Errorf("expected a number from 1 to %d, or auto, found %q", maxReplicas, text)
	}
	*r = Replicas(n)
	return nil
}

// MarshalYAML gives the form that was read.
func (r Replicas) MarshalYAML() (any, error) {
	if r == AutoReplicas {
		return "auto", nil
	}
	return int(r), nil
}

// Threads is the number of threads of an execution: 1 or more, or AutoThreads.
type Threads int

// AutoThreads is written auto: one, and for a large model more, as far as there are processors.
const AutoThreads Threads = -1

// maxThreads keeps a number from being a typing error.
const maxThreads = 256

// UnmarshalText reads a number of at least 1, or auto.
func (t *Threads) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*t = AutoThreads
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > maxThreads {
		return fmt.Errorf("expected a number from 1 to %d, or auto, found %q", maxThreads, text)
	}
	*t = Threads(n)
	return nil
}

// MarshalYAML gives the form that was read.
func (t Threads) MarshalYAML() (any, error) {
	if t == AutoThreads {
		return "auto", nil
	}
	return int(t), nil
}
