package telemetry

import (
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// requests counts predictions. There are as many counts as there are versions, times the ways in which a request can
// end.
type requests struct {
	// held for reading to count, and alone for a page, so that the counts of a page are of one moment
	mu      sync.RWMutex
	offered map[requestKey]*atomic.Int64  // guarded by mu; by model and stream
	ended   map[requestKey]*endedRequests // guarded by mu
}

type requestKey struct {
	model   string
	version int64
	slot    string
	code    string
	stream  bool
}

// endedRequests are those of one version that ended in one way.
type endedRequests struct {
	labels
	n atomic.Int64
}

func (k *requestKey) identity() []attribute.KeyValue {
	version := ""
	if k.version > 0 {
		version = strconv.FormatInt(k.version, 10)
	}
	return append(identity(k.model, version, k.slot), k.method(), attribute.String("code", k.code))
}

func (k *requestKey) method() attribute.KeyValue {
	if k.stream {
		return attribute.String("method", "PredictStream")
	}
	return attribute.String("method", "Predict")
}

// offer counts a request that came.
func (r *requests) offer(k requestKey) {
	r.mu.RLock()
	n := r.offered[k]
	if n != nil {
		n.Add(1)
	}
	r.mu.RUnlock()
	if n != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.offered == nil {
		r.offered = map[requestKey]*atomic.Int64{}
	}
	if r.offered[k] == nil {
		r.offered[k] = &atomic.Int64{}
	}
	r.offered[k].Add(1)
}

// end counts a request that ended, and returns its labels.
func (r *requests) end(k requestKey) *labels {
	r.mu.RLock()
	e := r.ended[k]
	if e != nil {
		e.n.Add(1)
	}
	r.mu.RUnlock()
	if e != nil {
		return &e.labels
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = map[requestKey]*endedRequests{}
	}
	if r.ended[k] == nil {
		r.ended[k] = &endedRequests{labels: newLabels(k.identity())}
	}
	e = r.ended[k]
	e.n.Add(1)
	return &e.labels
}

// observe adds the metrics of how many requests came, ended, and are in between.
func (r *requests) observe(i *observed) error {
	offered := i.counter("weft_requests_offered_total", "Predictions that reached the server, unary or on a stream. "+
		"The model is empty where there is none of that name.")
	ended := i.counter("weft_requests_total",
		"Predictions, unary or on a stream, by how they ended. The model is empty where there is none of that name.")
	inFlight := i.gauge("weft_requests_in_flight", "Predictions that reached the server and have not ended.")
	return i.by(func(o metric.Observer) {
		r.mu.Lock()
		defer r.mu.Unlock()
		open := map[requestKey]int64{}
		for k, n := range r.offered {
			open[k] = n.Load()
			o.ObserveInt64(offered, n.Load(), metric.WithAttributes(attribute.String("model", k.model), k.method()))
		}
		for k, e := range r.ended {
			open[requestKey{model: k.model, stream: k.stream}] -= e.n.Load()
			o.ObserveInt64(ended, e.n.Load(), metric.WithAttributes(k.identity()...))
		}
		for k, n := range open {
			o.ObserveInt64(inFlight, n, metric.WithAttributes(attribute.String("model", k.model), k.method()))
		}
	})
}
