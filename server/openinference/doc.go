// Package openinference serves the Open Inference Protocol, which clients of Triton and KServe speak, with those of
// Triton's extensions that have a meaning here. docs/OPEN_INFERENCE.md lists what each call and parameter does.
package openinference
