package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"
)

// IssuerConfig says which JWTs are taken.
type IssuerConfig struct {
	// URL is the issuer, as tokens name it, and Audience is whom they must be for. Both are required.
	URL, Audience string
	// KeysURL is where its keys are; "": where its OIDC discovery says, unless there are Keys, which are a JWKS.
	KeysURL string
	Keys    []byte
	// Groups is the claim that lists the groups of a caller.
	Groups string
}

// Equal reports whether the same JWTs are taken.
func (c *IssuerConfig) Equal(o *IssuerConfig) bool {
	return c.URL == o.URL && c.Audience == o.Audience && c.KeysURL == o.KeysURL && bytes.Equal(c.Keys, o.Keys) &&
		c.Groups == o.Groups
}

// Issuer verifies the JWTs of one issuer. It is safe for concurrent use. A goroutine fetches the keys now and then.
// Calls wait for keys only while there are none, or where a token is signed with none of them.
type Issuer struct {
	config IssuerConfig
	client *http.Client
	known  verdicts

	mu       sync.Mutex
	keys     oidc.KeySet   // guarded by mu; nil: they are not found yet
	failed   error         // guarded by mu; why not
	again    time.Time     // guarded by mu; when they are fetched again, unless they are of a file
	fetching chan struct{} // guarded by mu; closed when that has ended; nil: nobody does
}

const (
	// patience bounds one request to the issuer, and is how long nobody asks again where one has failed.
	patience = 5 * time.Second
	// keysFor is how long keys, and what was verified with them, hold good: one that its issuer has withdrawn is of no
	// use after that, unless the issuer cannot be asked.
	keysFor = 5 * time.Minute
	// maxToken is the longest JWT that is verified, in bytes.
	maxToken = 16 << 10
)

// algorithms are those of signatures that are taken: none with a shared secret.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.EdDSA,
}

// NewIssuer returns an issuer. It fetches nothing before the first token. The error says what is wrong with
// the keys.
func NewIssuer(c IssuerConfig) (*Issuer, error) {
	// A token with an unknown key has the keys fetched again: strangers must not have that done without end.
	i := &Issuer{config: c, client: &http.Client{Transport: &fetcher{rate.NewLimiter(1, 10)}}}
	if c.Keys == nil {
		return i, nil
	}
	var err error
	i.keys, err = parseKeys(c.Keys)
	return i, err
}

// keysNow returns the issuer's keys, and until when what they verify holds good. It waits for them if there are none
// yet; old ones serve while others are fetched. The error is an *UnreachableError, or that of ctx.
func (i *Issuer) keysNow(ctx context.Context, now time.Time) (keys oidc.KeySet, until time.Time, _ error) {
	i.mu.Lock()
	if i.config.Keys != nil {
		defer i.mu.Unlock()
		return i.keys, now.Add(keysFor), nil
	}
	if i.fetching == nil && !now.Before(i.again) {
		i.fetching = make(chan struct{})
		go i.renew(i.fetching, now)
	}
	fetching := i.fetching
	if i.keys == nil && fetching != nil {
		i.mu.Unlock()
		select {
		case <-fetching:
		case <-ctx.Done():
			return nil, until, context.Cause(ctx)
		}
		i.mu.Lock()
	}
	defer i.mu.Unlock()
	if i.keys == nil {
		return nil, until, i.failed
	}
	// Newer keys are on their way. What these verify holds until they are looked for once more.
	if until = i.again; !now.Before(until) {
		until = now.Add(patience)
	}
	return i.keys, until, nil
}

// renew fetches the keys, and closes done. Where that fails it is tried again after patience, and keys that were there
// before stay.
func (i *Issuer) renew(done chan struct{}, now time.Time) {
	keys, err := i.fetch()
	i.mu.Lock()
	defer i.mu.Unlock()
	defer close(done)
	i.fetching = nil
	if err != nil { // old keys are better than none
		i.failed, i.again = &UnreachableError{err}, now.Add(patience)
		return
	}
	i.keys, i.again = keys, now.Add(keysFor)
}

// fetch fetches keys, from where the issuer says if need be. A token with a key that is none of them has the library
// ask again, no more often than the limit of client allows.
func (i *Issuer) fetch() (oidc.KeySet, error) {
	ctx := oidc.ClientContext(context.Background(), &http.Client{Transport: &fetcher{}})
	url := i.config.KeysURL
	if url == "" {
		provider, err := oidc.NewProvider(ctx, i.config.URL)
		if err != nil {
			return nil, err
		}
		var found struct {
			KeysURL string `json:"jwks_uri"`
		}
		if err := provider.Claims(&found); err != nil {
			return nil, err
		}
		url = found.KeysURL
	}
	data, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return &growing{keys, oidc.NewRemoteKeySet(oidc.ClientContext(ctx, i.client), url)}, nil
}

