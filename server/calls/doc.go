// Package calls takes the requests of gRPC calls through the pipeline, whatever protocol they are of: those of unary
// calls, and those of streams on which each message is a request.
package calls
