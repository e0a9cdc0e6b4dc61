// Package weftapi serves the API of Weft's own, weft.v1, by gRPC: predictions, the state of models, and changes to
// them.
package weftapi
