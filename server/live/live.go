// Package live serves the live page: its files, and what it shows as JSON. The page changes nothing.
package live

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/activity"
	"github.com/weftserve/weft/server/protect"
	"github.com/weftserve/weft/server/status"
)

// Path is where the page is. All its addresses are relative to that, so that a proxy may have it elsewhere.
const Path = "/live/"

// Page is the page of one server. Its fields are fixed once Handler was called.
type Page struct {
	Activity *activity.Log
	// Models answers the calls of the page.
	Models weftv1.ModelServiceServer
	Access *access.Control
	// Address is where the server takes calls, for the commands that the page shows; "" names none.
	Address string
	// Closed is closed when the server drains: viewers are told nothing more.
	Closed <-chan struct{}

	tracing sync.Mutex // held by who makes a trace
}

// Handler serves all paths below Path. The files are anybody's; all else needs the permission to observe the server.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path, files)
	for path, page := range map[string]http.HandlerFunc{
		"activity": p.activity, "api/{method}": p.call, "trace.json.gz": p.trace,
	} {
		mux.Handle("GET "+Path+path, p.Access.Page(access.Observe, page))
	}
	return mux
}

// sendTime is how long a viewer may take for one piece of an answer. A frame comes each quarter of a second, so that a
// viewer that is slower misses many.
const sendTime = 10 * time.Second

// activity sends one Activity after the other as events ("Server-sent events" in the HTML standard). The query's
// back_ms says how far the first one reaches back. It ends when the viewer leaves, does not read, or may not observe
// everything any more, and when the server drains. Before the first event it may still answer with an error.
func (p *Page) activity(w http.ResponseWriter, r *http.Request) {
	back, ok := number(w, r, "back_ms", 0, time.Minute.Milliseconds())
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// Follow ends by its context: that of a request does not end when the server drains.
	go func() {
		select {
		case <-p.Closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's is for requests that end
	viewer := p.Access.Visitor(r)
	shown := false
	show := func(f *activity.Frame) bool {
		shown = true
		if viewer = p.Access.VisitorAgain(r, viewer); !viewer.ObservesAll() {
			return false // the page asks anew, and is told why
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Weft-Address", p.Address)
		w.Header().Set("X-Accel-Buffering", "no") // proxies are not to wait for more
		_ = control.SetWriteDeadline(time.Now().Add(sendTime))
		for _, part := range [][]byte{[]byte("event: activity\ndata: "), f.JSON(), []byte("\n\n")} {
			if _, err := w.Write(part); err != nil {
				return false
			}
		}
		return control.Flush() == nil
	}
	watched := p.Activity.Follow(ctx, time.Duration(back)*time.Millisecond, protect.Reads(r.Context()), show)
	if !watched && !shown {
		fail(w, http.StatusServiceUnavailable, (&status.ViewersError{Limit: activity.MostViewers}).Error())
	}
}

// mostTrace is how far a trace reaches back at most, in seconds.
const mostTrace = 60

// trace sends a trace of the latest seconds, ten if the query does not say.
func (p *Page) trace(w http.ResponseWriter, r *http.Request) {
	seconds, ok := number(w, r, "seconds", 10, mostTrace)
	if !ok {
		return
	}
	data := p.packTrace(time.Duration(seconds) * time.Second)
	// A trace is much larger than a frame.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(3 * sendTime))
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Disposition", `attachment; filename="weft-trace.json.gz"`)
	_, _ = w.Write(data) // a caller that is gone needs no answer
}

// packTrace makes a trace of the latest while. What it is made of takes far more memory than the trace: one is made at
// a time, and nobody who does not read holds more than the trace.
func (p *Page) packTrace(back time.Duration) []byte {
	p.tracing.Lock()
	defer p.tracing.Unlock()
	var b bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is one
	_ = p.Activity.WriteTrace(packed, back)              // memory takes everything
	_ = packed.Close()
	return b.Bytes()
}

// number returns a number of the query, from 0 to most. Where it is none it answers that, and ok is false.
func number(w http.ResponseWriter, r *http.Request, name string, otherwise, most int64) (n int64, ok bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		fail(w, http.StatusBadRequest, name+": expected a number from 0 to "+strconv.FormatInt(most, 10)+", got "+
			strconv.Quote(text[:min(len(text), 40)]))
		return 0, false
	}
	return n, true
}

// fail answers with an error, as {"error": text}.
func fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	data, _ := json.Marshal(map[string]string{"error": text}) //nolint:errchkjson // texts are always JSON
	_, _ = w.Write(data)
}
