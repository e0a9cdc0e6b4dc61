package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// fluidBatch returns the batch that a model executes if its requests arrive evenly at a rate and the device is there
// whenever a batch is full: the largest b, at most MaxBatch, for which the first of b requests is answered in time,
//
//	(b-1)/rate + cost(b) ≤ SLO.
//
// It need not be whole, as the demand then grows smoothly with the rate. It is 1 where not even one request is in time.
func fluidBatch(m *Model, rate float64) float64 {
	fits := func(b float64) bool { return (b-1)/rate+fluidCost(m, b) <= m.SLO.Seconds() }
	most := float64(m.MaxBatch)
	if rate <= 0 {
		return 1
	}
	if fits(most) {
		return most
	}
	return bisect(1, most, 40, fits)
}

// fluidCost is the cost of a batch that need not be whole, in seconds.
func fluidCost(m *Model, b float64) float64 {
	low := m.Cost(int(b)).Seconds()
	return low + (b-math.Floor(b))*(m.Cost(int(b)+1).Seconds()-low)
}

// bisect returns where ok turns from true to false between low and high, by halving that many times.
func bisect(low, high float64, times int, ok func(float64) bool) float64 {
	for range times {
		if mid := (low + high) / 2; ok(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// fluidDemand returns the device time per second that a model takes at a rate when each of its batches is as large as
// its SLO allows.
func fluidDemand(m *Model, rate float64) float64 {
	b := fluidBatch(m, rate)
	return rate * fluidCost(m, b) / b
}

// toCapacity scales the rates of models, whose proportions alone matter before, to the fluid capacity: the
// demands of all models sum to 1. That is load 1. It is a yardstick and no bound: requests that come in bursts batch
// better than ones that come evenly.
func toCapacity(models []Model) {
	fits := func(scale float64) bool {
		sum := 0.0
		for i := range models {
			sum += fluidDemand(&models[i], models[i].Rate*scale)
		}
		return sum < 1
	}
	high := 1.0
	for fits(high) {
		high *= 2
	}
	scale := bisect(0, high, 60, fits)
	for i := range models {
		models[i].Rate *= scale
	}
}

// demands sets the rates of models so that each needs that share of the device in fluid batches.
func demands(models []Model, share float64) {
	for i := range models {
		m := &models[i]
		m.Rate = bisect(0, 1e6, 60, func(rate float64) bool { return fluidDemand(m, rate) < share })
	}
}

// InShare reports which flows ask for no more than their fair share of the device. A flow's demand is the device time
// that its requests, as many as were offered over the span, need in fluid batches (fluidDemand). The device is divided
// by max-min fairness: every flow gets its demand or, where that is more, a share proportional to its weight of the
// part that the modest ones leave.
func InShare(models []Model, r *Result) []bool {
	demand := make([]float64, len(models))
	for i := range models {
		demand[i] = fluidDemand(&models[i], float64(r.Flows[i].Offered)/max(r.Span().Seconds(), 1e-9))
	}
	return waterFill(models, demand)
}

// waterFill reports for which flows demand is met when a device of capacity 1 is divided by weighted max-min fairness.
func waterFill(models []Model, demand []float64) []bool {
	weight := func(i int) float64 { return cmp.Or(models[i].Weight, 1) }
	order := make([]int, len(models))
	weights := 0.0
	for i := range order {
		order[i] = i
		weights += weight(i)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(demand[a]/weight(a), demand[b]/weight(b))
	})
	met := make([]bool, len(models))
	left := 1.0
	for _, i := range order {
		if demand[i] > left*weight(i)/weights+1e-12 {
			break // and so do all that follow
		}
		met[i] = true
		left -= demand[i]
		weights -= weight(i)
	}
	return met
}

// milliseconds makes workloads easier to read.
func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
