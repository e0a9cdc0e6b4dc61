// Package loadgen puts load on a server and measures how it answers: `weft bench`.
//
// A stream is requests of one kind. In an open loop its schedule is fixed before the run, and each latency counts from
// the moment at which the request was due. So a server that stalls cannot keep requests from being measured. In a
// closed loop a number of callers each wait for the answer before they ask again.
//
// # A run
//
// The command reads its flags or a file of streams, asks the server for each model, builds the requests, and sends the
// first of each stream. A mistake ends it here. The run itself has three parts: a warm-up, whose requests do not count;
// the time that counts; and the wait for the answers to what was sent. A search (--find) does several runs of the same
// streams.
//
// # What counts
//
//   - Counts, codes and latencies are of the requests that were due in the time that counts, whenever they ended.
//   - Rates are of the answers that came within that time, whenever they were due. A server that falls behind is not
//     credited with what it answers later.
//   - An answer is in time if its last attempt took no longer than the deadline, or the patience if that is shorter.
//   - A request without an answer when the run is over is unanswered. Of all figures only the number sent counts it,
//     too.
//   - The lag is how much later than due this program sent a request. The report doubts latencies that it may have
//     shaped.
//
// # Parts
//
// runner sends the requests of all streams. Each load has one stream with its schedule, its requests and its tally, and
// a Report is made of the tallies once the run is over. protocol and codec translate requests to the wire and read the
// parts of answers that count. Both are made for little processor time, since the load and the server often share a
// machine.
package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weftserve/weft/internal/progress"
)

// Run puts the load on the server until ctx ends, and prints the report to out, and progress to errs.
func Run(ctx context.Context, o *Options, out, errs io.Writer) (err error) {
	streams, err := o.streams()
	if err != nil {
		return err
	}
	// A process that cannot be read would be found only after the run.
	if o.ServerPID != 0 {
		if _, err := usedBy(o.ServerPID); err != nil {
			return err
		}
	}
	to, err := dial(o.Target, o.Protocol.spoken(), o.Connections, &o.Client)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	// The measured calls are all made by predict; the questions before the run are not.
	b := &bench{o: o, predict: to.predict, newSleeper: newSleeper, errs: errs}
	if o.OverStreams {
		b.predict = (&lines{client: to}).predict
	}
	// The loads ask the server first: a wrong model or request ends the command before any load is put on it.
	for i := range streams {
		l, err := to.load(ctx, &streams[i])
		if err != nil {
			return err
		}
		b.loads = append(b.loads, l)
	}
	forms := []form{{"", out, (*Report).text}}
	// The standard output holds the JSON alone, for a program to read.
	if o.JSON == "-" {
		forms = []form{{"", out, (*Report).json}}
	} else if o.JSON != "" {
		forms = append(forms, form{o.JSON, nil, (*Report).json})
	}
	if o.HTML != "" {
		forms = append(forms, form{o.HTML, nil, (*Report).html})
	}
	for i := range forms { // before the run, whose figures would be lost
		if err := forms[i].open(); err != nil {
			return err
		}
	}
	measure := b.measure
	if o.Find {
		measure = b.find
	}
	r, err := measure(ctx)
	for i := range forms {
		err = errors.Join(err, forms[i].write(r))
	}
	return err
}

// form is one of the forms of a report, and where it goes.
type form struct {
	path string // "": into, which is given
	into io.Writer
	as   func(*Report, io.Writer) error
}

// open creates the file. One that cannot be written is told before the run.
func (f *form) open() error {
	if f.path == "" {
		return nil
	}
	file, err := os.Create(f.path)
	if err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	f.into = file
	return nil
}

// write writes the report, if there is one, and closes the file.
func (f *form) write(r *Report) (err error) {
	if file, opened := f.into.(*os.File); opened && f.path != "" {
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	if r == nil {
		return nil
	}
	return f.as(r, f.into)
}

// json writes the report as docs/operations/benchmarking.md describes it.
func (r *Report) json(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// bench measures the same loads, once or, in a search, several times. One run goes on at a time.
type bench struct {
	o          *Options
	loads      []*load
	predict    predictor
	newSleeper func() sleeper
	errs       io.Writer
}

// measure runs the loads once, with a new tally for each, and reports what it counted. Schedules have a fixed seed: two
// runs of one rate send at the same moments.
func (b *bench) measure(ctx context.Context) (*Report, error) {
	o := b.o
	warmup, duration := time.Duration(o.Warmup), time.Duration(o.Duration)
	for _, l := range b.loads {
		l.tally = newTally(l.limit(), duration)
		if l.closed() {
			continue
		}
		var err error
		if l.schedule, err = l.Stream.schedule(warmup + duration); err != nil {
			return nil, err
		}
	}
	var times stopwatch
	r := &runner{
		loads: b.loads, warmup: warmup, duration: duration, predict: b.predict, newSleeper: b.newSleeper,
	}
	// Processor time is that between these two moments, with the requests that ended between them.
	r.begun = func() { times.read(o.ServerPID, &times.before, r.ended.Load()) }
	r.over = func() { times.read(o.ServerPID, &times.after, r.ended.Load()) }
	started := time.Now()
	shown := progress.Start(b.errs, "weft bench", r.progress())
	counted := r.run(ctx)
	shown.Close()
	report := &Report{
		Schema: schema, Target: o.Target, Protocol: o.Protocol, StartedAt: started.UTC(), WarmupS: warmup.Seconds(),
		DurationS: counted.Seconds(), Interrupted: ctx.Err() != nil, Connections: o.Connections,
		OverStreams: o.OverStreams,
	}
	for _, l := range b.loads {
		report.Streams = append(report.Streams, l.report(counted))
	}
	if o.ServerPID != 0 {
		if times.err != nil {
			return nil, times.err
		}
		report.CPU = times.report()
	}
	return report, nil
}
