// Package transport takes calls of gRPC, for every service alike: limits, keepalive, messages that are read here so
// that a broken one gets an error of ours, and panics that end one call only. It takes requests for predictions through
// the pipeline, whatever protocol they are of: those of unary calls, and those of streams on which each message is one.
package transport
