package proof

import (
	"cmp"
	"fmt"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// graphProof is the proof that the graph of a version gives about its rows. The zero value proves nothing, and was not
// asked to.
type graphProof struct{ structure.Verdict }

// proveByStructure reads the version's graph, if it has one and the proof is wanted. Where it proves the rows
// independent, the decision's outputs have their rows where the graph has them.
func proveByStructure(s *Subject, d *Decision) graphProof {
	if s.Batching.Mode != modelrepo.BatchAuto || s.Graph == nil || d.Against != "" {
		return graphProof{}
	}
	model, err := structure.Read(s.Graph, s.Graph.Size())
	if err != nil {
		return graphProof{structure.Verdict{Reason: "the file cannot be read for its structure: " + err.Error()}}
	}
	v := model.Prove(d.axes())
	if v.Proven {
		if name := d.adopt(v.Outputs); name != "" {
			v.Proven, v.Reason = false,
				fmt.Sprintf("output %q has its rows in another dimension than batching.batch_dim.outputs states", name)
		}
	}
	return graphProof{v}
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

// adopt takes over where the outputs have their rows. It returns the name of one of which the manifest states something
// else, and then takes over nothing.
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
