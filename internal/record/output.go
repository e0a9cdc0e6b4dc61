package record

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// Bounds of the time for which the disk is left alone after a failure. Each further failure doubles it, until the disk
// has worked for maxPause.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// output is the file that is written now, and the ones that follow it. It belongs to the goroutine of the Writer.
type output struct {
	config  *Config
	create  creator
	limit   *limit
	started time.Time

	file    file   // nil if there is none; the first entry after that makes one
	name    string // of the file, or of the last one
	size    int64  // of the file
	hasAny  bool   // the file has an entry
	age     *time.Timer
	named   time.Time      // the time that the last file's name is made of
	syncing sync.WaitGroup // of the goroutine that ends the last file
	keeping sync.WaitGroup // of the goroutines that delete old ones

	failing bool          // since a failure nothing was written
	pause   time.Duration // the last one; 0 after none
	resume  time.Time     // end of the last pause, or when the disk worked again
}

// newOutput returns an output without a file. The first entry begins one.
func newOutput(c *Config, create creator) *output {
	l := &limit{dir: c.Dir, log: c.Logger}
	if c.MaxBytes > 0 {
		// The file that is begun has room to grow within the bound. 0 would be no bound.
		l.bytes = max(1, c.MaxBytes-c.MaxFileBytes) // 0 would be no bound
	}
	return &output{config: c, create: create, limit: l, started: time.Now().UTC()}
}

// aged fires when the file is old enough to be ended; never if there is none.
func (o *output) aged() <-chan time.Time {
	if o.file == nil {
		return nil
	}
	return o.age.C
}

// ready reports whether there is a file to write to, and begins one if the disk is not left alone. missed goes into the
// header of a new file.
func (o *output) ready(now time.Time, missed int64) bool {
	if o.file != nil {
		return true
	}
	if o.failing && now.Before(o.resume) {
		return false
	}
	return o.begin(now, missed)
}

// begin makes a file and writes its header. Names ascend even if the clock is set back, since readers sort by them.
func (o *output) begin(now time.Time, missed int64) bool {
	at := now
	if !at.After(o.named) { // the clock was set back
		at = o.named.Add(time.Nanosecond)
	}
	f, name, at, err := create(o.create, o.config.Dir, at)
	o.name = name
	if err != nil {
		o.failed(err, missed)
		return false
	}
	o.file, o.named, o.size, o.hasAny = f, at, 0, false
	o.age = time.NewTimer(o.config.MaxFileAge)
	head, err := appendHeader(preamble(), &Header{
		Started: o.started, Created: now.UTC(), Inputs: o.config.Inputs, Sample: o.config.Sample, Missed: missed,
	})
	if err == nil {
		_, err = f.Write(head)
	}
	if err != nil {
		o.failed(err, missed)
		return false
	}
	o.size = int64(len(head))
	o.keeping.Go(o.limit.keep)
	return true
}

// write writes frames, given the end of each within data. It returns how many are in the file as a whole, and their
// bytes: a full disk may take some of them. missed is the number of missed entries, for the log.
func (o *output) write(data []byte, ends []int, missed int64) (whole int, bytes int64) {
	// A write may fail in the middle: the whole frames before that are kept.
	n, err := o.file.Write(data)
	for whole < len(ends) && ends[whole] <= n {
		bytes = int64(ends[whole])
		whole++
	}
	o.size += bytes
	o.hasAny = o.hasAny || whole > 0
	if err != nil {
		o.failed(err, missed)
		return whole, bytes
	}
	// An entry that is in the file shows that the disk works again; a header alone does not.
	if o.failing && whole > 0 {
		o.failing, o.resume = false, time.Now()
		o.config.Logger.Info("recording resumed", "event", "record_resumed", "file", o.name, "missed", missed)
	}
	if o.size >= o.config.MaxFileBytes {
		o.rotate()
	}
	return whole, bytes
}

// failed gives the file up, with the whole entries in it, and leaves the disk alone for a while. Only the first failure
// after the disk worked is logged.
func (o *output) failed(err error, missed int64) {
	now := time.Now()
	if !o.failing && now.Sub(o.resume) > maxPause {
		o.pause = 0
	}
	o.pause = min(max(2*o.pause, minPause), maxPause)
	o.resume = now.Add(o.pause)
	if !o.failing {
		o.failing = true
		o.config.Logger.Error("recording failed", "event", "record_failed", "file", o.name, "cause", err,
			"effect", "entries are lost until it works again; serving goes on", "missed", missed, "again_in", o.pause)
	}
	if o.file != nil {
		f, size := o.drop()
		_ = f.End(size) // of a file that has failed already; its reader copes with a torn end
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		o.keeping.Go(o.limit.keep) // no file is begun that would have it done
	}
}

// rotate ends the file in the background, since a sync may take seconds in which the queue would fill.
func (o *output) rotate() {
	// The name changes with the next file, so that the goroutine has its own.
	f, size := o.drop()
	o.syncing.Wait() // one at a time
	name := o.name
	o.syncing.Go(func() {
		if err := f.End(size); err != nil {
			o.config.Logger.Error("recording not safe on disk", "event", "recording_sync_failed", "file", name,
				"effect", "some of its entries may be lost", "cause", err)
		}
	})
}

// drop forgets the file, and returns it with the size that it is to keep: 0 if it has no entry.
func (o *output) drop() (f file, size int64) {
	f, size = o.file, o.size
	if !o.hasAny {
		size = 0
	}
	o.age.Stop()
	o.file = nil
	return f, size
}

// finish ends the present file, and returns when all files are safe and no old one is being deleted.
func (o *output) finish() {
	if o.file != nil {
		o.rotate()
	}
	o.syncing.Wait()
	o.keeping.Wait()
}
