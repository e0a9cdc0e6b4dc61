// Package intake tells how long what a call was read from has waited: in the kernel, and since it was read.
//
// A deadline counts from when gRPC reads the header of its call. On a busy machine the process may get a processor
// milliseconds after the bytes came, the more so because executions are not interrupted, and by then their caller's
// time has run for as long. The kernel notes when packets arrive; with that a deadline means what its caller means.
//
// The time is that of the newest of the bytes that were read at once: those before it have waited longer, by as much as
// they came earlier, at most the time since the read before. What the network and the caller's own machine took is not
// in it. The kernel begins to note times shortly after the first connection has asked for it.
package intake
