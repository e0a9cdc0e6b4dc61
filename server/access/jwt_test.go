package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/internal/race"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/server/access"
)

// authority issues JWTs, and serves its keys over HTTP.
type authority struct {
	*httptest.Server

	fetched atomic.Int64 // how often its keys were fetched
	down    atomic.Bool
	asked   atomic.Int64                     // while it is down
	wrong   atomic.Pointer[http.HandlerFunc] // answers in its place while it is down; nil: with a status

	mu   sync.Mutex
	keys map[string]*ecdsa.PrivateKey // guarded by mu; by id
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{keys: map[string]*ecdsa.PrivateKey{}}
	a.add(t, "first")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, a.URL, a.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		a.fetched.Add(1)
		_, _ = w.Write(a.jwks())
	})
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.down.Load() {
			a.asked.Add(1)
			if wrong := a.wrong.Load(); wrong != nil {
				(*wrong)(w, r)
				return
			}
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *authority) add(t *testing.T, id string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys[id] = key
}

func (a *authority) remove(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.keys, id)
}

func (a *authority) jwks() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	var set jose.JSONWebKeySet
	for id, key := range a.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	}
	data, err := json.Marshal(set)
	if err != nil {
		panic(err) // of a test
	}
	return data
}

// sign issues a JWT with the key of that id.
func (a *authority) sign(t *testing.T, id string, claims map[string]any) string {
	t.Helper()
	a.mu.Lock()
	key := a.keys[id]
	a.mu.Unlock()
	return sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, claims)
}

func sign(t *testing.T, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// claims are those of a good token, with changes; nil takes a claim away.
func (a *authority) claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": a.URL, "aud": "weft", "sub": "ada", "exp": time.Now().Add(time.Hour).Unix(), "groups": []string{"staff", "ml"},
	}
	for name, value := range changes {
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
	}
	return c
}

func prover(t *testing.T, c access.IssuerConfig) *access.Prover {
	t.Helper()
	issuer, err := access.NewIssuer(c)
	if err != nil {
		t.Fatal(err)
	}
	return &access.Prover{Tokens: &access.Tokens{}, Issuer: issuer}
}

// ways are how the keys of an issuer are found.
func (a *authority) ways(t *testing.T) map[string]*access.Prover {
	t.Helper()
	c := access.IssuerConfig{URL: a.URL, Audience: "weft", Groups: "groups"}
	file, url := c, c
	file.Keys, url.KeysURL = a.jwks(), a.URL+"/keys"
	return map[string]*access.Prover{"file": prover(t, file), "url": prover(t, url), "discovery": prover(t, c)}
}

func prove(p *access.Prover, token string, now time.Time) (access.Proof, error) {
	return p.Prove(context.Background(), token, access.Hash(token), now)
}

// TestJWTs: a token proves its subject and groups, and one with any fault nothing.
func TestJWTs(t *testing.T) {
	a := newAuthority(t)
	stranger := newAuthority(t)
	hour := time.Hour
	for way, p := range a.ways(t) {
		t.Run(way, func(t *testing.T) {
			now := time.Now()
			good := a.sign(t, "first", a.claims(nil))
			proof, err := prove(p, good, now)
			if err != nil {
				t.Fatal(err)
			}
			want := []access.Claim{{Kind: "jwt", Value: "ada"}, {Kind: "group", Value: "staff"}, {Kind: "group", Value: "ml"}}
			if diff := cmp.Diff(want, proof.Claims); diff != "" || proof.How != "jwt:ada" {
				t.Errorf("it proves %s (%s)", diff, proof.How)
			}
			parts := strings.Split(good, ".")
			secret := sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: a.jwks()}, a.claims(nil))
			for name, tt := range map[string]struct {
				token  string
				reason access.Reason
			}{
				"of another issuer":   {stranger.sign(t, "first", stranger.claims(nil)), access.Unknown},
				"by another's key":    {stranger.sign(t, "first", a.claims(nil)), access.Unknown},
				"for others":          {a.sign(t, "first", a.claims(map[string]any{"aud": "others"})), access.Unknown},
				"for nobody":          {a.sign(t, "first", a.claims(map[string]any{"aud": nil})), access.Unknown},
				"over":                {a.sign(t, "first", a.claims(map[string]any{"exp": now.Add(-hour).Unix()})), access.Expired},
				"for ever":            {a.sign(t, "first", a.claims(map[string]any{"exp": nil})), access.Unknown},
				"not yet":             {a.sign(t, "first", a.claims(map[string]any{"nbf": now.Add(hour).Unix()})), access.Unknown},
				"with a changed text": {parts[0] + "." + parts[1] + "A." + parts[2], access.Unknown},
				"without a signature": {parts[0] + "." + parts[1] + ".", access.Unknown},
				"with no algorithm": {
					"eyJhbGciOiJub25lIn0." + parts[1] + ".", access.Unknown,
				},
				"with a shared secret": {secret, access.Unknown},
				"of dots":              {"..", access.Unknown},
				"too long":             {strings.Repeat("a", 20_000) + "." + parts[1] + "." + parts[2], access.Unknown},
				"that is none":         {"abc", access.Unknown},
			} {
				p := a.ways(t)[way]
				for range 2 { // the second time from memory
					proof, err := prove(p, tt.token, now)
					if e, is := errors.AsType[*access.ProofError](err); !is || e.Reason != tt.reason {
						t.Errorf("a token %s: %v, %v; want %s", name, proof, err, tt.reason)
					}
				}
			}
			if _, err := prove(p, good, now.Add(2*hour)); err == nil {
				t.Error("a token of the memory is valid when it is over")
			}
		})
	}
}

