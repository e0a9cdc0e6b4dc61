package activity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// depthEvery is the least time between two points at which a trace says how many requests wait. Each request changes
// that twice.
const depthEvery = 10 * time.Millisecond

// WriteTrace writes what happened in the latest while as a trace of Chrome's JSON format ("Trace Event Format"), which
// Perfetto and speedscope open. A device is a process and a lane a thread of it, whose slices are batches and never
// overlap; a version is a process, too, whose requests are asynchronous slices that wait and run, and whose counter
// says how many wait. The error is the writer's.
func (l *Log) WriteTrace(w io.Writer, back time.Duration) error {
	batches, requests, names, devices := l.latest(back)
	t := &traceWriter{
		w: bufio.NewWriterSize(w, 64<<10), names: names, pids: map[any]int{}, first: map[string]sharedsched.LaneID{},
	}
	t.text(`{"displayTimeUnit":"ms","traceEvents":[`)
	for _, d := range devices {
		t.process(d.Name, "device "+d.Name)
		t.first[d.Name] = d.First
	}
	for i := range batches {
		t.batch(&batches[i])
	}
	for i := range requests {
		t.request(&requests[i])
	}
	t.depths(requests)
	t.text("\n]}\n")
	return t.w.Flush()
}

// latest returns copies of the batches and requests that ended in the latest while, what they refer to, and the
// devices. The trace is written from these without mu: its reader may be slow.
func (l *Log) latest(back time.Duration) ([]batch, []request, lookup, []sharedsched.DeviceState) {
	l.reading.Lock()
	defer l.reading.Unlock()
	state := l.State()
	until := l.cursor()
	since := l.cursorAt(until.at.Add(-back))
	l.mu.Lock()
	defer l.mu.Unlock()
	batches := copiedLocked(l, &l.batches, since.batches, until.batches)
	requests := copiedLocked(l, &l.requests, since.requests, until.requests)
	return batches, requests, l.keptLocked(), state.Devices
}

// traceWriter writes events. The first error of its writer stays in the bufio.Writer, and Flush returns it.
type traceWriter struct {
	w     *bufio.Writer
	names lookup
	pids  map[any]int                   // of devices by name, of versions by what is known of them
	first map[string]sharedsched.LaneID // lanes of devices
	lanes map[sharedsched.LaneID]bool   // that have their names
	any   bool
	line  []byte
}

func (t *traceWriter) text(s string) { _, _ = t.w.WriteString(s) }

// event writes an event: its phase, name, process, thread and time, and what else belongs to it, which begins with a
// comma. Phases are those of the format: X a slice with its duration, b and e the begin and end of an asynchronous
// slice, C a counter, M a name.
func (t *traceWriter) event(phase byte, name string, pid, tid int, at sharedsched.Time, more string) {
	b := t.line[:0]
	if t.any {
		b = append(b, ',')
	}
	t.any = true
	b = append(b, "\n{\"ph\":\""...)
	b = append(b, phase)
	b = append(b, "\",\"name\":"...)
	b = append(b, quote(name)...)
	b = append(b, ",\"pid\":"...)
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(b, ",\"tid\":"...)
	b = strconv.AppendInt(b, int64(tid), 10)
	b = append(b, ",\"ts\":"...)
	b = microseconds(b, int64(at))
	b = append(b, more...)
	b = append(b, '}')
	t.line = b
	_, _ = t.w.Write(b)
}

