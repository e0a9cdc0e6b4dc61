// Package pipeline joins the models of a pipeline's steps into one ONNX model, so that everything that holds for a
// model holds for a pipeline: its batching is proven, its requests wait in one queue, one run answers them.
//
// [Merge] puts the graphs one after the other. The values of step "see" are called "see." and their name, which is how
// pipeline.yaml names them. A repeated step becomes a Loop (merge.go). Steps that were written for different versions
// of an operator set are rewritten for the newest of them (opset.go), operator by operator: ONNX Runtime (1.30) runs a
// model-local function by the operator sets of the model and not by its own. What no output needs is left out.
//
// Types and shapes of values that meet are compared (types.go): sizes that vary, and have a name in both models, are
// one size from then on.
package pipeline
