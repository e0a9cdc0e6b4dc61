// Package synth is an engine with a latency curve instead of a model: it shows how the house behaves under load without
// a network or an accelerator, in tests, demonstrations and load tests.
//
// An execution of n rows occupies its device for Base + n·PerRow. The answer to a row depends on the model's seed and
// on that row's own inputs alone, so that a test can tell whose answer it got; Answer computes it without a device.
package synth