// microseconds appends nanoseconds as microseconds, exactly: a float64 would round them once a server has run for
// months.
func microseconds(b []byte, ns int64) []byte {
	b = strconv.AppendInt(b, ns/1e3, 10)
	if rest := ns % 1e3; rest > 0 {
		b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
	return b
}

// quote returns a text as JSON has it.
func quote(text string) string {
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a text is always JSON; bytes that are not UTF-8 are replaced
	return string(quoted)
}

// process returns the process of a device or a version, which gets its name when it is seen first.
func (t *traceWriter) process(of any, name string) int {
	pid, known := t.pids[of]
	if !known {
		pid = len(t.pids) + 1
		t.pids[of] = pid
		t.event('M', "process_name", pid, 0, 0, `,"args":{"name":`+quote(name)+`}`)
		t.event('M', "process_sort_index", pid, 0, 0, fmt.Sprintf(`,"args":{"sort_index":%d}`, pid))
	}
	return pid
}

// batch writes a batch as a slice of its lane. The lane gets its name with its first batch.
func (t *traceWriter) batch(b *batch) {
	of := t.names.version(b.of)
	if of == nil {
		return // it is gone for long
	}
	pid := t.process(of.device, "device "+of.device)
	lane := int(b.lane)
	if !t.lanes[b.lane] {
		if t.lanes == nil {
			t.lanes = map[sharedsched.LaneID]bool{}
		}
		t.lanes[b.lane] = true
		t.event('M', "thread_name", pid, lane, 0, fmt.Sprintf(`,"args":{"name":"lane %d"}`, b.lane-t.first[of.device]+1))
	}
	over := ""
	if passed := t.names.version(b.passedOver); passed != nil {
		over = passed.name()
	}
	more := append([]byte(`,"cat":"batch","dur":`), microseconds(nil, int64(b.elapsed))...)
	t.event('X', of.name(), pid, lane, b.started, string(more)+fmt.Sprintf(`,"args":{"batch":%d,"requests":%d,"rows":%d,`+
		`"size":%d,"reason":%q,"rule":%q,"expected_ms":%g,"device_ms":%g,"slack_ms":%g,"passed_over":%s,"late":%t,`+
		`"failed":%t,"background":%t}`, b.number, b.tasks, b.rows, b.padded, b.reason, b.rule, ms(b.estimated),
		ms(b.deviceTime), ms(b.slack), quote(over), b.flags&flagLate != 0, b.flags&flagFailed != 0,
		b.flags&flagBackground != 0))
}

// request writes a request as an asynchronous slice of its version, with its wait and its run inside. Requests that
// were not routed to a version are left out.
func (t *traceWriter) request(it *request) {
	r := t.names.tell(it)
	if r.of == nil {
		return
	}
	pid := t.process(r.of, r.of.name())
	id := fmt.Sprintf(`,"cat":"request","id":"%d"`, r.number)
	t.event('b', "request", pid, 0, r.arrived, id+fmt.Sprintf(`,"args":{"id":%s,"end":%q,"reason":%s,"rows":%d,"batch":%d,`+
		`"target_ms":%g,"late":%t}`, quote(r.id), r.ending, quote(r.reason), r.rows, r.batch, ms(r.target), r.late))
	if r.executions > 0 {
		t.event('b', "wait", pid, 0, r.queued, id)
		t.event('e', "wait", pid, 0, r.started, id)
		t.event('b', "run", pid, 0, r.started, id)
		t.event('e', "run", pid, 0, r.computed, id)
	}
	t.event('e', "request", pid, 0, r.ended, id)
}

// depths writes how many requests wait. It counts the requests that ended in the time of the trace: the ones that still
// wait at its end are missing. A request waits from its admission to its first execution, or for all its life if it had
// none.
func (t *traceWriter) depths(requests []request) {
	type change struct {
		at sharedsched.Time
		by int
	}
	changes := map[*tracked][]change{}
	for i := range requests {
		r := &requests[i]
		of := t.names.version(r.of)
		switch {
		case of == nil:
		case r.executions > 0:
			changes[of] = append(changes[of], change{r.queued, 1}, change{r.started, -1})
		case r.ending != predict.Answered:
			changes[of] = append(changes[of], change{r.arrived, 1}, change{r.ended, -1})
		}
	}
	for of, all := range changes {
		slices.SortFunc(all, func(a, b change) int { return int(a.at - b.at) })
		depth, next := 0, sharedsched.Time(0)
		// Of changes that follow closely only the first is written, and the last of all, at which nobody may wait.
		for i, c := range all {
			depth += c.by
			if c.at < next && i < len(all)-1 {
				continue
			}
			next = c.at.Add(depthEvery)
			t.event('C', "waiting", t.process(of, of.name()), 0, c.at, fmt.Sprintf(`,"args":{"requests":%d}`, depth))
		}
	}
}