// TestVerifiedOnce: a token that was verified is not verified again, keys that change are found, and strangers cannot
// have them fetched without end.
func TestVerifiedOnce(t *testing.T) {
	a := newAuthority(t)
	p := a.ways(t)["discovery"]
	now := time.Now()
	good := a.sign(t, "first", a.claims(nil))
	for range 100 {
		if _, err := prove(p, good, now); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := a.fetched.Load(), p.Issuer.Remembered(); n != 1 || m != 1 {
		t.Errorf("its keys were fetched %d times, and %d tokens are remembered", n, m)
	}
	a.add(t, "second")
	if _, err := prove(p, a.sign(t, "second", a.claims(nil)), now); err != nil {
		t.Errorf("a token of a new key: %v", err)
	}
	stranger := newAuthority(t)
	stranger.add(t, "third")
	unreachable := 0
	for i := range 100 {
		_, err := prove(p, stranger.sign(t, "third", a.claims(map[string]any{"jti": i})), now)
		if err == nil {
			t.Fatal("a stranger is known")
		}
		if _, is := errors.AsType[*access.UnreachableError](err); is {
			unreachable++
		}
	}
	if n := a.fetched.Load(); n > 20 || unreachable == 0 {
		t.Errorf("strangers had the keys fetched %d times, and were told %d times to come again", n, unreachable)
	}
	if _, err := prove(p, good, now); err != nil {
		t.Errorf("meanwhile, a token that is known: %v", err)
	}
}

// TestIssuerDown: a new token is to be sent again later, and one that is known goes on; the issuer is found when it is
// back.
func TestIssuerDown(t *testing.T) {
	a := newAuthority(t)
	p := a.ways(t)["discovery"]
	now := time.Now()
	good := a.sign(t, "first", a.claims(nil))
	a.down.Store(true)
	for range 3 {
		if _, err := prove(p, good, now); !isUnreachable(err) {
			t.Errorf("while the issuer is down: %v", err)
		}
	}
	a.down.Store(false)
	if _, err := prove(p, good, now.Add(6*time.Second)); err != nil {
		t.Errorf("when it is back: %v", err)
	}
	a.down.Store(true)
	if _, err := prove(p, good, now.Add(7*time.Second)); err != nil {
		t.Errorf("a token that is known: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	other := a.sign(t, "first", a.claims(map[string]any{"sub": "bob"}))
	a.add(t, "unseen")
	unseen := a.sign(t, "unseen", a.claims(nil))
	if _, err := p.Prove(cancelled, unseen, access.Hash(unseen), now); !errors.Is(err, context.Canceled) &&
		!isUnreachable(err) {
		t.Errorf("a call that was cancelled: %v", err)
	}
	if _, err := prove(p, other, now); err != nil {
		t.Errorf("another token of a known key: %v", err)
	}
}

// TestWithdrawnKey: a token that was verified is of no use once its key was withdrawn, and keys that cannot be asked
// for remain, however the issuer fails.
func TestWithdrawnKey(t *testing.T) {
	for name, wrong := range map[string]http.HandlerFunc{
		"status": nil,
		"hangs":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no keys": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"error": "later"}`)
		},
		"a list": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[]`) },
		"a page": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
	} {
		for _, way := range []string{"url", "discovery"} { // anybody who withdraws one of a file writes that anew
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel() // a request to an issuer that hangs takes five seconds
				a := newAuthority(t)
				if wrong != nil {
					a.wrong.Store(&wrong)
				}
				p, now := a.ways(t)[way], time.Now()
				a.add(t, "old")
				late := a.claims(map[string]any{"exp": now.Add(9999 * time.Hour).Unix()})
				old, first := a.sign(t, "old", late), a.sign(t, "first", late)
				known := func(token string) bool {
					t.Helper()
					proof, err := prove(p, token, now)
					if isUnreachable(err) || proof.Until.After(now.Add(5*time.Minute)) {
						t.Errorf("%v, until %v", err, proof.Until)
					}
					return err == nil
				}
				if !known(old) {
					t.Error("a good token is refused")
				}
				a.down.Store(true)
				for range 3 { // the first has the keys fetched, which fails
					if now = now.Add(10 * time.Minute); !known(old) {
						t.Error("a token is refused since its issuer is down")
					}
				}
				weftest.Until(t, "the issuer is asked", func() bool { return a.asked.Load() > 0 })
				a.down.Store(false)
				a.remove("old")
				weftest.Until(t, "the withdrawn key is forgotten", func() bool {
					now = now.Add(10 * time.Second)
					return !known(old)
				})
				if !known(first) {
					t.Error("the other key is forgotten")
				}
			})
		}
	}
}

// TestWaitForKeys: a call does not wait for keys for longer than it has.
func TestWaitForKeys(t *testing.T) {
	a := newAuthority(t)
	ended := make(chan struct{})
	defer close(ended)
	wrong := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended })
	a.wrong.Store(&wrong)
	a.down.Store(true)
	p := a.ways(t)["url"]
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		token := a.sign(t, "first", a.claims(nil))
		if _, err := p.Prove(ctx, token, access.Hash(token), time.Now()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the issuer hangs: %v", err)
		}
		cancel()
	}
}

// TestPageInPlaceOfKeys: that an issuer answers with a page is not the fault of a token.
func TestPageInPlaceOfKeys(t *testing.T) {
	a := newAuthority(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html>Sign in</html>")
	}))
	defer page.Close()
	for _, c := range []access.IssuerConfig{{URL: a.URL, Audience: "weft", KeysURL: page.URL}, {URL: page.URL}} {
		if proof, err := prove(prover(t, c), a.sign(t, "first", a.claims(nil)), time.Now()); !isUnreachable(err) {
			t.Errorf("%v, %v", proof, err)
		}
	}
}

func isUnreachable(err error) bool {
	_, is := errors.AsType[*access.UnreachableError](err)
	return is
}

func TestKeysThatAreNone(t *testing.T) {
	for _, keys := range []string{"", "{}", `{"keys": []}`, "keys", `{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}`} {
		if _, err := access.NewIssuer(access.IssuerConfig{URL: "u", Audience: "a", Keys: []byte(keys)}); err == nil {
			t.Errorf("%q are keys", keys)
		}
	}
}

// TestMemoryOfTokensIsBounded: more tokens than are remembered are all answered rightly.
func TestMemoryOfTokensIsBounded(t *testing.T) {
	a := newAuthority(t)
	p := a.ways(t)["file"]
	now := time.Now()
	good := a.sign(t, "first", a.claims(nil))
	for i := range map[bool]int{false: 40_000, true: 18_000}[race.Enabled] {
		if _, err := prove(p, fmt.Sprint("a.b.", i), now); err == nil {
			t.Fatal("a token of three words is known")
		}
	}
	if _, err := prove(p, good, now); err != nil {
		t.Error(err)
	}
	if n := p.Issuer.Remembered(); n > 16*1024 {
		t.Errorf("%d tokens are remembered", n)
	}
}
