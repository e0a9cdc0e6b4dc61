// Package record writes requests and their answers to files, and reads them back.
//
// A [Writer] takes entries without ever making its caller wait: entries for which its bounded queue has no room are
// dropped, those for which the disk has no room are lost, and both are counted. A [Reader] gives the entries back, file
// by file.
//
// # Files
//
// A recording is a directory of files that are named for the moment they were begun, in UTC, so that names sort by
// time:
//
//	20260102T150405.000000000Z.weftrec
//
// A file begins with the eight bytes "\x89WEFTREC" and the version of the format, a uint32; numbers are little-endian.
// Frames follow, each its payload's length in bytes (uint32), the CRC-32C of length and payload (uint32), and the
// payload. The first payload is a [Header] in JSON. Every other one is an entry: the facts about the request in JSON,
// then the request and the answer as they travel, each after its length (uvarint; of the messages one more, so that 0
// stands for none):
//
//	length facts | length+1 weft.v1.PredictRequest | length+1 weft.v1.PredictResponse
//
// Requests and answers of weft.v1 are stored as they travelled, byte for byte as a replay sends them again. Those of
// another protocol are stored as the messages of weft.v1 that ask and answer the same, with raw tensors; entry.go
// makes them of the pipeline's records, and is the only place that knows how.
//
// Nothing ends a file: a process that is killed leaves at most one torn frame, behind which nothing was written. A file
// that is wrong anywhere else was damaged later.
//
// # Why this format
//
// The frames could be those of protobuf's delimited messages (protodelim), or the files MCAP's. The first have no
// checksum: a frame that was damaged later could not be told from one that was torn off by the end of its writer, which
// a replay reports differently, and a damaged length would be read as the next message. A checksum of zstd around them
// does not help: its reader gives a block out before it has seen the checksum, and a torn block loses all its entries.
// The second brings both, but also an index, schemas, chunks and compression, which neither a writer that must not wait
// nor a reader that reads from end to end has a use for, and a library. Only frames with a checksum are needed, and
// they are a few lines (frame.go).
package record

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/server/predict"
)

const (
	// batchBytes is roughly the size of one write, and so of what the bound of the directory may be passed by. A batch
	// has at least one entry.
	batchBytes = 1 << 20
	// bufferBytes is how large a buffer may be to be kept for the next batch: a single large entry must not hold its
	// memory.
	bufferBytes = 4 << 20
)

// Writer records entries. Its methods may be called from any goroutine. It must be closed.
type Writer struct {
	config  Config
	sampler sampler
	queue   *queue
	stop    atomic.Bool   // waiting entries are given up
	ended   chan struct{} // closed when run has returned

	// The rest is run's own.
	out    *output
	buffer []byte
	ends   []int
	told   bool // that some entry cannot be encoded
}

// New begins a recording. It fails if no file can be made in the directory now.
func New(c Config) (*Writer, error) { return newWriter(c, createFile) }

// newWriter is New with the way in which files are made.
func newWriter(c Config, create creator) (*Writer, error) {
	if err := c.complete(); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("record: cannot write into %s: %w; choose another directory or make room", c.Dir, err)
	}
	w := &Writer{config: c, sampler: sampler{part: c.Sample}, queue: newQueue(&c), ended: make(chan struct{})}
	w.out = newOutput(&w.config, create)
	go w.run()
	return w, nil
}

// Record takes an entry if it is of the sample. It never waits for the disk and never fails. The entry's messages must
// not be changed any more; others may read them, as when they are sent. Fields that the entry leaves zero are taken
// from them.
func (w *Writer) Record(e Entry) {
	if w.sampler.takes(e.Request.GetEpisodeId(), e.Request.GetRequestId()) {
		w.queue.offer(e)
	}
}

// Keep implements predict.Recorder: it is Record of a request that was served.
func (w *Writer) Keep(r *predict.Recorded) {
	// An entry copies its tensors: not where there is certainly no room for it.
	if w.sampler.takes(r.Request.Episode, r.Request.ID) && w.queue.mayHold() {
		w.queue.offer(entryOf(r))
	}
}

// Stats returns the counts so far.
func (w *Writer) Stats() Stats {
	s := w.queue.snapshot()
	s.Deleted = w.out.limit.deleted.Load()
	return s
}

// Close writes the waiting entries and ends the file. If ctx ends first, Close returns its error at once; then only the
// write that is under way, if any, is still brought to its end, and the entries that wait behind it are lost.
func (w *Writer) Close(ctx context.Context) error {
	w.queue.close()
	select {
	case <-w.ended:
		return nil
	case <-ctx.Done():
		w.stop.Store(true)
		return fmt.Errorf("record: not all was written: %w", context.Cause(ctx))
	}
}

// run writes entries until the queue is closed and empty. It alone touches the output and the buffers.
func (w *Writer) run() {
	defer close(w.ended)
	defer w.out.finish()
	var items []item
	for {
		select {
		case <-w.queue.wake:
		case <-w.out.aged():
			w.out.rotate()
			continue
		}
		var closed bool
		items, closed = w.queue.take(items[:0])
		w.write(items)
		clear(items) // the messages are not kept
		if closed {
			return
		}
	}
}

// write writes the items in batches, in their order.
func (w *Writer) write(items []item) {
	for len(items) > 0 {
		n, bytes := 1, items[0].bytes
		// Sizes are those of the queue, about what the frames take.
		for n < len(items) && bytes+items[n].bytes <= batchBytes {
			bytes += items[n].bytes
			n++
		}
		w.writeBatch(items[:n])
		items = items[n:]
	}
}

// writeBatch encodes a batch and writes it. Entries that cannot be encoded, or that the disk does not take, are lost.
func (w *Writer) writeBatch(batch []item) {
	// Entries that were dropped after this batch was taken are counted, too.
	missed := w.Stats().Missed()
	if w.stop.Load() || !w.out.ready(time.Now(), missed) {
		w.queue.settle(batch, 0, 0)
		return
	}
	data, ends := w.buffer[:0], w.ends[:0]
	for i := range batch {
		frame, err := w.encode(data, batch[i].entry, missed)
		if err != nil {
			missed++
			w.tell(err)
			continue
		}
		data, ends = frame, append(ends, len(frame))
	}
	whole, bytes := w.out.write(data, ends, missed)
	w.queue.settle(batch, whole, bytes)
	w.buffer, w.ends = data, ends
	if cap(data) > bufferBytes {
		w.buffer = nil
	}
}

// encode appends the entry with as much of its inputs as is to be recorded. It changes a copy of the entry.
func (w *Writer) encode(dst []byte, e Entry, missed int64) ([]byte, error) {
	// The entry is completed here, so that callers of Record do not wait for it.
	e.complete()
	e.Missed = missed
	if e.Request != nil && w.config.Inputs != InputsFull {
		if w.config.Inputs == InputsHash {
			hash, err := hashOfInputs(e.Request)
			if err != nil {
				return dst, err
			}
			e.InputHash = hash
		}
		e.Request = withoutInputs(e.Request)
	}
	return appendEntry(dst, &e)
}

// tell logs the first entry that cannot be encoded. Others are only counted: a model may make them by the thousand.
func (w *Writer) tell(err error) {
	if !w.told {
		w.told = true
		w.config.Logger.Error("entry not recordable", "event", "record_entry_lost",
			"effect", "lost, as others like it will be", "repeats", "only counted", "cause", err)
	}
}
