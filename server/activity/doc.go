// Package activity remembers what the server does: the latest batches and requests, and how each version did in the
// last seconds, the last hour and the last day. The live page, `weft top` and `weft explain` read it, and nothing is
// decided by it.
//
// Everything is bounded: the latest 32,768 batches and 65,536 requests, 65,536 that were refused, and as many that were
// late or ended otherwise without an answer; histories of 64 versions. What is shown to viewers is put together once
// for all of them, and only while there are any.
package activity
