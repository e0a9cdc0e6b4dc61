package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sort"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/internal/record"
)

// Bounds of the entries that inOrder holds back. Entries are stored in the order in which they were answered: among so
// many of them, or so many bytes, is the one that arrived first.
const (
	lookAhead      = 4096
	lookAheadBytes = 256 << 20
)

// recording is the part of some files that is to be replayed. One goroutine reads it; the fields below the blank line
// are complete once it has been read to the end.
type recording struct {
	reader   *record.Reader
	model    string // "": that of the first entry
	version  int64  // 0: all
	complain io.Writer

	// What was found while reading.
	from, to      time.Time // arrival of the first and the last entry
	others        int       // entries of other models and versions
	withoutInputs int64     // entries that cannot be sent again
	damaged       int       // files that could not be read to their end
}

// first returns the first entry that can be sent, and chooses the model: that of the first entry that is wanted. If
// there is none, the error says why. Reading begins anew after it.
func (r *recording) first() (*record.Entry, error) {
	var damage []error
	var unsendable error // the first reason
	for e, err := range r.reader.Entries() {
		if err != nil {
			damage = append(damage, err)
			continue
		}
		if !r.wants(e) {
			continue
		}
		r.model = e.Model
		err := r.sendable(e)
		if err == nil {
			return e, nil
		}
		unsendable = cmp.Or(unsendable, err)
	}
	if unsendable != nil {
		return nil, unsendable
	}
	what := "no request"
	if r.version != 0 {
		what += fmt.Sprintf(" that version %d answered", r.version)
	}
	if r.model != "" {
		what += fmt.Sprintf(" to model %q", r.model)
	}
	return nil, errors.Join(append([]error{fmt.Errorf("the recording holds %s", what)}, damage...)...)
}

// wants reports whether an entry is of the chosen model and of the version that answered it then.
func (r *recording) wants(e *record.Entry) bool {
	return (r.model == "" || e.Model == r.model) && (r.version == 0 || e.Version == r.version)
}

// sendable returns why an entry cannot be sent again, if it cannot.
func (r *recording) sendable(e *record.Entry) error {
	if inputs := r.reader.Header().Inputs; inputs != record.InputsFull {
		return fmt.Errorf("%s was recorded with inputs: %s; only requests recorded with inputs: full can be sent again",
			r.reader.File(), inputs)
	}
	if e.Request == nil {
		return fmt.Errorf("%s holds an entry without its request", r.reader.File())
	}
	return nil
}

// entries reads the entries to be replayed. It reports damaged files and skips the rest of them, and counts the
// requests that cannot be sent.
func (r *recording) entries() iter.Seq2[*record.Entry, error] {
	return func(yield func(*record.Entry, error) bool) {
		for e, err := range r.reader.Entries() {
			if err != nil {
				r.damaged++
				fmt.Fprintf(r.complain, "weft: %v\n", err)
				continue
			}
			if !r.wants(e) {
				r.others++
				continue
			}
			if r.sendable(e) != nil {
				r.withoutInputs++
				continue
			}
			// Entries stand in the order of their answers, so that neither end is the first or the last entry.
			if r.from.IsZero() || e.At.Before(r.from) {
				r.from = e.At
			}
			if e.At.After(r.to) {
				r.to = e.At
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// inOrder yields entries in the order of their arrival, and the steps of an episode whose state the server kept in the
// order in which they are stored: requests of it may have been in the server together. It holds back up to count
// entries, or fewer if they have so many bytes: an entry that was answered after all of these is yielded late.
// The first error ends it.
func inOrder(entries iter.Seq2[*record.Entry, error], count int, bytes int64) iter.Seq2[*record.Entry, error] {
	type arrival struct {
		entry *record.Entry
		at    time.Time
		bytes int64
	}
	return func(yield func(*record.Entry, error) bool) {
		var ahead []arrival // by arrival; an entry just read belongs near the end
		held := int64(0)
		// The entry is cleared, so that the slice does not hold its tensors until it grows anew.
		pop := func() *record.Entry {
			first := ahead[0]
			ahead[0] = arrival{}
			ahead = ahead[1:]
			held -= first.bytes
			return first.entry
		}
		for e, err := range entries {
			if err != nil {
				yield(nil, err)
				return
			}
			a := arrival{entry: e, at: e.At, bytes: int64(proto.Size(e.Request) + proto.Size(e.Response))}
			// Equal times keep the order of the file.
			at := sort.Search(len(ahead), func(i int) bool { return ahead[i].at.After(e.At) })
			for i := len(ahead) - 1; i >= at && e.State != 0; i-- {
				if ahead[i].entry.State == e.State {
					at, a.at = i+1, ahead[i].at
				}
			}
			ahead = slices.Insert(ahead, at, a)
			held += a.bytes
			// A single entry beyond the bound of bytes waits for the next one, since there is no other to go first.
			for len(ahead) >= count || len(ahead) > 1 && held > bytes {
				if !yield(pop(), nil) {
					return
				}
			}
		}
		for len(ahead) > 0 {
			if !yield(pop(), nil) {
				return
			}
		}
	}
}
