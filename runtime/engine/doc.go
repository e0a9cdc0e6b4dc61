// Package engine is the contract between engines, which execute models, and their callers.
//
// An engine opens a model and hands over a Session. It gets batches in flat memory outside the Go heap, which an
// allocator of its own may have given, and answers there. It knows no request, no caller, no scheduler and no
// repository, so that it may live in another process.
package engine
