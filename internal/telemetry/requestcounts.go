package telemetry

import (
	"strconv"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// requests counts predictions. There are as many counts as versions, times the ways in which a request can end.
type requests struct {
	// held for reading to count, and alone for a page, so that the counts of a page are of one moment
	mu      sync.RWMutex
	offered map[requestKey]*requestCount // guarded by mu; by model and stream
	ended   map[requestKey]*requestCount // guarded by mu
	settled map[requestKey]int64         // guarded by mu; by model and stream: ended, and the version is forgotten
}

// requestKey says what a count is of. A request for a model that there is none of has no model. Counts of offered and
// settled requests have neither a version nor a code.
type requestKey struct {
	model   string
	version int64
	code    string
	stream  bool
}

// requestCount counts the requests of one key.
type requestCount struct {
	labels // model, version
	n      atomic.Int64
}

// identity returns the labels of the version, empty if none was chosen.
func (k *requestKey) identity() []attribute.KeyValue {
	version := ""
	if k.version > 0 {
		version = strconv.FormatInt(k.version, 10)
	}
	return identity(k.model, version)
}

// all returns the labels of the counter.
func (k *requestKey) all() []attribute.KeyValue {
	return append(k.identity(), k.method(), attribute.String("code", k.code))
}

// method returns the label that tells requests on a stream from calls of their own.
func (k *requestKey) method() attribute.KeyValue {
	if k.stream {
		return attribute.String("method", "PredictStream")
	}
	return attribute.String("method", "Predict")
}

// offer counts a request that reached the server.
func (r *requests) offer(k requestKey) { r.count(&r.offered, k) }

// end counts a request that ended, and returns its labels.
func (r *requests) end(k requestKey) *labels { return &r.count(&r.ended, k).labels }

// count adds one to the count of a key. Counting holds the lock for reading only, so that requests do not wait for each
// other; the first of a key makes its count.
func (r *requests) count(all *map[requestKey]*requestCount, k requestKey) *requestCount {
	r.mu.RLock()
	c := (*all)[k]
	if c != nil {
		c.n.Add(1)
	}
	r.mu.RUnlock()
	if c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Another request may have made the map or the count since the lock for reading was given up.
	if *all == nil {
		*all = map[requestKey]*requestCount{}
	}
	if c = (*all)[k]; c == nil {
		c = &requestCount{labels: newLabels(k.identity())}
		(*all)[k] = c
	}
	c.n.Add(1)
	return c
}

// observe adds the metrics of how many requests came, ended, and are in flight. A page holds the lock alone, so that
// its numbers add up.
func (r *requests) observe(i *observed, gone *departed) error {
	offered := i.counter("weft_requests_offered_total", "Predictions that reached the server, unary or on a stream. "+
		"The model is empty where there is none of that name.")
	ended := i.counter("weft_requests_total",
		"Predictions, unary or on a stream, by how they ended. The model is empty where there is none of that name.")
	inFlight := i.gauge("weft_requests_in_flight", "Predictions that reached the server and have not ended.")
	return i.by(func(o metric.Observer) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forgetLocked(gone)
		for k, c := range r.offered {
			o.ObserveInt64(offered, c.n.Load(), metric.WithAttributes(attribute.String("model", k.model), k.method()))
		}
		for k, e := range r.ended {
			o.ObserveInt64(ended, e.n.Load(), metric.WithAttributes(k.all()...))
		}
		for k, n := range r.openLocked() {
			o.ObserveInt64(inFlight, n, metric.WithAttributes(attribute.String("model", k.model), k.method()))
		}
	})
}

// openLocked returns how many requests came and have not ended, by model and stream. The caller holds mu alone.
func (r *requests) openLocked() map[requestKey]int64 {
	open := map[requestKey]int64{}
	for k, c := range r.offered {
		open[k] = c.n.Load() - r.settled[k]
	}
	for k, e := range r.ended {
		open[requestKey{model: k.model, stream: k.stream}] -= e.n.Load()
	}
	return open
}

// RequestCounts calls each for every model: with the code "" for how many requests came, and with each other code for
// how many ended so. Requests of forgotten versions are left out. All numbers are of one moment, and each must not
// wait.
func (t *Telemetry) RequestCounts(each func(model, code string, n int64)) {
	r := &t.requests
	r.mu.Lock() // all are of one moment
	defer r.mu.Unlock()
	for k, c := range r.offered {
		each(k.model, "", c.n.Load()-r.settled[k])
	}
	for k, c := range r.ended {
		each(k.model, k.code, c.n.Load())
	}
}
