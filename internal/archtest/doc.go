// Package archtest holds the house rules that a machine can check: which package may import which, how every package
// and file must look, where time may be read.
//
// Each rule is a function from a source tree to complaints. Its test runs it on this repository and on
// a bad sample, so that a rule that has gone blind fails as loudly as one that is broken.
package archtest
