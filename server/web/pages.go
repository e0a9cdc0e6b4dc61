// Package web is what the protocols over HTTP and JSON have in common. Callers are let in by the rules of the calls of
// gRPC that pages stand for, with the same quotas (pages.go). Bodies are read within bounds (body.go). JSON is scanned
// where it lies (scan.go), and elements of tensors become memory without a value of Go for each (list.go, write.go).
package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/transport"
)

// Pages lets callers in to the pages of a protocol, and writes their answers.
type Pages struct {
	*transport.Calls

	// Bodies counts the bytes of large bodies, their tensors and answers that are under way, of all protocols, see
	// Visit.Hold.
	Bodies *atomic.Int64
}

// Visit is a request of HTTP on its way through its page. It belongs to the goroutine of its handler.
type Visit struct {
	Ctx    context.Context //nolint:containedctx // the request's
	Caller *access.Caller  // nil on a server that is open to all, or before it is let in
	W      http.ResponseWriter
	R      *http.Request

	pages     *Pages
	admission access.Admission
	held      int64 // bytes of it that count in Pages.Bodies
}

// Answer is an answer that writes itself.
type Answer interface{ Write(v *Visit) }

// Coded is an answer of JSON with another code than 200.
type Coded struct {
	Code  int
	Value any
}

// Write implements Answer.
func (c Coded) Write(v *Visit) { WriteJSON(v.W, c.Code, c.Value) }

// Add has mux serve a page: a pattern of paths, and what answers them with nothing (nil), an Answer, or what becomes
// JSON. Callers are let in by the rule of a call of gRPC, a method of service; it panics if that has none.
func (p *Pages) Add(mux *Mux, pattern, service, method string, answer func(*Visit) (any, error)) {
	rule, err := access.RuleOf(service, method)
	if err != nil {
		panic("web: " + err.Error()) // the service of gRPC could not be registered either
	}
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, &rule, answer) })
}

// Names returns the names of the models that the caller may know of.
func (p *Pages) Names(v *Visit) []string { return p.Pipeline.Table().Names(v.Caller.Sees) }

// Slow lifts the server's read and write timeouts for this request: they are for bodies and answers on their way, and a
// prediction or a load may take longer. serve sets the time for the answer.
func (v *Visit) Slow() {
	at := http.NewResponseController(v.W)
	_ = at.SetReadDeadline(time.Time{}) // a recorder of tests has none
	_ = at.SetWriteDeadline(time.Time{})
}

// answerTime is how long a caller may take to read an answer, from when there is one.
const answerTime = 30 * time.Second

// Model is the name in the path, "" where it has none.
func (v *Visit) Model() string { return v.R.PathValue("model") }

// Version is the number in the path, as it stands there.
func (v *Visit) Version() string { return v.R.PathValue("version") }

// serve lets a request in, has answer make its answer, and writes that. What the request holds of quotas and of memory
// is given back when the answer was written.
func (p *Pages) serve(w http.ResponseWriter, r *http.Request, rule *access.Rule, answer func(*Visit) (any, error)) {
	v := &Visit{Ctx: r.Context(), W: w, R: r, pages: p}
	defer p.leave(v)
	var made any
	err := p.admit(v, rule)
	if err == nil {
		made, err = answer(v)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // a recorder of tests has none
	if err != nil {
		p.leave(v) // now: refuse reads the rest of the body, which may take long to come
		p.refuse(v, err)
		return
	}
	switch made := made.(type) {
	case Answer:
		made.Write(v)
	case nil:
	default:
		WriteJSON(w, http.StatusOK, made)
	}
}

// leave gives back what a request has of the quotas of its caller, and of the memory for bodies. More calls do nothing.
func (p *Pages) leave(v *Visit) {
	v.admission.Release()
	p.Bodies.Add(-v.held)
	v.held = 0
}

// admit finds out who calls, decides whether they may, and counts the request in their quotas. The error is one with
// which a call ends.
func (p *Pages) admit(v *Visit, rule *access.Rule) error {
	var err error
	if v.Caller, err = p.Control.EnterPage(v.R, rule); err != nil || v.Caller == nil {
		return p.denied(v, rule, err)
	}
	v.Ctx = access.WithCaller(v.Ctx, v.Caller)
	if !rule.Public {
		if v.admission, err = v.Caller.Admit(time.Now); err != nil {
			return p.denied(v, rule, err)
		}
	}
	return p.denied(v, rule, v.Caller.Check(rule, v.Model()))
}

// denied reports a refusal to the access control, and returns the error that its caller may see; nil: nothing was
// refused.
func (p *Pages) denied(v *Visit, rule *access.Rule, err error) error {
	if err == nil {
		return nil
	}
	p.Control.Deny(v.Ctx, v.Caller, rule.Method, v.Model(), err)
	return p.Fail(v.Ctx, err, predict.Place{})
}

// refuse answers with an error, as JSON, and has the rest of the body passed over first.
func (p *Pages) refuse(v *Visit, err error) {
	code, text, retryAfter := status.HTTP(err)
	if retryAfter != "" {
		v.W.Header().Set("Retry-After", retryAfter)
	}
	if code == http.StatusUnauthorized {
		v.W.Header().Set("WWW-Authenticate", "Bearer")
	}
	v.passOver()
	p.RefusesPage(v.W, err)
	WriteJSON(v.W, code, map[string]string{"error": text})
}

// WriteJSON answers with a value as JSON, with a code.
func WriteJSON(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil { // such as a statistic that is no number
		code, text = http.StatusInternalServerError, []byte(`{"error": "this cannot be written as JSON; use gRPC"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // a caller that is gone needs no answer
}

// LetIn takes of the caller's quotas what a request brings besides its body, and gives it its priority. The visit keeps
// the admission, not the request: it lasts until the answer was written.
func (v *Visit) LetIn(x *transport.Exchange, brings int) error {
	if err := v.admission.Grow(brings); err != nil {
		return err
	}
	priority, err := v.Caller.Priority(x.Priority, x.Chosen)
	if err == nil {
		x.Admit(v.Caller, priority, access.Admission{}, nil)
		x.Beside(transport.PageHeaders(v.R.Header))
	}
	return err
}
