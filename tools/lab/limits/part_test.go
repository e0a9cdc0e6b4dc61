package main

import (
	"math"
	"testing"
)

// TestPerfectBatcher: at a low rate a request takes what a batch of one takes, and its echo. At a high one the batches
// grow as far as they must, and with fixed costs only a request waits for half a batch, and takes one.
func TestPerfectBatcher(t *testing.T) {
	fixed := []pace{{Batch: 1, BatchUs: 1000}, {Batch: 256, BatchUs: 1000}}
	if p50, p99 := perfect(1, fixed, 50, 1, 1); math.Abs(p50-1.05) > 1e-9 || p99 > 1.5 {
		t.Errorf("a request at a time: p50 %v, p99 %v, want 1.05", p50, p99)
	}
	if p50, p99 := perfect(100_000, fixed, 0, 1, 1); math.Abs(p50-1.5) > 0.05 || p99 > 2.01 {
		t.Errorf("batches of a hundred, 1 ms each: p50 %v, p99 %v, want 1.5 and 2", p50, p99)
	}
	if p50, _ := perfect(100_000, fixed, 0, 2, 1); p50 > 1.45 {
		t.Errorf("two processors: p50 %v", p50)
	}
}

func TestBatchTime(t *testing.T) {
	paces := []pace{{Batch: 1, BatchUs: 10}, {Batch: 4, BatchUs: 40}, {Batch: 8, BatchUs: 60}}
	for rows, want := range map[int]float64{1: 10, 2: 20, 4: 40, 6: 50, 8: 60} {
		if got := batchUs(paces, rows); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d rows take %v us, want %v", rows, got, want)
		}
	}
}
