package modelfile

import "testing"

// EmbedAtMost has initializers of more bytes be large, until the test ends.
func EmbedAtMost(t *testing.T, size int64) {
	before := mostEmbedded
	mostEmbedded = size
	t.Cleanup(func() { mostEmbedded = before })
}
