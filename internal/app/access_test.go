package app

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/weftest"
	"github.com/weftserve/weft/server/access"
)

// write writes a file of a folder at once, as editors and ConfigMaps do, and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

const teams = `
tokens: tokens.txt
roles:
  pilot:    {predict: [walker]}
  operator: {predict: ["*"], observe: ["*"], operate: ["*"]}
identities:
  - {name: pilots, callers: ["token:pilot-*"], roles: [pilot]}
  - name: staff
    callers: ["token:ada"]
    roles: [operator]
    weight: 2
    quota: {requests-in-flight: 64, bytes-in-flight: 64MiB, rate: 1000, burst: 200, max-priority: critical}
`

// TestFaultyAccessFiles: each fault has a line and a key, and says what is expected.
func TestFaultyAccessFiles(t *testing.T) {
	const who = "  - {name: a, callers: [\"token:a\"], roles: [all]}\n"
	const good = "tokens: tokens.txt\nroles: {all: {predict: [\"*\"]}}\nidentities:\n" + who
	_, line := access.NewToken("a")
	for name, tt := range map[string]struct{ old, now, want string }{
		"good":                {"", "", ""},
		"unknown key":         {"identities:", "identitys:", "access.yaml:3:1: identitys: unknown key; did you mean \"identities\"?"},
		"nobody":              {"identities:\n" + who, "", "identities: the list is empty"},
		"name":                {"name: a", "name: a b", `access.yaml:4:6: identities[0].name: "a b" is no name`},
		"two of a name":       {"identities:\n", "identities:\n  - {name: a, callers: [\"token:b\"]}\n", "identities[1].name: an identity before it is named a already"},
		"no callers":          {`callers: ["token:a"], `, "", "access.yaml:4:5: identities[0].callers: nobody can be this identity"},
		"caller":              {"token:a", "user:a", `access.yaml:4:25: identities[0].callers[0]: "user:a" names no callers; expected spiffe://ID`},
		"token without file":  {"tokens: tokens.txt\n", "", "identities[0].callers[0]: no token is taken; expected the key tokens"},
		"jwt without issuer":  {"token:a", "group:a", "identities[0].callers[0]: no JWT is taken; expected the key jwt"},
		"role":                {"roles: [all]", "roles: [al]", `identities[0].roles[0]: "al" is none of the roles`},
		"model":               {`["*"]`, `["*", "a b"]`, `roles.all.predict[1]: "a b" names no models`},
		"weight":              {"name: a", "name: a, weight: -1", "identities[0].weight: -1 is out of range"},
		"weight is no number": {"name: a", "name: a, weight: much", "identities[0].weight: expected a number"},
		"quota":               {"name: a", "name: a, quota: {requests-in-flight: -1}", "identities[0].quota.requests-in-flight: -1 is out of range"},
		"burst alone":         {"name: a", "name: a, quota: {burst: 1}", "identities[0].quota.burst: there is no rate"},
		"priority":            {"name: a", "name: a, quota: {max-priority: high}", "identities[0].quota.max-priority: expected one of critical-plus"},
		"after everybody":     {"identities:\n", "identities:\n  - {name: all, callers: [anonymous]}\n", "identities[1]: nobody can be this identity, because all before it takes anonymous"},
		"issuer":              {"tokens:", "jwt: {issuer: \"http://example.org\", audience: a}\ntokens:", `jwt.issuer: "http://example.org" is no safe URL; expected https://`},
		"audience":            {"tokens:", "jwt: {issuer: \"https://example.org\"}\ntokens:", "jwt.audience: no audience"},
		"keys":                {"tokens:", "jwt: {issuer: \"https://example.org\", audience: a, jwks: tokens.txt}\ntokens:", "jwt.jwks: no JWKS"},
		"no keys":             {"tokens:", "jwt: {issuer: \"https://example.org\", audience: a, jwks: keys.json}\ntokens:", "access.yaml: jwt.jwks: open /"},
		"keys of a bad URL":   {"tokens:", "jwt: {issuer: \"https://example.org\", audience: a, jwks: \"http://a/b\"}\ntokens:", "jwt.jwks: \"http://a/b\" is no safe URL"},
		"no tokens file":      {"tokens.txt", "other.txt", "other.txt: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokens.txt", line)
			_, err := readAccess(write(t, dir, "access.yaml", strings.Replace(good, tt.old, tt.now, 1)))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v\nwant %s", err, tt.want)
			}
		})
	}
	dir := t.TempDir()
	write(t, dir, "tokens.txt", line+"\nb weft_abc\n")
	if _, err := readAccess(write(t, dir, "access.yaml", good)); err == nil || !strings.Contains(err.Error(),
		"tokens.txt: line 2: the second word is no SHA-256") {
		t.Error(err)
	}
}

// TestAnonymousFromAfar: an access file that lets anybody in opens no address to other machines by itself, neither at
// the start nor later.
func TestAnonymousFromAfar(t *testing.T) {
	const anybody = "roles: {all: {operate: [\"*\"]}}\nidentities:\n  - {name: all, callers: [anonymous], roles: [all]}\n"
	path := write(t, t.TempDir(), "access.yaml", anybody)
	for name, c := range map[string]struct {
		settings config.Server
		refused  bool
	}{
		"from afar":     {config.Server{Listen: "0.0.0.0:0", TLSCert: "cert.pem"}, true},
		"admin":         {config.Server{Listen: "localhost:0", AdminListen: ":0", TLSCert: "cert.pem"}, true},
		"by name":       {config.Server{Listen: "0.0.0.0:0", Insecure: true}, false},
		"with a cert":   {config.Server{Listen: "0.0.0.0:0", TLSDev: true, TLSClientAuth: config.ClientAuthRequire}, false},
		"on loopback":   {config.Server{Listen: "localhost:0"}, false},
		"on its socket": {config.Server{Listen: "unix:/run/weft.sock"}, false},
	} {
		c.settings.Access = path
		s := &assembly{App: &App{Settings: Settings{Server: c.settings}}}
		if err := s.readAccess(t.Context()); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		var log weftest.Log
		p := newAuthorizer(path, s.rules, &access.Control{}, slog.New(&log))
		p.closed = s.closed()
		p.reload()
		if lines := log.Event("access_rejected"); (len(lines) > 0) != c.refused {
			t.Errorf("%s: a change is refused with %v", name, lines)
		}
	}
}

