package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Tokens are those of a tokens file. Only their hashes are known. It is immutable.
type Tokens struct{ byHash map[uint64][]token } // by the first bytes of the hash

// token is a line of the file. The token itself is known to its caller only.
type token struct {
	name  string
	hash  [sha256.Size]byte
	until time.Time // zero: for ever
}

// tokenName matches the names of tokens.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckTokenName refuses a name that no token may have.
func CheckTokenName(name string) error {
	if tokenName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%q is no name of a token; expected a letter or digit, then letters, digits, '.', '_' and '-', "+
		"at most 64", name)
}

// NewToken makes a token, and the line of it for the tokens file. It has 256 random bits, so that a plain hash of it
// need not be slow to be safe.
func NewToken(name string) (secret, line string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = "weft_" + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(secret))
	return secret, fmt.Sprintf("%s sha256:%x", name, hash)
}

// LineError is a fault of one line of a tokens file.
type LineError struct {
	Line int // the first is 1
	Why  string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// ParseTokens reads a tokens file: a line for each token, NAME sha256:HEX, and after it, optionally, expires and a
// time; empty lines, and what follows a #, are for people. The errors are *LineError, one for each faulty line.
func ParseTokens(file string) (*Tokens, []error) {
	t := &Tokens{byHash: map[uint64][]token{}}
	var faults []error
	number := 0
	for line := range strings.Lines(file) {
		number++
		text, _, _ := strings.Cut(line, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		one, err := parseToken(words)
		if err == nil && t.find(one.hash) != nil {
			err = fmt.Errorf("the hash is that of the token %s, too; make another token", t.find(one.hash).name)
		}
		if err != nil {
			faults = append(faults, &LineError{number, err.Error()})
			continue
		}
		key := prefix(one.hash)
		t.byHash[key] = append(t.byHash[key], one)
	}
	return t, faults
}

// parseToken reads the words of a line.
func parseToken(words []string) (one token, err error) {
	const expected = "expected NAME sha256:HEX, as `weft token NAME` prints it, or NAME sha256:HEX expires TIME"
	if len(words) != 2 && (len(words) != 4 || words[2] != "expires") {
		return one, fmt.Errorf("%d words; %s", len(words), expected)
	}
	one.name = words[0]
	if err := CheckTokenName(one.name); err != nil {
		return one, err
	}
	digits, is := strings.CutPrefix(words[1], "sha256:")
	hash, err := hex.DecodeString(digits)
	if !is || err != nil || len(hash) != len(one.hash) {
		// The word is not repeated: it may be a token that somebody did not hash.
		return one, fmt.Errorf("the second word is no SHA-256 in 64 hexadecimal digits; %s", expected)
	}
	one.hash = [sha256.Size]byte(hash)
	if len(words) == 4 {
		if one.until, err = time.Parse(time.RFC3339, words[3]); err != nil {
			return one, fmt.Errorf("%q is no time; expected one such as 2030-01-31T00:00:00Z", words[3])
		}
	}
	return one, nil
}

// Len returns how many tokens there are.
func (t *Tokens) Len() (n int) {
	for _, some := range t.byHash {
		n += len(some)
	}
	return n
}

// prefix is the part of a hash by which it is found. A map compares that in a time which may tell; find compares the
// rest.
func prefix(hash [sha256.Size]byte) uint64 { return binary.LittleEndian.Uint64(hash[:]) }

// find returns the token of a hash, nil if there is none. The time that it takes does not tell how much of the hash is
// right.
func (t *Tokens) find(hash [sha256.Size]byte) *token {
	among := t.byHash[prefix(hash)]
	for i := range among {
		if subtle.ConstantTimeCompare(among[i].hash[:], hash[:]) == 1 {
			return &among[i]
		}
	}
	return nil
}

// prove returns what a token proves, false if it is none of these. The error is a *ProofError.
func (t *Tokens) prove(hash [sha256.Size]byte, now time.Time) (Proof, bool, error) {
	one := t.find(hash)
	if one == nil {
		return Proof{}, false, nil
	}
	if !one.until.IsZero() && !now.Before(one.until) {
		return Proof{}, true, expired("token "+one.name, one.until, "make a new one with `weft token`")
	}
	return Proof{
		Claims: []Claim{{Kind: Token, Value: one.name}}, How: how(Token, one.name), Until: one.until,
	}, true, nil
}

// expired returns the *ProofError of a token that was valid.
func expired(what string, at time.Time, remedy string) error {
	return &ProofError{Expired, fmt.Sprintf("the %s expired at %s; %s", what, at.UTC().Format(time.RFC3339), remedy)}
}
