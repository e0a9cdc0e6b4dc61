package weftapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/status"
)

// Uploads puts versions into the repository.
type Uploads interface {
	// Receive puts a version there, whose files content has, and returns its number. The error is a *tensor.FieldError, a
	// *catalog.UploadError or that of content.
	Receive(u catalog.Upload, content io.Reader) (int64, error)
}

const (
	// maxChunk bounds the bytes of a file in one message: an upload needs no more to be quick, and has as much in memory.
	maxChunk = 1 << 20
	// uploadPatience is how long an upload may bring nothing before it is broken off. It is that of a connection which
	// makes no progress.
	uploadPatience = 30 * time.Second
	// uploadRate is how many bytes a second an upload must bring, besides uploadPatience: it holds one of few places.
	uploadRate = 64 << 10
)

// UploadVersion implements weftv1.AdminServiceServer. It returns when the version is ready, or is not to be served.
func (a Admin) UploadVersion(call grpc.ClientStreamingServer[weftv1.UploadVersionRequest, weftv1.UploadVersionResponse],
) error {
	ctx, cancel := a.untilDrain(call.Context())
	defer cancel(nil)
	content := contentOf(ctx, func() (m *weftv1.UploadVersionRequest, err error) {
		defer func() {
			if caught := predict.Recovered(ctx, a.Logger, "reading an upload", recover()); caught != nil {
				err = status.Of(caught, predict.Place{}).Err()
			}
		}()
		return call.Recv()
	})
	first, err := content.next()
	if content.broken != nil {
		return content.broken // it was denied, or its caller has gone: nothing was asked for
	}
	start := first.GetStart()
	content.begin(start)
	c := &attempt{
		call: "UploadVersion", request: start, model: start.GetModel(), version: start.GetVersion(), show: residence,
		lasts: true,
	}
	stored, served := false, false
	c.goesOn = func(*catalog.Model) bool { return stored }
	failed := a.try(ctx, c, func() error {
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case start == nil:
			return &tensor.FieldError{Field: "start", Want: "the model and its files in the first message", Got: "none"}
		case a.Uploads == nil:
			return &status.UnsupportedError{
				What:    "UploadVersion",
				Instead: "start it with --max-upload-bytes above 0, or put the version into its repository",
			}
		}
		if c.version, err = a.Uploads.Receive(a.uploadOf(access.CallerOf(ctx), start), content); err != nil {
			return err
		}
		stored = true
		if served, err = a.Residents.AwaitVersion(ctx, c.model, c.version); err != nil {
			return fmt.Errorf("version %d is in the repository, and is not ready: %w", c.version, err)
		}
		return nil
	})
	if a.Uploaded != nil {
		a.Uploaded(outcomeOf(stored, served, failed), content.bytes)
	}
	switch {
	case content.broken != nil:
		return content.broken // as the transport has it
	case failed != nil:
		return failed
	}
	return call.SendAndClose(&weftv1.UploadVersionResponse{Model: a.now(c.model), Version: c.version, Served: served})
}

// outcomeOf names how an upload ended, for metrics.
func outcomeOf(stored, served bool, failed error) string {
	switch {
	case !stored:
		return "refused"
	case failed != nil:
		return "failed"
	case !served:
		return "stored"
	}
	return "ready"
}

// joins is what a pipeline takes on the models of its steps: to ask it is to ask them.
var joins = access.Rule{
	Method: weftv1.AdminService_UploadVersion_FullMethodName, AnyOf: access.Predict | access.Operate,
}

// uploadOf returns what a message asks for. Numbers that were in use are not chosen, for decisions about them may hold.
func (a Admin) uploadOf(by *access.Caller, start *weftv1.UploadStart) catalog.Upload {
	u := catalog.Upload{
		Model: start.GetModel(), Version: start.GetVersion(),
		Joins: func(model string) error { return by.Check(&joins, model) },
	}
	if m := a.snapshot().Model(u.Model); m != nil {
		u.Above = m.Decided
		for _, v := range m.Versions {
			u.Above = max(u.Above, v.Number)
		}
	}
	for _, f := range start.GetFiles() {
		u.Files = append(u.Files, catalog.UploadFile{Name: f.GetName(), Bytes: f.GetBytes(), SHA256: f.GetSha256()})
	}
	return u
}

// content reads the files of an upload from its messages.
type content struct {
	ctx      context.Context //nolint:containedctx // the call's, which this is a part of
	messages <-chan uploadMessage
	start    *weftv1.UploadStart
	late     time.Time // when all of it must have come; zero: nothing says how much that is
	rest     []byte
	bytes    int64 // that came
	broken   error // of the call: nothing more comes
}

// uploadMessage is a message that came, or why none did.
type uploadMessage struct {
	*weftv1.UploadVersionRequest
	err error
}

// contentOf reads messages in a goroutine, since nothing else can end the wait for one. It ends with ctx, or once the
// handler has returned: receive fails then.
func contentOf(ctx context.Context, receive func() (*weftv1.UploadVersionRequest, error)) *content {
	messages := make(chan uploadMessage)
	go func() {
		for {
			m, err := receive()
			select {
			case messages <- uploadMessage{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return &content{ctx: ctx, messages: messages}
}

// begin tells what comes, and gives it its time.
func (c *content) begin(start *weftv1.UploadStart) {
	c.start = start
	bytes := 0.0 // the sizes are not checked yet
	for _, f := range start.GetFiles() {
		bytes += float64(max(f.GetBytes(), 0))
	}
	const longest = 365 * 24 * 60 * 60 // seconds, a year: a duration has those
	seconds := min(bytes/uploadRate, longest)
	c.late = time.Now().Add(uploadPatience + time.Duration(seconds*float64(time.Second)))
}

// next returns the next message. The error is io.EOF after the last one, that of the call, the cause of its context, or
// a *catalog.UploadError where none came in time.
func (c *content) next() (*weftv1.UploadVersionRequest, error) {
	patience, why := uploadPatience, fmt.Sprintf("nothing came for %v", uploadPatience)
	if left := time.Until(c.late); !c.late.IsZero() && left < patience {
		patience, why = left, fmt.Sprintf("it brought less than %d KiB a second", uploadRate>>10)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case m := <-c.messages:
		if m.err != nil && m.err != io.EOF { //nolint:errorlint // gRPC returns it as it is
			c.broken = m.err
		}
		return m.UploadVersionRequest, m.err
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-late.C:
		return nil, &catalog.UploadError{
			Model: c.start.GetModel(), Version: c.start.GetVersion(), Reason: catalog.UploadStalled,
			Why: why + "; upload it again",
		}
	}
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		m, err := c.next()
		if err != nil {
			return 0, err
		}
		if c.rest = m.GetChunk(); len(c.rest) == 0 || len(c.rest) > maxChunk {
			return 0, &tensor.FieldError{
				Field: "chunk", Want: fmt.Sprintf("1 to %d bytes in each message after the first", maxChunk),
				Got: strconv.Itoa(len(c.rest)),
			}
		}
		c.bytes += int64(len(c.rest))
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