// TestMadeUpAccessFiles: whatever the bytes are, reading ends with rules or with an error.
func TestMadeUpAccessFiles(t *testing.T) {
	dir := t.TempDir()
	_, line := access.NewToken("ada")
	write(t, dir, "tokens.txt", line)
	read := 0
	for seed := range 300 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		text := []byte(teams)
		for range r.IntN(4) {
			at := r.IntN(len(text))
			switch r.IntN(3) {
			case 0:
				text[at] = byte(r.IntN(256))
			case 1:
				text = slices.Delete(text, at, min(len(text), at+r.IntN(20)))
			default:
				text = slices.Insert(text, at, text[r.IntN(len(text)):][:1]...)
			}
		}
		rules, err := readAccess(write(t, dir, "access.yaml", string(text)))
		if err == nil {
			access.NewPolicy(rules.config, nil, time.Now()).Identify(nil)
			read++
		}
	}
	if read < 30 || read == 300 {
		t.Errorf("%d of 300 files could be read", read)
	}
}

// TestAccessFilesAreFollowed: a change of any of the files is in force soon, a faulty one changes nothing, and a
// hang-up has them read at once.
func TestAccessFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	_, first := access.NewToken("ada")
	_, more := access.NewToken("pilot-1")
	tokens := write(t, dir, "tokens.txt", first)
	path := write(t, dir, "access.yaml", teams)
	rules, err := readAccess(path)
	if err != nil {
		t.Fatal(err)
	}
	var log weftest.Log
	control := &access.Control{}
	p := newAuthorizer(path, rules, control, slog.New(&log))
	p.every = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	inForce := func(n int) {
		t.Helper()
		weftest.Until(t, fmt.Sprintf("rules are in force %d times", n), func() bool {
			return len(log.Event("access_in_force")) == n
		})
	}
	inForce(1)
	write(t, dir, "tokens.txt", first+"\n"+more)
	inForce(2)
	if got := weftest.Attr(log.Event("access_in_force")[1], "tokens").Int64(); got != 2 {
		t.Errorf("%d tokens", got)
	}
	before := control.Policy()
	write(t, dir, "access.yaml", strings.Replace(teams, "name: staff", "nme: staff", 1))
	weftest.Until(t, "the file is rejected", func() bool { return len(log.Event("access_rejected")) == 1 })
	if control.Policy() != before {
		t.Error("a faulty file changes the rules")
	}
	write(t, dir, "access.yaml", strings.Replace(teams, "name: staff", "name: crew", 1))
	inForce(3)
	if got := control.Policy().Identities(); !slices.Equal(got, []string{"pilots", "crew"}) {
		t.Errorf("the identities are %q", got)
	}
	p.readAgain()
	inForce(4)
	if err := os.Remove(tokens); err != nil {
		t.Fatal(err)
	}
	weftest.Until(t, "the missing file is noticed", func() bool { return len(log.Event("access_rejected")) == 2 })
	write(t, dir, "tokens.txt", first)
	inForce(5)
}

// TestHalfWrittenAccessFiles are not read, although they have no fault.
func TestHalfWrittenAccessFiles(t *testing.T) {
	dir := t.TempDir()
	_, line := access.NewToken("ada")
	write(t, dir, "tokens.txt", line)
	path := write(t, dir, "access.yaml", teams)
	rules, err := readAccess(path)
	if err != nil {
		t.Fatal(err)
	}
	var log weftest.Log
	p := newAuthorizer(path, rules, &access.Control{}, slog.New(&log))
	first := p.control.Policy()
	half := strings.Replace(teams, "operate: [\"*\"]", "", 1)
	whole := strings.Replace(teams, "name: staff", "name: crew", 1)
	at := p.look(nil)
	for _, text := range []string{half, whole, whole} {
		if at = p.look(at); p.control.Policy() != first {
			t.Fatal("a file was read that may be half written")
		}
		write(t, dir, "access.yaml", text)
	}
	at = p.look(at)
	if p.look(at); p.control.Policy() == first || len(log.Event("access_in_force")) != 2 {
		t.Errorf("the whole file was not read once: %v", log.Lines("access"))
	}
}

func TestTokenIsPrintedOnce(t *testing.T) {
	var out, notes strings.Builder
	if err := Token("fleet-7", &out, &notes); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(notes.String()), "\n")
	tokens, faults := access.ParseTokens(lines[len(lines)-1])
	if faults != nil {
		t.Fatal(faults)
	}
	p, token := &access.Prover{Tokens: tokens}, strings.TrimSuffix(out.String(), "\n")
	proof, err := p.Prove(t.Context(), token, access.Hash(token), time.Now())
	if err != nil || proof.How != "token:fleet-7" {
		t.Errorf("%v, %v of\n%s", proof, err, out.String())
	}
	if err := Token("a b", &out, &notes); err == nil {
		t.Error("a name with a space is one")
	}
}
