// Package gpu describes GPUs and their state, on any machine: how fast a GPU runs, which causes hold it back, how much
// of its memory is left, and the share of its time that other processes use.
//
// A [Sampler] asks a [Source] in one goroutine of its own, since a driver may be slow, and publishes the answers
// through an atomic pointer: a dispatcher of work reads the latest [Sample] and never waits. Every reading may fail. A
// value that the device does not have is asked for once; one that fails is missing until it is back; a device that
// fails altogether is left alone for a growing while; and a sample that has become too old says so. Each of these is
// counted, see [Sampler.FallBacks].
package gpu
