package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/race"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/server/servertest"
)

// TestReloadWhileCallsRun: a call that begins after a change follows it, and so does the next message of a stream; no
// call fails for another reason.
func TestReloadWhileCallsRun(t *testing.T) {
	may := func(predict bool) *access.Config {
		c := limitedBy(access.Quota{Requests: 1000})
		role := access.Role{Observe: []string{"*"}}
		if predict {
			role.Predict = []string{"pol*"}
		}
		c.Roles["all"] = role
		return c
	}
	control := servertest.NewControl(t, may(true))
	h, _, _ := guarded(t, control)
	ctx := as(t.Context(), "one")
	var stop atomic.Bool
	var answered, denied atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				switch _, err := h.Predictions.Predict(ctx, servertest.Observation("")); status.Code(err) {
				case codes.OK:
					answered.Add(1)
				case codes.PermissionDenied:
					denied.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	stream := h.OpenStream(ctx, t)
	for i := range map[bool]int{false: 200, true: 30}[race.Enabled] {
		predict := i%2 == 0
		control.Set(t, may(predict))
		_, err := h.Predictions.Predict(ctx, servertest.Observation(""))
		if (err == nil) != predict {
			t.Fatalf("change %d: may predict is %t, and the call ends with %v", i, predict, err)
		}
		id := strconv.Itoa(i)
		stream.Request(id)
		if want := id + ": version 2"; predict {
			stream.Want(want)
		} else {
			stream.Want(id + ": PermissionDenied identity one lacks permission predict on model policy; add it to one of " +
				"its roles in the access file")
		}
	}
	stop.Store(true)
	wg.Wait()
	stream.End()
	if answered.Load() == 0 || denied.Load() == 0 {
		t.Errorf("%d calls were answered, and %d denied", answered.Load(), denied.Load())
	}
	// Without its token an identity is nobody, on streams that are open, too.
	stream = h.OpenStream(ctx, t)
	stream.Request("first")
	stream.Answer() // so the stream is open
	other := may(true)
	other.Identities[0].Name = "other"
	control.Set(t, other)
	stream.Request("last")
	if got := stream.Answer(); got[:22] != "last: Unauthenticated " {
		t.Error(got)
	}
	stream.End()
}

// TestViewersAreAskedAgain: who may not observe any more, or whose token is gone, sees no more of what he watches.
func TestViewersAreAskedAgain(t *testing.T) {
	config := func(name string, observe ...string) *access.Config {
		c := limitedBy(access.Quota{Requests: 1000})
		c.Roles["all"] = access.Role{Observe: observe, Predict: []string{"*"}}
		c.Identities[0].Name = name
		return c
	}
	for what, after := range map[string]struct {
		config *access.Config
		code   codes.Code
	}{
		"the permission": {config("one"), codes.PermissionDenied}, "the token": {config("two", "*"), codes.Unauthenticated},
	} {
		t.Run(what, func(t *testing.T) {
			control := servertest.NewControl(t, config("one", "*"))
			h, _, _ := guarded(t, control)
			page := httptest.NewServer(h.Server.Live())
			defer page.Close()
			watch, err := h.Catalog.WatchActivity(as(t.Context(), "one"), &weftv1.WatchActivityRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL+"/live/activity", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+servertest.Token("one"))
			resp, err := page.Client().Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("the page answers %v, %v", resp, err)
			}
			defer resp.Body.Close()
			control.Set(t, after.config)
			if _, err := io.Copy(io.Discard, resp.Body); err != nil { // until its end
				t.Error(err)
			}
			for err == nil {
				_, err = watch.Recv()
			}
			if status.Code(err) != after.code {
				t.Errorf("the viewer is told %v, want %v", err, after.code)
			}
		})
	}
}
