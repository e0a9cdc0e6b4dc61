package proof

import (
	"cmp"
	"fmt"
	"io"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// graphProof is the proof that the graph of a version gives about its rows. The zero value proves nothing, and was not
// asked to.
type graphProof struct{ structure.Verdict }

// Consult reads the model file as it is opened, nil where there is none, if a proof by its graph is wanted. Where that
// proves the rows independent, outputs have their rows where the graph has them. Where the rows are sure to meet, but
// those along another dimension are proven, they are along that. foreign is engine.Opened.Foreign.
func (d *Decision) Consult(file *io.SectionReader, foreign bool) {
	if d.manifest.Mode != modelrepo.BatchAuto || file == nil || d.Against != "" {
		return
	}
	model, err := structure.Read(file, file.Size())
	if err != nil {
		d.graph = graphProof{structure.Verdict{Reason: "the file cannot be read for its structure: " + err.Error()}}
		return
	}
	if foreign {
		model.ReplaceFunctions()
	}
	if d.consult(model); !d.graph.Mixes || d.manifest.Tolerance > 0 {
		return
	}
	for _, b := range d.elsewhere() {
		if other, err := decide(d.declared, b); err == nil && other.Against == "" {
			if other.consult(model); other.graph.Proven {
				other.manifest = d.manifest
				*d = *other
				return
			}
		}
	}
}

// consult has the graph prove the rows along the decision's dimensions.
func (d *Decision) consult(model *structure.Model) {
	v := model.Prove(d.axes())
	if v.Proven {
		if name := d.adopt(v.Outputs); name != "" {
			v.Proven, v.Reason = false,
				fmt.Sprintf("output %q has its rows in another dimension than batching.batch_dim.outputs states", name)
		}
	}
	d.graph = graphProof{v}
}

// obstacle is the reason why there is no proof: an operator and why, or why alone; "" if nothing stood in its way.
func (g *graphProof) obstacle() string {
	switch {
	case g.Proven:
		return ""
	case g.Operator != "" && g.Reason != "":
		return g.Operator + ": " + g.Reason
	}
	return cmp.Or(g.Operator, g.Reason)
}

// axes are the dimensions along which the inputs have their rows, as far as is decided.
func (d *Decision) axes() map[string]int {
	axes := map[string]int{}
	for i := range d.Signature.Inputs {
		if in := &d.Signature.Inputs[i]; in.BatchDim != tensor.NoBatch {
			axes[in.Name] = in.BatchDim
		}
	}
	return axes
}

// adopt takes over where the outputs have their rows. It returns the name of an output that the manifest states
// something else about, and then takes over nothing.
func (d *Decision) adopt(outputs map[string]int) (contradicted string) {
	s := d.Signature.Clone()
	for i := range s.Outputs {
		out := &s.Outputs[i]
		dim, ok := outputs[out.Name]
		if !ok {
			dim = tensor.NoBatch
		}
		if !d.guessed[i] && dim != out.BatchDim {
			return out.Name
		}
		out.BatchDim = dim
	}
	d.Signature = s
	return ""
}
