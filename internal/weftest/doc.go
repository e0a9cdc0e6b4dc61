// Package weftest holds the helpers that tests of several packages share: models written in Go, tensors of a few
// numbers, a log that is kept, files of a repository, and clients of a whole server.
package weftest
