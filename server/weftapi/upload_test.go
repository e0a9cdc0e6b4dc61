package weftapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/server/weftapi"
	"github.com/weftserve/weft/sharedsched"
)

// TestContentOfUploads: its bytes, what ends it, and that it waits for nobody for more than 30 seconds at a time.
func TestContentOfUploads(t *testing.T) {
	chunk := func(text string) *weftv1.UploadVersionRequest {
		return &weftv1.UploadVersionRequest{Part: &weftv1.UploadVersionRequest_Chunk{Chunk: []byte(text)}}
	}
	start := &weftv1.UploadVersionRequest{Part: &weftv1.UploadVersionRequest_Start{Start: &weftv1.UploadStart{}}}
	type all = []*weftv1.UploadVersionRequest
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		messages all
		every    time.Duration // a message comes; 0: then none comes any more
		end      error         // after the messages; nil: nothing comes
		drain    time.Duration
		bytes    int64 // of all files
		text     string
		wants    string
	}{
		"whole": {messages: all{chunk("gra"), chunk("ph")}, every: 29 * time.Second, end: io.EOF, text: "graph", bytes: 4 << 20},
		"slow": {
			messages: all{chunk("gra"), chunk("ph")}, every: 29 * time.Second, end: io.EOF, text: "gra",
			wants: "it brought less than 64 KiB a second; upload it again",
		},
		"gone":      {messages: all{chunk("gra")}, end: gone, text: "gra", wants: "gone"},
		"stalled":   {messages: all{chunk("gra")}, text: "gra", wants: "nothing came for 30s; upload it again"},
		"drained":   {drain: time.Second, wants: "the server is draining"},
		"no bytes":  {messages: all{chunk("")}, wants: "1 to 1048576 bytes in each message after the first, got 0"},
		"too many":  {messages: all{chunk(strings.Repeat("a", 1<<20+1))}, wants: "got 1048577"},
		"two heads": {messages: all{start}, wants: "got 0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if c.drain > 0 {
					time.AfterFunc(c.drain, func() { cancel(sharedsched.ErrDraining) })
				}
				files := []*weftv1.UploadFile{{Bytes: c.bytes}}
				content := weftapi.ContentOf(ctx, &weftv1.UploadStart{Files: files}, func() (*weftv1.UploadVersionRequest, error) {
					select {
					case <-time.After(c.every):
					case <-ctx.Done():
					}
					if len(c.messages) > 0 {
						m := c.messages[0]
						c.messages = c.messages[1:]
						return m, nil
					}
					if c.end == nil {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return nil, c.end
				})
				text, err := io.ReadAll(content)
				if string(text) != c.text || (err == nil) != (c.wants == "") || !strings.Contains(fmt.Sprint(err), c.wants) {
					t.Errorf("%q, %v; want %q, %s", text, err, c.text, c.wants)
				}
				e, is := errors.AsType[*catalog.UploadError](err)
				if name == "stalled" && (!is || e.Reason != catalog.UploadStalled) {
					t.Errorf("%v", err)
				}
				cancel(nil) // the handler returns
			})
		})
	}
}
