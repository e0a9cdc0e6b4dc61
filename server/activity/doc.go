// Package activity remembers what the server does: the latest batches and requests, and how each version did in the
// last seconds, the last hour and the last day. The live page, `weft top` and `weft explain` read it, and nothing is
// decided by it.
//
// Everything is bounded: the latest 32,768 batches, 65,536 requests and 65,536 requests that were late or not answered;
// histories of 64 versions. What is shown to viewers is put together once for all of them, and only while there are
// any.
package activity