// prove returns what a JWT proves. Its signature is verified once, and again after keysFor; in between the verdict is
// remembered by its hash. The proof ends when the token does, or earlier where its keys are to be asked for again. The
// error is a *ProofError, an *UnreachableError, or that of ctx.
func (i *Issuer) prove(ctx context.Context, token string, hash [32]byte, now time.Time) (Proof, error) {
	v, is := i.known.get(hash, now)
	if !is {
		if len(token) > maxToken {
			return Proof{}, unknown
		}
		keys, until, err := i.keysNow(ctx, now)
		if err != nil {
			return Proof{}, err
		}
		if v, err = i.judge(ctx, keys, token, now); err != nil {
			return Proof{}, err
		}
		if until.Before(v.until) {
			v.until = until
		}
		i.known.put(hash, v, now)
	}
	switch {
	case v.fault != nil:
		return Proof{}, v.fault
	case !now.Before(v.proof.Until):
		return Proof{}, expired("JWT", v.proof.Until, "get a new one from "+i.config.URL)
	}
	p := v.proof
	if v.until.Before(p.Until) {
		p.Until = v.until
	}
	return p, nil
}

// judge verifies a JWT: its signature, issuer, audience, and that it is valid already; when it expires is for prove to
// look at each time. The error is for reasons that are not the token's, and is not remembered.
func (i *Issuer) judge(ctx context.Context, keys oidc.KeySet, token string, now time.Time) (v verdict, _ error) {
	refused := func(err error) verdict {
		return verdict{fault: &ProofError{Unknown, fmt.Sprintf("the JWT of this call is not accepted: %v; send one that %s "+
			"issued for %s", err, i.config.URL, i.config.Audience)}, until: now.Add(refusedFor)}
	}
	// The library is trusted to be correct, not to survive whatever strangers send.
	defer func() {
		if caught := recover(); caught != nil {
			v = refused(errors.New("it cannot be read"))
		}
	}()
	by := &told{KeySet: keys}
	id, err := oidc.NewVerifier(i.config.URL, by, &oidc.Config{
		ClientID: i.config.Audience, SupportedSigningAlgs: algorithms,
		SkipExpiryCheck: true, // that of a token in the cache must be checked as well: see prove
	}).Verify(ctx, token)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return verdict{}, cause
	}
	if fault, unreachable := errors.AsType[*fetchError](by.failed); unreachable {
		return verdict{}, &UnreachableError{fault}
	}
	if err != nil {
		return refused(err), nil
	}
	var all map[string]any
	if err := id.Claims(&all); err != nil {
		return refused(err), nil
	}
	if before, is := all["nbf"].(float64); is && now.Add(skew).Before(time.Unix(int64(before), 0)) {
		return refused(errors.New("it is not valid yet")), nil
	}
	if id.Expiry.Unix() <= 0 {
		return refused(errors.New("it does not say when it expires")), nil
	}
	p := Proof{How: how(JWT, id.Subject), Until: id.Expiry}
	if id.Subject != "" {
		p.Claims = append(p.Claims, Claim{Kind: JWT, Value: id.Subject})
	}
	// Issuers write a single group as a text.
	switch groups := all[i.config.Groups].(type) {
	case string:
		p.Claims = append(p.Claims, Claim{Kind: Group, Value: groups})
	case []any:
		for _, g := range groups {
			if name, is := g.(string); is {
				p.Claims = append(p.Claims, Claim{Kind: Group, Value: name})
			}
		}
	}
	return verdict{proof: p, until: id.Expiry.Add(refusedFor)}, nil
}

// skew is by how much the clock of an issuer may be ahead.
const skew = time.Minute

// verdict is what is known of a JWT until some time: what it proves, or why it is refused. One that has expired is
// remembered a little longer, so that its caller learns that.
type verdict struct {
	proof Proof
	fault error
	until time.Time
}

const (
	// refusedFor is how long it is remembered that a token is refused: its key may come with the next fetch.
	refusedFor = 5 * time.Second
	// shards is the number of locks: calls share each with a few others only.
	shards = 16
	// perShard bounds the memory of tokens, which takes about half a kilobyte each.
	perShard = 1024
	// few is how many are looked at to make room: all would take a stranger's tokens a thousand times as long.
	few = 8
)

// verdicts remembers the JWTs that were verified lately, by their hash.
type verdicts [shards]struct {
	mu sync.Mutex
	of map[[32]byte]verdict // guarded by mu
}

// get returns the verdict on a token, false where none is remembered that still holds.
func (all *verdicts) get(hash [32]byte, now time.Time) (verdict, bool) {
	s := &all[hash[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	v, is := s.of[hash]
	return v, is && now.Before(v.until)
}

// put remembers a verdict. It looks at a few others and forgets the expired ones, or all of these few if there is no
// room.
func (all *verdicts) put(hash [32]byte, v verdict, now time.Time) {
	s := &all[hash[0]%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[[32]byte]verdict{}
	}
	// Go begins to go through a map at a random entry, so that these are other ones each time.
	looked := 0
	for h, old := range s.of {
		if looked++; looked > few {
			break
		}
		if len(s.of) >= perShard || !now.Before(old.until) {
			delete(s.of, h)
		}
	}
	s.of[hash] = v
}
