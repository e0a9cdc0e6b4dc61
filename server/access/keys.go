package access

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

// parseKeys reads a JWKS. A key that cannot verify, such as a shared secret, is an error: one who reads the set could
// sign with it.
func parseKeys(data []byte) (oidc.KeySet, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("no JWKS: %w; expected {\"keys\": [...]}", err)
	}
	var keys []crypto.PublicKey
	for _, key := range set.Keys {
		switch public := key.Public(); {
		case public.Key == nil:
			return nil, fmt.Errorf("the key %q is no public key; expected those that JWTs are verified with", key.KeyID)
		default:
			keys = append(keys, public.Key)
		}
	}
	if keys == nil {
		return nil, errors.New("there is no key in it; expected {\"keys\": [...]} with at least one")
	}
	return &oidc.StaticKeySet{PublicKeys: keys}, nil
}

// told are the keys of one verification, and the error of the keys: the verifier keeps only its text. It belongs to one
// call.
type told struct {
	oidc.KeySet

	failed error
}

// VerifySignature implements oidc.KeySet.
func (t *told) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	payload, err = t.KeySet.VerifySignature(ctx, jwt)
	t.failed = err
	return payload, err
}

// Local reports whether a host is this machine, so that nobody on the way to it could send other keys.
func Local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// growing are keys that were fetched, and later ones, which are asked for when a token is by none of the first: an
// issuer may sign with a new key before the old set is fetched again.
type growing struct{ fetched, later oidc.KeySet }

// VerifySignature implements oidc.KeySet. It asks the issuer where no key fits, unless it did so too often lately.
func (g *growing) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	if payload, err = g.fetched.VerifySignature(ctx, jwt); err == nil {
		return payload, nil
	}
	return g.later.VerifySignature(ctx, jwt)
}

// get returns what is at a URL, as fetcher bounds it.
func get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: &fetcher{}}).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body) // from memory
}

// fetcher fetches JSON of a bounded size in a bounded time, by https unless it is from this machine. It reads the whole
// answer before it returns, so that the time bounds that as well.
type fetcher struct {
	rate *rate.Limiter // nil: as often as it is asked to
}

// maxFetched is the largest answer of an issuer that is read, in bytes.
const maxFetched = 1 << 20

// fetchError says that something was not fetched.
type fetchError struct{ error }

func (e *fetchError) Unwrap() error { return e.error }

// RoundTrip implements http.RoundTripper. Its errors are *fetchError: those of a client's timeout are not.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.rate != nil && !f.rate.Allow() {
		return nil, &fetchError{errors.New("its keys were fetched often enough for now")}
	}
	if r.URL.Scheme != "https" && !Local(r.URL.Hostname()) {
		return nil, &fetchError{fmt.Errorf("%s is not https: its keys could be anybody's", r.URL.Redacted())}
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	answer, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, &fetchError{err}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, &fetchError{fmt.Errorf("%s answers %s", r.URL.Redacted(), answer.Status)}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxFetched))
	if err != nil {
		return nil, &fetchError{err}
	}
	if !json.Valid(body) { // a page that says why there are no keys
		return nil, &fetchError{fmt.Errorf("%s answers with what is no JSON, or more than %d bytes", r.URL.Redacted(),
			maxFetched)}
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}
