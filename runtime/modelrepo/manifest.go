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
	// Synth makes this a synthetic model: a latency curve instead of a model file. nil means an ONNX model.
	Synth *Synth `yaml:"synth,omitempty"`
	// ONNX says how ONNX Runtime runs the model. It is ignored when Synth is set.
	ONNX ONNX `yaml:"onnx"`
	// Isolation is which process the model runs in: the one that the server's --isolation says, or one of its own for each
	// version on each device. The second takes some 30 MB for each, and on a GPU a CUDA context; in return no other
	// model waits when the process dies. It is ignored where models run in the server's process, with a note.
	Isolation Isolation `yaml:"isolation" enum:"server,model"`
	// Replicas is the number of devices on which each version is resident, so that they share its requests: 1 or more,
	// default 1, or auto, which follows the load. There are never more replicas than devices that can run the version.
	// Each takes the version's memory on its device.
	Replicas Replicas `yaml:"replicas"`
	// Copies is on how many replicas of the roster the model is, 0 to 1000, by default as many as the server's setting
	// copies says; on each, if there are not so many. It is for models that need more than that many servers can do.
	// Without a roster it has no effect.
	Copies int `yaml:"copies,omitempty"`
	// Weight is the model's share of the device while that is contended, relative to the other flows; 0.001 to
	// 1000, default 1. Twice the weight is twice the device time. It has no effect on an idle device.
	Weight float64 `yaml:"weight"`
	// Fairness is the owner of the share: each version owns one, or the model owns one for all its versions, or each
	// identity that asks owns one, of its own weight, for all models that say so on the device. With identity, Weight is
	// that of each version's requests without a known identity, and batching.max_queue is of each identity.
	Fairness Fairness `yaml:"fairness" enum:"version,model,identity"`
	// TargetLatency is the target of requests without one: it orders, ends BatchTimeout, and refuses nothing. 0 derives
	// it from the measured cost of a full batch. Too low makes other models wait and batches small; too high makes the
	// model wait for others.
	TargetLatency config.Duration `yaml:"target_latency"`
	// MaxLatency is the limit of requests without a deadline; requests that cannot meet it are refused or dropped.
	// Default 10s; 0 disables it, and such requests wait forever. Too low refuses useful requests; too high lets
	// answers be computed that nobody waits for.
	MaxLatency config.Duration `yaml:"max_latency"`
	// Batching says how requests share executions.
	Batching Batching `yaml:"batching"`
	// Versions selects the served versions, and names them.
	Versions Versions `yaml:"versions"`
	// Traffic divides the requests that name neither a version nor a label. With nil, the default, the newest version
	// that is ready answers all of them.
	Traffic *Traffic `yaml:"traffic,omitempty"`
	// Declared is the signature that a config.pbtxt says the model has; nil: none says so. The opened model must have it.
	Declared *Declared `yaml:"-"`
	// Warmup are requests that are run before a version is ready; one that fails is a fault of the version. Empty, the
	// default: made-up inputs alone.
	Warmup []Warmup `yaml:"warmup,omitempty"`
	// State says which inputs the server keeps between the requests of an episode; nil, the default: none.
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
			MaxBatchSize:   64,
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
