package app

import (
	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/tensor"
)

// Findings are what a check found. Fields may be added to their JSON form; none is removed or changes its meaning.
type Findings struct {
	// Settings are those of the server that differ from their defaults, by their names in the settings file.
	Settings config.Text     `json:"settings"`
	Models   []ModelFindings `json:"models"`
	// Faults keep something from being served as it should be; there is none if the check is passed.
	Faults []string `json:"faults"`
	// Notes tell of what is no fault but probably not intended.
	Notes []string `json:"notes"`
}

// rename has called name the files.
func (f *Findings) rename(called func(string) string) {
	for i := range f.Faults {
		f.Faults[i] = called(f.Faults[i])
	}
	for i := range f.Notes {
		f.Notes[i] = called(f.Notes[i])
	}
	for i := range f.Models {
		m := &f.Models[i]
		m.Directory, m.Manifest, m.Config = called(m.Directory), called(m.Manifest), called(m.Config)
	}
}

// ModelFindings are of one model whose settings can be read.
type ModelFindings struct {
	Name      string `json:"name"`
	Directory string `json:"directory"`
	// Manifest and Config are the paths of its settings, model.yaml and Triton's config.pbtxt; "" where it has none.
	Manifest string            `json:"manifest,omitempty"`
	Config   string            `json:"config,omitempty"`
	Settings config.Text       `json:"settings"`
	Versions []VersionFindings `json:"versions"` // that are ready, if models were loaded
}

// VersionFindings say how a version is served.
type VersionFindings struct {
	Version      int64            `json:"version"`
	Device       string           `json:"device"`
	Provider     string           `json:"provider"`
	Also         []string         `json:"also,omitempty"`  // further devices that it is on
	Steps        []string         `json:"steps,omitempty"` // of a pipeline, such as "act: head/7, 10 times"
	Inputs       []TensorFindings `json:"inputs"`
	Outputs      []TensorFindings `json:"outputs"`
	Batched      bool             `json:"batched"`
	MaxBatchSize int              `json:"max_batch_size,omitempty"`
	Reason       string           `json:"reason"` // for which it is batched or not
	Proof        string           `json:"proof,omitempty"`
	Unproven     string           `json:"unproven,omitempty"`     // why the graph proves nothing
	OpenLengths  []string         `json:"open_lengths,omitempty"` // dimensions in which requests must agree to share executions
	State        *StateFindings   `json:"state,omitempty"`        // none: nothing is kept between requests
	Notes        []string         `json:"notes,omitempty"`
	Costs        []CostFindings   `json:"costs,omitempty"`
}

// TensorFindings is an input or output. Sizes that are open are -1.
type TensorFindings struct {
	Name     string       `json:"name"`
	DType    string       `json:"dtype"`
	Shape    tensor.Shape `json:"shape"`
	BatchDim *int         `json:"batch_dim,omitempty"` // counts rows; none where requests must agree in the tensor
	Shown    tensor.Shape `json:"shown,omitempty"`     // the shape that clients of Triton see instead
}

// StateFindings are what the server keeps between the requests of an episode.
type StateFindings struct {
	Found  bool                 `json:"found,omitempty"` // by names and shapes; no settings say so
	Inputs []StateInputFindings `json:"inputs"`
	// Controls are such as "first is 1 at the start".
	Controls []string `json:"controls,omitempty"`
	// RowBytes and Bytes are what an episode begins with, for each of its rows and besides.
	RowBytes    int      `json:"row_bytes,omitempty"`
	Bytes       int      `json:"bytes,omitempty"`
	Growing     []string `json:"growing,omitempty"` // inputs whose size varies, so that they may take more
	MaxEpisodes int      `json:"max_episodes"`
	Idle        string   `json:"idle"`
}

// StateInputFindings is an input that is kept.
type StateInputFindings struct {
	Input string `json:"input"`
	Of    string `json:"of"`              // the output that it is in the next request, or what a window is of
	Steps int    `json:"steps,omitempty"` // of a window
}

// CostFindings is the device time of executions of a version.
type CostFindings struct {
	Sizes      string              `json:"sizes,omitempty"` // of open dimensions that it was measured for
	Executions []ExecutionFindings `json:"executions"`
}

// ExecutionFindings is the device time of executions with so many rows.
type ExecutionFindings struct {
	Rows     int     `json:"rows"`
	MedianUs float64 `json:"median_us"`
}
