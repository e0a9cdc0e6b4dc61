// Package gpu says what a GPU is and in what state it is, on any machine: how fast it runs, what holds it back, what
// memory is left, who else uses it.
//
// A [Sampler] asks a [Source] in one goroutine of its own, since a driver may take its time, and publishes what it
// hears through an atomic pointer: whoever dispatches work reads the latest [Sample] and never waits. Everything may
// fail. A value that the device does not have is asked for once; one that fails is missing until it is back; a device
// that fails altogether is left alone for a growing while; and a sample that has become too old says so. Each of these
// is counted, see [Sampler.FallBacks].
package gpu
