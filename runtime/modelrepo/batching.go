package modelrepo

import (
	"fmt"

	"github.com/weftserve/weft/internal/config"
)

// Batching says how requests share executions.
type Batching struct {
	// Mode is auto (batched if that is proven harmless when the model is loaded; the default), on or off.
	Mode BatchMode `yaml:"mode" enum:"auto,on,off"`
	// MaxBatchSize is the most rows in one execution, 1 to 65536, default 64. Too low wastes the device; too high
	// makes single executions long, so that urgent requests wait behind them.
	MaxBatchSize int `yaml:"max_batch_size"`
	// MaxBatchCost is the most device time that one execution is planned to take, 100us to 1m, default 100ms.
	// Too low wastes the device; too high lets one execution delay every other model by that much.
	MaxBatchCost config.Duration `yaml:"max_batch_cost"`
	// BatchTimeout holds a partial batch this long for more rows, even while the device is idle, unless a limit or a
	// target that the request or the model names would be missed; up to 1m. With 0, the default, an idle device starts
	// the waiting requests at once. Higher adds that latency to every quiet moment.
	BatchTimeout config.Duration `yaml:"batch_timeout"`
	// MaxQueue is the most requests waiting for one version, 0 to 1000000. 0, the default: 1000, and besides as many
	// with deadlines of their own as can be answered by these. Too low refuses bursts; too high makes requests without
	// a deadline wait for long.
	MaxQueue int `yaml:"max_queue"`
	// OnFull says what happens to a request beyond MaxQueue: refuse, the default, answers at once that there is no
	// room; wait keeps its caller waiting for room until the request's limit.
	OnFull OnFull `yaml:"on_full" enum:"refuse,wait"`
	// MaxRequestRows is the most rows in one request, 1 to 1048576, default 4096; more is an invalid argument. A
	// request above MaxBatchSize is split over executions. Too high lets one request occupy the device for long.
	MaxRequestRows int `yaml:"max_request_rows"`
	// AllowedBatchSizes are the only sizes of batches, ascending, the last equal to MaxBatchSize. Empty, the default,
	// allows any size. Few sizes suit engines that prepare for each size; they cost the time of the padding rows. A
	// batch is padded up to the next size, or leaves rows for a later one, whichever costs less device time per row. A
	// request is cut where its parts cost less together.
	AllowedBatchSizes []int `yaml:"allowed_batch_sizes,flow"`
	// Audit is the share of a version's device time, 0 to 0.5, default 0.01, for running rows of its batches
	// again by themselves, while the device is idle, and comparing the answers. A version whose answers differ is taken
	// out of batching; with mode on it is only logged. Too low lets more wrong answers pass before they are noticed,
	// higher costs that device time. 0 disables audits.
	Audit float64 `yaml:"audit"`
	// BatchDim names the dimension along which a tensor's rows are joined, where it is not 0.
	BatchDim BatchDim `yaml:"batch_dim"`
	// Unbatched names the inputs that have no batch dimension; requests share an execution only when these are equal.
	Unbatched []string `yaml:"unbatched,flow"`
	// Tolerance is how far the answer to a row may be from the one that it gets alone, relative to the largest value,
	// up to 1, where batching must be proven. 0, the default, means 1e-5, for fp16 2e-3, for bf16 1.6e-2. Too low denies
	// batching for rounding; too high hides the influence of rows on each other.
	Tolerance float64 `yaml:"tolerance"`
	// VariableDims names the inputs whose length differs from request to request and how they are brought to common
	// lengths, so that these requests share executions. Without it, the default, only requests of equal length do.
	VariableDims map[string]VariableDim `yaml:"variable_dims,omitempty"`
}

// Gone implements [config.Outdated].
func (Batching) Gone() map[string]string {
	return map[string]string{
		"adaptive": "batches follow the traffic and the measured costs, within max_batch_size, max_batch_cost and " +
			"batch_timeout: remove it",
		"padding": "a batch is brought to one of allowed_batch_sizes in the way that costs less device time per row: " +
			"remove it",
	}
}

// MostAudit is the largest share of its device time that a version may spend on audits.
const MostAudit = 0.5

// Notes returns a sentence for each setting that is no fault and may surprise.
func (b *Batching) Notes() (notes []string) {
	if b.Mode == BatchOff {
		return nil
	}
	if b.MaxQueue > 0 && b.MaxQueue < b.MaxBatchSize {
		notes = append(notes, fmt.Sprintf("batching.max_queue is %d, below batching.max_batch_size (%d): no batch "+
			"gets more rows than requests may wait, "+
			"unless these have several rows each; raise it, or lower max_batch_size", b.MaxQueue, b.MaxBatchSize))
	}
	if b.BatchTimeout > 0 {
		notes = append(notes, fmt.Sprintf(
			"batching.batch_timeout is %v: a partial batch is held that long even where a request is wanted earlier; "+
				"0s starts it when the device is free", b.BatchTimeout))
	}
	return notes
}

// BatchDim gives batch dimensions by tensor name; a tensor that is not named has its batch in dimension 0.
type BatchDim struct {
	Inputs  map[string]int `yaml:"inputs,omitempty,flow"`
	Outputs map[string]int `yaml:"outputs,omitempty,flow"`
}

// BatchMode is auto, on or off.
type BatchMode string

// The modes.
const (
	BatchAuto BatchMode = "auto"
	BatchOn   BatchMode = "on"
	BatchOff  BatchMode = "off"
)

// OnFull is what happens to a request when the queue is full.
type OnFull string

// The values of OnFull.
const (
	RefuseWhenFull OnFull = "refuse"
	WaitWhenFull   OnFull = "wait"
)
