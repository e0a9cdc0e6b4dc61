package web

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
)

const (
	// SmallBody is how many bytes a body may have that always has room, and mostBodies how many all others have together,
	// with their tensors and answers.
	SmallBody  = 64 << 10
	mostBodies = 64 << 20
)

// Hold takes so much memory more for a body, its tensors or its answer, until leave. The error is a
// *status.CrowdedError; also then it is leave that gives the bytes back. A request that is alone gets any.
func (v *Visit) Hold(bytes int) error {
	v.held += int64(bytes)
	if all := v.pages.Bodies.Add(int64(bytes)); all > mostBodies && all > v.held {
		return &status.CrowdedError{Most: mostBodies}
	}
	return nil
}

// ReadBody reads a body of so many bytes at most, unpacked, into memory of Memory, which the caller gives back. The
// error is a *status.MessageTooLargeError, a *status.CrowdedError, a *status.UnsupportedError, a quota's, or that of a
// body that is broken.
//
// It begins with the memory of a small body, and doubles it, or takes the known size at once, when that is full. A body
// counts, in the caller's quotas and by Hold, as soon as so much has come that it is not small: a caller that only says
// that it will send much takes nothing. By hold it then counts with its whole size or, where that is not known, with
// the memory that it has so far. Small bodies count in the quotas only.
func (v *Visit) ReadBody(most int) (*[]byte, error) {
	tooLarge := status.MessageTooLargeError{Bytes: int(v.R.ContentLength), Limit: most, Fixed: most == SmallBody}
	if v.R.ContentLength > int64(most) {
		return nil, &tooLarge
	}
	from, size, err := v.unpacked(most)
	if err != nil {
		return nil, err
	}
	room := SmallBody
	if size >= 0 {
		room = min(room, size)
	}
	// A small body fits into this; one byte more than most is enough to see that a body is too large.
	data := v.pages.Memory.Get(min(room, most+1))
	refuse := func(err error) (*[]byte, error) {
		v.pages.Memory.Put(data)
		return nil, err
	}
	n, err := fill(from, *data)
	held, counted := 0, 0 // bytes so far, by Hold and by the quotas
	// The memory is full, the end has not come, and the body may go on.
	for err == nil && n == len(*data) && n != size && n <= most {
		larger, came := min(2*n, most+1), n // one byte beyond most shows that there is more
		if size >= 0 {
			larger, came = size, size
		}
		if err := v.admission.Grow(came - counted); err != nil {
			return refuse(err)
		}
		counted = came
		if err := v.Hold(larger - held); err != nil {
			return refuse(err)
		}
		held = larger
		// Both are held for a moment; only the larger one counts.
		moved := v.pages.Memory.Get(larger)
		copy(*moved, *data)
		v.pages.Memory.Put(data)
		data = moved
		var more int
		more, err = fill(from, (*data)[n:])
		n += more
	}
	*data = (*data)[:n]
	// Too large as it came, or as it was unpacked.
	_, cut := errors.AsType[*http.MaxBytesError](err)
	switch {
	case cut || n > most:
		tooLarge.Bytes, tooLarge.Inflated = most+1, n > most
		return refuse(&tooLarge)
	case err != nil && !errors.Is(err, io.EOF):
		return refuse(Broken("what could not be read: %v", err))
	}
	if err := v.admission.Grow(n - counted); err != nil {
		return refuse(err)
	}
	return data, nil
}

// fill reads until data is full, and returns how much was read. At the end of the body the error is io.EOF.
func fill(from io.Reader, data []byte) (n int, err error) {
	for n < len(data) && err == nil {
		var more int
		more, err = from.Read(data[n:])
		n += more
	}
	return n, err
}

// unpacked returns a reader of the body, without its Content-Encoding, and how many bytes that gives, -1 where it is
// not known. most bounds the body as it comes; how much it becomes is for the caller to bound.
func (v *Visit) unpacked(most int) (from io.Reader, size int, err error) {
	from = v.bounded(int64(most))
	switch encoding := strings.ToLower(v.R.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return from, int(v.R.ContentLength), nil
	case "gzip":
		from, err = gzip.NewReader(from)
	case "deflate":
		from, err = zlib.NewReader(from)
	default:
		return nil, 0, &status.UnsupportedError{
			What: "Content-Encoding " + routing.Quote(encoding), Instead: "send bodies as they are, or as gzip or deflate",
		}
	}
	if err != nil {
		return nil, 0, Broken("what could not be read: %v", err)
	}
	return from, -1, nil
}

// passOver passes over what is left of a body that is refused, for a while: most clients read no answer before they
// have sent all, and would find the connection closed in its place. Clients that sent an Expect header wait for an
// answer before the body, so nothing need be read.
func (v *Visit) passOver() {
	const most, patience = 64 << 20, 2 * time.Second
	if v.R.Header.Get("Expect") == "" {
		if held, is := v.R.Body.(interface{ Drop() }); is { // by the guard of its connection
			held.Drop()
		}
		_ = http.NewResponseController(v.W).SetReadDeadline(time.Now().Add(patience)) // a recorder of tests has none
		_, _ = io.CopyN(io.Discard, v.R.Body, most)
	}
}

// bounded returns a reader of the body that fails beyond so many bytes. http.MaxBytesReader must have the writer of
// net/http itself, which then closes the connection, so the writers around that are taken off.
func (v *Visit) bounded(most int64) io.ReadCloser {
	w := v.W
	for {
		around, is := w.(interface{ Unwrap() http.ResponseWriter })
		if !is {
			return http.MaxBytesReader(w, v.R.Body, most)
		}
		w = around.Unwrap()
	}
}

// Read reads a small body of JSON, and has value read the one value in it. An empty body has none, and value is not
// called.
func (v *Visit) Read(value func(*Scanner) error) error {
	body, err := v.ReadBody(SmallBody)
	if err != nil {
		return err
	}
	defer v.pages.Memory.Put(body)
	if len(*body) == 0 {
		return nil
	}
	var turn protect.Turn
	in := Scanner{Text: *body, Turn: &turn}
	if err := value(&in); err != nil {
		return err
	}
	return in.End()
}

// takesGzip reports whether an answer may be gzip: Accept-Encoding has it, and not with the weight 0.
func (v *Visit) takesGzip() bool {
	for one := range strings.SplitSeq(v.R.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(one), ";")
		if coding == "gzip" {
			return strings.TrimRight(strings.TrimSpace(weight), ".0") != "q=" // q=0, q=0.0, ...
		}
	}
	return false
}

// Packs reports whether an answer of about so many bytes is sent as gzip.
func (v *Visit) Packs(size int) bool {
	const worthwhile = 4 << 10
	return size > worthwhile && v.takesGzip()
}

// Send sends an answer of about so many bytes, which write writes, as gzip if it Packs.
func (v *Visit) Send(size int, write func(io.Writer)) {
	if !v.Packs(size) {
		write(v.W)
		return
	}
	v.W.Header().Set("Content-Encoding", "gzip")
	packer := packers.Get().(*gzip.Writer)
	packer.Reset(v.W)
	write(packer)
	_ = packer.Close() // a caller that is gone needs no answer
	packers.Put(packer)
}

// packers has the *gzip.Writer that are not in use. Each takes a megabyte, which a request should not allocate.
var packers = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one
	return w
}}
