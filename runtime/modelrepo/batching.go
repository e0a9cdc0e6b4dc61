package modelrepo

import (
	"cmp"
	"fmt"

	"github.com/weftserve/weft/internal/config"
)

// Batching says how requests share executions.
type Batching struct {
	// Mode (auto, on or off; default auto) is whether requests share executions. With auto they do if the rows are shown
	// to be independent when the model is loaded.
	Mode BatchMode `yaml:"mode" enum:"auto,on,off"`
	// MaxBatchSize (0 to 65536; default 0) is the largest number of rows that share one execution. 0 means the largest of
	// AllowedBatchSizes. Without these it is 64 or, if 64 rows take 1 ms or more, the size that Weft measures at load: up
	// to 256 where larger batches make a row cheaper, fewer where they make it more expensive. Too low wastes the device.
	// Too high makes urgent requests wait behind long executions.
	MaxBatchSize int `yaml:"max_batch_size"`
	// MaxBatchCost (100us to 1m; default 100ms) is the longest device time that one execution of several rows is planned
	// to take. Too low wastes the device. Too high lets one execution delay every other model by that much.
	MaxBatchCost config.Duration `yaml:"max_batch_cost"`
	// BatchTimeout (0 to 1m; default 0) holds a partial batch for this long to collect more rows, even while the device
	// is idle. It ends early when a deadline, or a latency target that a request or target_latency sets, would be missed.
	// With 0 an idle device starts waiting requests at once. Higher values add that latency whenever traffic is low.
	BatchTimeout config.Duration `yaml:"batch_timeout"`
	// MaxQueue (0 to 1000000; default 0) is the largest number of requests that wait for one version on one device;
	// sheddable requests count separately. 0 means 1000, plus requests whose own deadlines can still be met. Too low
	// refuses bursts. Too high makes requests without a deadline wait long.
	MaxQueue int `yaml:"max_queue"`
	// OnFull (refuse or wait; default refuse) is what happens to a request for which MaxQueue leaves no room. `refuse`:
	// it fails with `RESOURCE_EXHAUSTED` at once. `wait`: the call is held until there is room or its deadline passes,
	// except for sheddable requests.
	OnFull OnFull `yaml:"on_full" enum:"refuse,wait"`
	// MaxRequestRows (1 to 1048576; default 4096) is the largest number of rows in one request to a batched version. More
	// rows are an invalid argument. A request with more than MaxBatchSize rows is split over several executions. Too high
	// lets one request occupy the device for long.
	MaxRequestRows int `yaml:"max_request_rows"`
	// AllowedBatchSizes (default empty: any size) are the only batch sizes, ascending; the last equals MaxBatchSize. Few
	// sizes suit engines that prepare for each size, and cost the time of padding rows. Weft pads a batch to the next
	// size, or leaves rows for a later batch, whichever costs less device time per row.
	AllowedBatchSizes []int `yaml:"allowed_batch_sizes,flow"`
	// Audit (0 to 0.5; default 0.01) is the fraction of the device time of batched requests that Weft spends on running
	// some of their rows again alone, on an idle device, to compare the answers; at first it is up to ten times as much.
	// A version whose answers differ is no longer batched; with mode on this is only logged. Too low finds wrong answers
	// late. 0 disables audits.
	Audit float64 `yaml:"audit"`
	// BatchDim is the dimension along which a tensor's rows are joined, where it is not 0: {inputs: {h: 1}, outputs:
	// {hn: 1}}.
	BatchDim BatchDim `yaml:"batch_dim"`
	// Unbatched names inputs that have no batch dimension. Requests share an execution only if these inputs are equal.
	Unbatched []string `yaml:"unbatched,flow"`
	// Tolerance (0 to 1; default 0) is how far a row's answer in a batch may be from its answer alone, relative to the
	// largest value. 0 means 1e-5, for fp16 2e-3, for bf16 1.6e-2. Too low denies batching because of rounding. Too high
	// hides the influence of rows on each other.
	Tolerance float64 `yaml:"tolerance"`
	// VariableDims names inputs whose length differs between requests, and the lengths to which Weft pads them so that
	// these requests share executions. Without it only requests of equal length do.
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

// MostMeasured is the largest batch that is measured where the manifest names no largest size.
const MostMeasured = 256

// Largest returns the most rows that one execution may have: where MaxBatchSize names none, the costs that are measured
// at load may say fewer.
func (b *Batching) Largest() int {
	if n := len(b.AllowedBatchSizes); b.MaxBatchSize == 0 && n > 0 {
		return b.AllowedBatchSizes[n-1]
	}
	return cmp.Or(b.MaxBatchSize, MostMeasured)
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
			"batching.batch_timeout is %v: a partial batch waits that long for more rows, unless a deadline or a latency "+
				"target ends the wait; 0s starts it when the device is free", b.BatchTimeout))
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
