package host

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/runtime/proof/structure"
	"github.com/weftserve/weft/runtime/tensor"
)

// graphProof is what the graph of a version proves of its rows. The zero value proves nothing, and was not asked to.
type graphProof struct{ structure.Verdict }

// proveByStructure reads the version's graph, if it has one and the proof is wanted. Where it proves the rows independent, the decision's
// outputs have their rows where the graph has them.
func proveByStructure(c candidate, d *decision) graphProof {
	if c.manifest.Batching.Mode != modelrepo.BatchAuto || c.manifest.Synth != nil || c.version.Path == "" || d.against != "" {
		return graphProof{}
	}
	model, err := structure.Read(c.version.Path)
	if err != nil {
		why := strings.ReplaceAll(err.Error(), c.version.Path, filepath.Base(c.version.Path)) // the metadata tell no paths of the machine
		return graphProof{structure.Verdict{Reason: "the file cannot be read for its structure: " + why}}
	}
	v := model.Prove(d.axes())
	if v.Proven {
		if name := d.adopt(v.Outputs); name != "" {
			v.Proven, v.Reason = false, fmt.Sprintf("output %q has its rows in another dimension than batching.batch_dim.outputs states", name)
		}
	}
	return graphProof{v}
}

// obstacle is what stood in the way of the proof: an operator and why, or why alone; "" if nothing did.
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
func (d *decision) axes() map[string]int {
	axes := map[string]int{}
	for i := range d.signature.Inputs {
		if in := &d.signature.Inputs[i]; in.BatchDim != tensor.NoBatch {
			axes[in.Name] = in.BatchDim
		}
	}
	return axes
}

// adopt takes over where the outputs have their rows. It returns the name of one of which the manifest states something else, and then
// takes over nothing.
func (d *decision) adopt(outputs map[string]int) (contradicted string) {
	s := d.signature.Clone()
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
	d.signature = s
	return ""
}
