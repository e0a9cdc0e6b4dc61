// Package modelfile reads the files that a model is made of, once, into a private copy that nothing on disk changes any
// more, with their SHA-256.
//
// The files are model.onnx and those of external data, which its tensors name. They lie one after the other in one
// file without a name: up to 64 MiB in memory, sealed, above in the directory for temporary files if there is one to
// write to. The engine, its process when that is started again, and proofs all read this copy.
//
// A version's SHA256SUMS (sums.go) says which files it must have.
package modelfile
