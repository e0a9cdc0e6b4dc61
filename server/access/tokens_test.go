package access_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/server/access"
)

func TestTokens(t *testing.T) {
	plain, first := access.NewToken("plain")
	timed, second := access.NewToken("timed")
	if plain == timed || strings.Contains(first, plain) || !strings.HasPrefix(first, "plain sha256:") {
		t.Errorf("%q of %q, %q of %q", plain, first, timed, second)
	}
	until := time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC)
	tokens, faults := access.ParseTokens("# of the fleet\n\n" + first + " # no end\n  " + second +
		"  expires 2030-01-31T00:00:00Z\r\n")
	if faults != nil || tokens.Len() != 2 {
		t.Fatalf("%d tokens, %v", tokens.Len(), faults)
	}
	p := &access.Prover{Tokens: tokens}
	now := until.Add(-time.Second)
	for token, want := range map[string]access.Proof{
		plain: {Claims: []access.Claim{{Kind: "token", Value: "plain"}}, How: "token:plain"},
		timed: {Claims: []access.Claim{{Kind: "token", Value: "timed"}}, How: "token:timed", Until: until},
	} {
		got, err := prove(p, token, now)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, %s", err, diff)
		}
	}
	for token, want := range map[string]access.Reason{
		plain + "x": access.Unknown, plain[1:]: access.Unknown, "": access.Unknown, "a.b.c": access.Unknown,
		timed: access.Expired,
	} {
		_, err := p.Prove(context.Background(), token, access.Hash(token), until)
		e, is := errors.AsType[*access.ProofError](err)
		if !is || e.Reason != want {
			t.Errorf("%q: %v, want %s", token, err, want)
		}
		if want == access.Expired && !strings.Contains(err.Error(), "token timed expired at 2030-01-31T00:00:00Z") {
			t.Error(err)
		}
	}
}

// TestLinesOfNoToken have a fault each, which does not repeat what may be a token.
func TestLinesOfNoToken(t *testing.T) {
	_, line := access.NewToken("a")
	hash := strings.Fields(line)[1]
	for text, want := range map[string]string{
		"a":                                   "line 1: 1 words; expected NAME sha256:HEX",
		"a weft_c2VjcmV0":                     "line 1: the second word is no SHA-256 in 64",
		"a sha256:abc":                        "no SHA-256",
		"a/b " + hash:                         `line 1: "a/b" is no name of a token`,
		"\n\na " + hash + " until 2030-01-01": "line 3: 4 words; expected",
		"a " + hash + " expires tomorrow":     `line 1: "tomorrow" is no time; expected one such as`,
		"a " + hash + "\nb " + hash:           "line 2: the hash is that of the token a, too",
		"a " + strings.Replace(hash, ":", ":00", 1): "no SHA-256",
	} {
		_, faults := access.ParseTokens(text)
		if len(faults) != 1 || !strings.Contains(faults[0].Error(), want) || strings.Contains(faults[0].Error(), "c2Vj") {
			t.Errorf("%q: %v, want %s", text, faults, want)
		}
	}
}

func TestBearer(t *testing.T) {
	for _, good := range []string{"Bearer abc", "bearer  abc ", "BEARER abc"} {
		if token, err := access.Bearer([]string{good}); err != nil || token != "abc" {
			t.Errorf("%q is %q, %v", good, token, err)
		}
	}
	for _, bad := range [][]string{{""}, {"Bearer"}, {"Bearer "}, {"abc"}, {"Basic abc"}, {"Bearer a", "Bearer b"}} {
		_, err := access.Bearer(bad)
		if e, is := errors.AsType[*access.ProofError](err); !is || e.Reason != access.Malformed {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
