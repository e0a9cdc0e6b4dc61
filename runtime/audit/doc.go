// Package audit finds out whether batches change answers while a version serves. No proof by examples knows every
// input, so rows of live batches are run once more by themselves, while the device is idle, and their results are
// compared with the answers that their callers got.
//
// Locks: Auditor.mu is held while a row is chosen and copied; Memory.mu, a leaf, may be taken with it held. Neither is
// held across a run, nor while a result is reported.
package audit
