package modelrepo

import (
	"time"

	"github.com/weftserve/weft/internal/config"
)

// ManifestName is the file beside a model's version directories that holds its settings; it is optional.
const ManifestName = "model.yaml"

// Manifest is the settings of one model. [Defaults] gives what a model without a file has.
type Manifest struct {
	// Synth makes this a synthetic model: a latency curve instead of a model file. nil: an ONNX model.
	Synth *Synth `yaml:"synth,omitempty"`
	// ONNX tells how ONNX Runtime runs the model. Not looked at when Synth is set.
	ONNX ONNX `yaml:"onnx"`
	// Replicas is on how many devices each version is resident, so that they share its requests: 1 or more, default 1,
	// or auto, which follows the load. There are never more than devices that can run it; each takes the version's
	// memory on its device.
	Replicas Replicas `yaml:"replicas"`
	// Weight is the model's share of the device while that is contended, relative to the other flows; 0.001 to
	// 1000, default 1. Twice the weight is twice the device time; it does not matter on an idle device.
	Weight float64 `yaml:"weight"`
	// Fairness says who owns the share: every version one of its own, or the model one for all its versions.
	Fairness Fairness `yaml:"fairness"`
	// TargetLatency is the target of requests that bring none: it orders, ends BatchTimeout, and refuses nothing. 0:
	// derived from the measured cost of a full batch. Too low makes everybody else wait and batches small; too high
	// makes the model wait for others.
	TargetLatency config.Duration `yaml:"target_latency"`
	// MaxLatency is the limit of requests that bring no deadline; what cannot meet it is refused or dropped.
	// Default 10s; 0: none, such requests wait for ever. Too low refuses what would have been useful; too high
	// lets answers be computed that nobody waits for.
	MaxLatency config.Duration `yaml:"max_latency"`
	// Batching says how requests share executions.
	Batching Batching `yaml:"batching"`
	// Versions says which versions are served and what they are called.
	Versions Versions `yaml:"versions"`
	// Traffic divides the requests that name neither a version nor a label. nil, the default: the newest version that
	// is ready answers all of them.
	Traffic *Traffic `yaml:"traffic,omitempty"`
	// Warmup is not supported yet: models are warmed up with random data.
	Warmup config.NotYet `yaml:"warmup,omitempty"`
}

// Fairness is the owner of a share of the device: version or model.
type Fairness string

// The owners.
const (
	FairVersion Fairness = "version"
	FairModel   Fairness = "model"
)

// Choices lists the owners.
func (Fairness) Choices() (now, later []string) { return []string{"version", "model"}, nil }

// Defaults returns the manifest of a model that has no file.
func Defaults() Manifest {
	return Manifest{
		ONNX:       defaultONNX(),
		Replicas:   1,
		Weight:     1,
		Fairness:   FairVersion,
		MaxLatency: config.Duration(10 * time.Second),
		Batching: Batching{
			Mode:           BatchAuto,
			MaxBatchSize:   64,
			MaxBatchCost:   config.Duration(100 * time.Millisecond),
			MaxQueue:       1000,
			OnFull:         RefuseWhenFull,
			MaxRequestRows: 4096,
			Padding:        PadUp,
			Adaptive:       true,
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
