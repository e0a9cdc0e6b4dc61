package protect

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Handler is one run of the handler of a call. Its zero value is that of a call whose connection has no account, and
// does nothing. Cost is what it holds: its stack, and its headers.
type Handler struct {
	account *account
	stream  *stream // nil: it is not known
	cost    int64
}

// headers is the key of what Tap adds to a context: how much larger the headers of the call are than handlerCost
// includes.
type headers struct{}

// Tap is to be called for the header of each call. The error is a *CrowdedError. The call's context is the one that it
// returns.
func (g *Connections) Tap(ctx context.Context, header map[string][]string) (context.Context, error) {
	if g.crowded(ctx) {
		Excuse(ctx)
		return ctx, &CrowdedError{}
	}
	size := 0
	for name, values := range header {
		for _, v := range values {
			size += headerCost + len(name) + len(v)
		}
	}
	if size > freeHeaders {
		ctx = context.WithValue(ctx, headers{}, size-freeHeaders)
	}
	return ctx, nil
}

// Handle notes that the handler of a call runs. End must follow.
func Handle(ctx context.Context) Handler {
	a, ok := accountOf(ctx)
	if !ok {
		return Handler{}
	}
	beyond, _ := ctx.Value(headers{}).(int)
	h := Handler{account: a, cost: int64(handlerCost + beyond)}
	id := streamOf(ctx)
	a.mu.Lock()
	h.stream = a.streams[id]
	a.hold(h.cost)
	a.mu.Unlock()
	a.of.relieve()
	return h
}

// News reports whether something, which is compared as interfaces are and always of one type, is another one than the
// calls of the connection had before this.
func (h Handler) News(what any) bool { return h.account == nil || h.account.told.Swap(what) != what }

// End notes that the handler has returned. fault: its call was refused, and its caller could have known it. In this
// package a fault is a caller's; in server/breaker it is a model's.
func (h Handler) End(fault bool) {
	if h.account == nil {
		return
	}
	h.account.mu.Lock()
	defer h.account.mu.Unlock()
	if h.stream != nil {
		h.stream.excused = !fault
	}
	h.account.hold(-h.cost)
	if !fault {
		h.account.refused.give(refusalCredit)
	}
}

// Excuse notes that a call of a connection is about to be refused by its header, which is not its caller's doing.
func Excuse(ctx context.Context) {
	if a, ok := accountOf(ctx); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.excused++
	}
}

// Judge notes that one of the messages of a call was answered, or refused though its caller could have known it. Faults
// that the server, the model or a lack of capacity is to blame for count as answered.
func Judge(ctx context.Context, fault bool) {
	a, ok := accountOf(ctx)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if fault {
		a.refused.take(time.Now(), 1, refusalBurst, refusalRate)
	} else {
		a.refused.give(refusalCredit)
	}
}

// Reads notes that the handler waits for a message. It must come soon, unless the call is a stream on which none may
// ever come: then it must once it has begun.
func (h Handler) Reads(must bool) {
	if !h.lock() {
		return
	}
	defer h.account.mu.Unlock()
	h.stream.reads = true
	if must || h.stream.in > 0 {
		h.stream.inAt = time.Now()
	}
}

// Came notes that the message has come whole, before it is decoded: from then on the caller is waited for no more.
func (h Handler) Came() {
	if h.lock() {
		h.stream.reads, h.stream.inAt = false, time.Time{}
		h.account.mu.Unlock()
	}
}

// Read notes that the handler has got a message of so many bytes, or none.
func (h Handler) Read(bytes int) {
	if h.account != nil {
		h.account.of.served(bytes, time.Now())
	}
	if !h.lock() {
		return
	}
	defer h.account.mu.Unlock()
	s := h.stream
	n := min(s.in, bytes)
	s.in -= n
	s.reads, s.inAt = false, time.Time{}
	h.account.hold(memoryOf(s.in) - memoryOf(s.in+n))
}

// Answers notes that an answer of so many bytes is to be written.
func (h Handler) Answers(bytes int) {
	if h.lock() {
		s := h.stream
		if s.out == 0 {
			s.outAt = time.Now()
		}
		s.out += bytes
		h.account.hold(memoryOf(s.out) - memoryOf(s.out-bytes))
		h.account.mu.Unlock()
	}
	if h.account != nil {
		h.account.of.relieve()
	}
}

// lock locks the account if the call is still open; else it reports false.
func (h Handler) lock() bool {
	if h.stream == nil {
		return false
	}
	h.account.mu.Lock()
	if h.stream.closed {
		h.account.mu.Unlock()
		return false
	}
	return true
}

// streamOf returns the number of a call's stream, which gRPC knows and does not tell; 0 where it cannot be found. It
// reads a field that is not exported, by reflection: a release of gRPC without it has calls that are not told apart,
// and whose limits of one call then do not hold.
func streamOf(ctx context.Context) uint32 {
	v := reflect.ValueOf(grpc.ServerTransportStreamFromContext(ctx))
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return 0
	}
	v = v.Elem()
	at, known := placeOfID.Load().(place)
	if !known || at.in != v.Type() {
		f, has := v.Type().FieldByName("id")
		if !has || f.Type.Kind() != reflect.Uint32 {
			return 0
		}
		at = place{v.Type(), f.Index}
		placeOfID.Store(at)
	}
	return uint32(v.FieldByIndex(at.index).Uint())
}

// place is where gRPC keeps the number of a stream, which takes long to find.
type place struct {
	in    reflect.Type
	index []int
}

var placeOfID atomic.Value
