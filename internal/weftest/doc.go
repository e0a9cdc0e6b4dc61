// Package weftest is what the tests of several packages stand on: models written in Go, tensors of a few numbers, and
// a log that is kept.
package weftest
