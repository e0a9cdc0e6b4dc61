package loadgen

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// shortest and longest bound what histograms tell apart; shorter and longer durations count as these.
	shortest, longest = 100 * time.Nanosecond, time.Hour
	// partCount is how many parts of a run are counted separately: enough for a curve, and divisible by three.
	partCount = 60
)

// outcome is how a request ended.
type outcome struct {
	due  time.Duration // since the end of the warm-up; negative within it
	lag  time.Duration // by how much later than due it was sent; of open loops
	took time.Duration // since it was due
	last time.Duration // of it, what the last attempt took
	err  error
	rows int64
	// attempts is how often it was sent.
	attempts int
	*reply
}

// tally counts the outcomes of one load. Requests count by when they were due, without those of the warm-up; what came
// back counts by when it came. All goroutines of the load add to it.
type tally struct {
	limit time.Duration // within which an answer is in time; 0: always
	slice time.Duration // length of each part

	// mu is taken for a moment by each request that ends.
	mu         sync.Mutex
	sent       int64                // guarded by mu
	attempts   int64                // guarded by mu; that ended
	unanswered int64                // guarded by mu; when the run was over
	inTime     int64                // guarded by mu
	codes      map[codes.Code]int64 // guarded by mu
	first      map[codes.Code]error // guarded by mu; of each code but OK
	latency    histogram            // guarded by mu; of the answers
	lag        histogram            // guarded by mu
	refused    histogram            // guarded by mu; of attempts
	queue      histogram            // guarded by mu; the server's, of the answers, like all below
	compute    histogram            // guarded by mu
	device     time.Duration        // guarded by mu
	batchRows  int64                // guarded by mu
	parts      [partCount]part      // guarded by mu
}

// part is a part of the run.
type part struct {
	latency histogram // of the answers to what was due in it
	came
}

// came is what came back in some time.
type came struct{ answers, inTime, rows, failures int64 }

func (c *came) add(o came) {
	c.answers += o.answers
	c.inTime += o.inTime
	c.rows += o.rows
	c.failures += o.failures
}

// newTally returns an empty tally. Histograms of the whole run keep three digits; those of its sixty parts keep two, at
// a tenth of the memory.
func newTally(limit, duration time.Duration) *tally {
	t := &tally{
		limit: limit, slice: max(duration/partCount, 1), codes: map[codes.Code]int64{}, first: map[codes.Code]error{},
		latency: newHistogram(3), lag: newHistogram(3), refused: newHistogram(3), queue: newHistogram(3),
		compute: newHistogram(3),
	}
	for i := range t.parts {
		t.parts[i].latency = newHistogram(2)
	}
	return t
}

// add counts a request that ended. Its latency belongs to the part of the run in which it was due, so that a stall
// shows where it began. Answers a second belong to the part in which the answer came, so that a server that falls
// behind is not credited with answers that it gave after the run.
func (t *tally) add(o *outcome) {
	code := status.Code(o.err)
	t.mu.Lock()
	defer t.mu.Unlock()
	is := came{failures: 1}
	if code == codes.OK {
		is = came{answers: 1, rows: o.rows}
		if t.limit == 0 || o.last <= t.limit {
			is.inTime = 1
		}
	}
	// Answers count here even to requests of the warm-up, if they came later: the server gave them in the time that
	// counts.
	if end := o.due + o.took; end >= 0 && end < partCount*t.slice {
		t.parts[end/t.slice].add(is)
	}
	// A request of the warm-up counts no further.
	if o.due < 0 {
		return
	}
	t.sent++
	t.attempts += int64(o.attempts)
	t.codes[code]++
	t.lag.add(o.lag)
	if code != codes.OK {
		// The first error of each code is an example for the report.
		if t.first[code] == nil {
			t.first[code] = o.err
		}
		return
	}
	t.inTime += is.inTime
	t.latency.add(o.took)
	// The parts may be a little shorter than the run together, since their length is rounded down.
	t.parts[min(int(o.due/t.slice), partCount-1)].latency.add(o.took)
	t.queue.add(time.Duration(o.execution.GetQueueUs()) * time.Microsecond)
	t.compute.add(time.Duration(o.execution.GetComputeUs()) * time.Microsecond)
	t.device += time.Duration(o.execution.GetDeviceUs()) * time.Microsecond
	t.batchRows += int64(o.execution.GetBatchRows())
}

// refuse counts an attempt that was refused: how fast a server refuses says whether it can shed load.
func (t *tally) refuse(o *outcome) {
	if o.due < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused.add(o.last)
}

// abandon counts a request that was not answered when the run was over. It is neither an answer nor a failure: with a
// longer patience it might have become either, so it is reported by itself.
func (t *tally) abandon(due time.Duration) {
	if due < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	t.unanswered++
}

// histogram counts durations in buckets whose width is a part of the duration, by a number of significant digits.
type histogram struct{ *hdrhistogram.Histogram }

// newHistogram returns an empty histogram that keeps so many significant digits.
func newHistogram(digits int) histogram {
	return histogram{hdrhistogram.New(int64(shortest), int64(longest), digits)}
}

// add counts a duration. One that a clock made negative counts as 0.
func (h histogram) add(d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), longest))) // it fails beyond the longest only
}
