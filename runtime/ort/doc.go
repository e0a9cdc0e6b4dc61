// Package ort runs models on ONNX Runtime.
//
// Two parts share the work. The Go binding (github.com/yalue/onnxruntime_go) owns the library, its environment, session
// options, execution providers and the life of sessions. A thin C layer (capi.h) describes signatures and runs
// sessions, because the binding cannot: it fails on fp16, bf16 and scalar outputs whose shape is unknown before the
// run, refuses scalar and empty tensors over foreign memory, cuts strings at a zero byte, drops ONNX Runtime's error
// codes and does not give the symbolic names of dimensions. One call of the C layer makes the values, runs, and
// releases them, where the binding crosses from Go to C once per value and step.
//
// The layer does not include ONNX Runtime's C header: cgo cannot find a header inside another module, and a copied or
// generated one would make `go build`, linters and `go install` depend on a step before them. calls.h declares the few
// entries it uses of the function table, which ONNX Runtime only ever appends to, and a test compares each with the
// header inside the binding's module, by the C compiler.
//
// On CUDA devices the layer also does three things that the binding cannot express: it names the CUDA graph of a run,
// keeps device memory at fixed addresses for it (graph.h), and finds the CUDA runtime, which is never linked, to copy
// there and to page-lock host memory (cudart.h). docs/CUDA.md explains how and why.
//
// The layer reads the session's address from an unexported field of the binding by reflection; Open fails with a
// sentence, not a crash, should a later binding rename it.
package ort
