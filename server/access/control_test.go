package access_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/server/access"
)

// counted counts refusals by identity and reason.
type counted map[string]int

func (c counted) RequestDenied(identity, reason string) { c[identity+" "+reason]++ }

// users are those of the identities; that of all runs this test.
var users = map[string]string{"all": strconv.Itoa(os.Getuid()), "some": "123456"}

// control returns one with an identity all, whose token is secret and expires in an hour, and an identity some.
func control(t *testing.T, log *weftest.Log, c counted) *access.Control {
	t.Helper()
	var entries []access.Entry
	for _, name := range []string{"all", "some"} {
		entry := access.Entry{Name: name, Weight: 1, Roles: []string{name}}
		for _, text := range []string{"token:" + name, "uid:" + users[name]} {
			caller, err := access.ParsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			entry.Callers = append(entry.Callers, caller)
		}
		entries = append(entries, entry)
	}
	tokens, faults := access.ParseTokens(fmt.Sprintf("all sha256:%x expires %s\nsome sha256:%x\nnobody sha256:%x",
		sha256.Sum256([]byte("secret")), time.Now().Add(time.Hour).Format(time.RFC3339),
		sha256.Sum256([]byte("other")), sha256.Sum256([]byte("third"))))
	if faults != nil {
		t.Fatal(faults)
	}
	d := &access.Control{Observer: c, Logger: slog.New(log)}
	d.Follow(access.NewPolicy(&access.Config{
		Roles: map[string]access.Role{
			"all": {Predict: []string{"*"}, Observe: []string{"*"}}, "some": {Observe: []string{"walker"}},
		},
		Identities: entries,
	}, nil, time.Now()), &access.Prover{Tokens: tokens})
	return d
}

func bearer(token string) context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer "+token))
}

// TestDeniedLinesAreFew: anybody who is denied again and again has one line a second, which counts the others.
func TestDeniedLinesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log weftest.Log
		c := counted{}
		d := control(t, &log, c)
		rule := &access.Rule{Method: "/a/B", AnyOf: access.Operate}
		for range 30 {
			by, err := d.Enter(bearer("secret"), rule)
			if err != nil {
				t.Fatal(err)
			}
			if err = by.Check(rule, "walker"); err == nil {
				t.Fatal("it may operate")
			}
			d.Deny(t.Context(), by, rule.Method, "walker\nforged line", err)
			d.Deny(t.Context(), by, rule.Method, "walker", &access.QuotaError{Quota: access.Rate})
			d.Deny(t.Context(), by, rule.Method, "walker", context.Canceled)
			time.Sleep(100 * time.Millisecond)
		}
		lines := log.Event("access_denied")
		if len(lines) != 3 || weftest.Attr(lines[1], "others_since").Int64() != 9 {
			t.Errorf("%d lines in three seconds: %v", len(lines), log.Lines(""))
		}
		first := log.Lines("")[0]
		for _, part := range []string{
			"identity=all", "proof=token:all", "method=/a/B", "reason=PERMISSION_DENIED",
			"identity all lacks permission operate on model walker; add it to one of its roles in the access file",
		} {
			if !strings.Contains(first, part) {
				t.Errorf("%s lacks %s", first, part)
			}
		}
		if c["all PERMISSION_DENIED"] != 30 || c["all QUOTA_RATE"] != 30 || len(c) != 2 {
			t.Errorf("counted %v", c)
		}
	})
}

// TestProofsEnd: a token is no longer taken once it has expired, although the connection remembers it.
func TestProofsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := control(t, &weftest.Log{}, counted{})
		rule := &access.Rule{AnyOf: access.Observe}
		by, err := d.Enter(bearer("secret"), rule)
		if err != nil || by.Name != "all" || by.String() != "all (token:all)" {
			t.Fatalf("%v, %v", by, err)
		}
		if same, err := d.Again(bearer("secret"), rule, by); same != by || err != nil {
			t.Errorf("again it is %v, %v", same, err)
		}
		time.Sleep(2 * time.Hour)
		_, err = d.Again(bearer("secret"), rule, by)
		if e, is := errors.AsType[*access.ProofError](err); !is || e.Reason != access.Expired {
			t.Errorf("when it has expired: %v", err)
		}
		if by, err := d.Enter(bearer("secret"), &access.Rule{Public: true}); err != nil || by.Sees("walker") {
			t.Errorf("what is public: %v, %v", by, err)
		}
	})
}

// TestOpenControl: without a policy nobody is asked anything.
func TestOpenControl(t *testing.T) {
	var d access.Control
	by, err := d.Enter(bearer("whatever"), &access.Rule{})
	if by != nil || err != nil || !d.Open() || d.Policy() != nil {
		t.Errorf("%v, %v", by, err)
	}
	if !by.Sees("m") || !by.SeesAll() || !by.Observes("m") || by.String() != "" {
		t.Error("anybody does not see everything")
	}
}

func TestPages(t *testing.T) {
	d := control(t, &weftest.Log{}, counted{})
	page := d.Page(access.Observe, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "page")
	}))
	for header, want := range map[string]int{
		"": 401, "Basic abc": 401, "Bearer guess": 401, "Bearer third": 403, "Bearer other": 403, "Bearer secret": 200,
	} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		if header != "" {
			request.Header.Set("Authorization", header)
		}
		answer := httptest.NewRecorder()
		page.ServeHTTP(answer, request)
		if answer.Code != want || (answer.Body.String() == "page") != (want == 200) {
			t.Errorf("%q gets %d: %s", header, answer.Code, answer.Body)
		}
		if challenged := answer.Header().Get("WWW-Authenticate") != ""; challenged != (want == 401) {
			t.Errorf("%q: challenged %t", header, challenged)
		}
	}
}

// TestPagesOfASocket: who connects to a unix socket is known by the user, unless a token says otherwise.
func TestPagesOfASocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells who connects")
	}
	d := control(t, &weftest.Log{}, counted{})
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute, ConnContext: access.ConnContext,
		Handler: d.Page(access.Observe, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
	}
	defer server.Close()
	go func() { _ = server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	}}
	defer client.CloseIdleConnections()
	for header, want := range map[string]int{"": 200, "Bearer guess": 401, "Bearer other": 403} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			request.Header.Set("Authorization", header)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%q gets %d, want %d", header, answer.StatusCode, want)
		}
	}
}
