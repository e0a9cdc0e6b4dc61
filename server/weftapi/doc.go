// Package weftapi serves the API of Weft's own, weft.v1, by gRPC: predictions, what is known of models, and changes to
// them.
package weftapi
