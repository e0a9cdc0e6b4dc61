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
	low, high := 1.0, float64(m.MaxBatch)
	fits := func(b float64) bool { return (b-1)/rate+fluidCost(m, b) <= m.SLO.Seconds() }
	if rate <= 0 {
		return 1
	}
	if fits(high) {
		return high
	}
	for range 40 {
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// fluidCost is the cost of a batch that need not be whole, in seconds.
func fluidCost(m *Model, b float64) float64 {
	whole := int(math.Floor(b))
	low := m.Cost(whole).Seconds()
	if b == float64(whole) {
		return low
	}
	return low + (b-float64(whole))*(m.Cost(whole+1).Seconds()-low)
}

// fluidDemand returns the device time per second that a model takes at a rate when each of its batches is as large as
// its SLO allows.
func fluidDemand(m *Model, rate float64) float64 {
	b := fluidBatch(m, rate)
	return rate * fluidCost(m, b) / b
}

// toCapacity scales the rates of models, of which only the proportions matter before, to the fluid capacity: the
// demands of all models sum to 1. That is load 1. It is a yardstick and no bound: requests that come in bursts batch
// better than ones that come evenly.
func toCapacity(models []Model) {
	demand := func(scale float64) float64 {
		sum := 0.0
		for i := range models {
			sum += fluidDemand(&models[i], models[i].Rate*scale)
		}
		return sum
	}
	low, high := 0.0, 1.0
	for demand(high) < 1 {
		high *= 2
	}
	for range 60 {
		if mid := (low + high) / 2; demand(mid) < 1 {
			low = mid
		} else {
			high = mid
		}
	}
	for i := range models {
		models[i].Rate *= low
	}
}

// demands sets the rates of models so that each needs that share of the device in fluid batches.
func demands(models []Model, share float64) {
	for i := range models {
		m := &models[i]
		low, high := 0.0, 1e6
		for range 60 {
			if mid := (low + high) / 2; fluidDemand(m, mid) < share {
				low = mid
			} else {
				high = mid
			}
		}
		m.Rate = low
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
