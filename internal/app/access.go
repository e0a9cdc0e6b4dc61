package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/server/access"
)

// accessRules are what one reading of the access file and of the files that it names gave. They do not change
// afterwards.
type accessRules struct {
	config *access.Config
	tokens *access.Tokens
	jwt    *access.IssuerConfig // nil: JWTs are not taken
	issuer *access.Issuer       // of jwt; nil if there is none, or something is wrong
	files  map[string]string    // what was read, by path; also if something is wrong with it
}

// maxAccessFile is the largest file of access rules that is read, in bytes.
const maxAccessFile = 4 << 20

// read reads a file, and remembers its text even where the error says that it is too large: changed compares with it.
func (r *accessRules) read(path string) (string, error) {
	text, err := readBounded(path)
	r.files[path] = text
	return text, err
}

// readBounded reads at most maxAccessFile bytes, so that a path such as /dev/zero does not fill the memory. The error
// has the whole path.
func readBounded(path string) (string, error) {
	file, err := os.Open(config.Absolute(path))
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxAccessFile+1))
	if err == nil && len(data) > maxAccessFile {
		err = fmt.Errorf("%s: the file is larger than %d bytes, the most that is read", path, maxAccessFile)
	}
	return string(data), err
}

// readAccess reads an access file and the files that it names. The error joins everything that is wrong. The rules are
// then good for nothing but changed, which says when to read again.
func readAccess(path string) (*accessRules, error) {
	r := &accessRules{files: map[string]string{}, tokens: &access.Tokens{}}
	text, err := r.read(path)
	if err != nil {
		return r, fmt.Errorf("--access: %w", err)
	}
	var f accessFile
	// The values are checked within Decode, so that their faults have lines.
	err = config.Decode(path, []byte(text), &f, func() (faults config.Faults) {
		r.config, faults = f.check()
		return faults
	})
	errs := []error{err}
	// Names are relative to the access file, and not to the directory in which the server was started.
	beside := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(path), name)
	}
	// It is read even if the access file is faulty: all faults are reported together, and its changes are noticed.
	if f.Tokens != "" {
		errs = append(errs, r.readTokens(path, beside(f.Tokens)))
	}
	if f.JWT != nil {
		r.jwt = &access.IssuerConfig{URL: f.JWT.Issuer, Audience: f.JWT.Audience, Groups: f.JWT.Groups}
		// Most issuers use this claim.
		if r.jwt.Groups == "" {
			r.jwt.Groups = "groups"
		}
		switch {
		case strings.Contains(f.JWT.JWKS, "://"):
			r.jwt.KeysURL = f.JWT.JWKS
		// A file of keys is followed as the other files are.
		case f.JWT.JWKS != "":
			keys, err := r.read(beside(f.JWT.JWKS))
			r.jwt.Keys = []byte(keys)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: jwt.jwks: %w", path, err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil || r.jwt == nil {
		return r, err
	}
	if r.issuer, err = access.NewIssuer(*r.jwt); err != nil {
		return r, fmt.Errorf("%s: jwt.jwks: %w", path, err)
	}
	return r, nil
}

// readTokens puts the path before each fault of the tokens file, because the access file, from, may name any.
func (r *accessRules) readTokens(from, path string) error {
	text, err := r.read(path)
	if err != nil {
		return fmt.Errorf("%s: tokens: %w; make the file, with the lines that `weft token NAME` prints", from, err)
	}
	var faults []error
	r.tokens, faults = access.ParseTokens(text)
	for i, fault := range faults {
		faults[i] = fmt.Errorf("%s: %w", path, fault)
	}
	return errors.Join(faults...)
}

// changed reports whether the files differ from what was read, and what they are now.
func (r *accessRules) changed() (now map[string]string, is bool) {
	now = map[string]string{}
	for path, text := range r.files {
		// A file that cannot be read counts as empty, so that its return is a change, too.
		now[path], _ = readBounded(path)
		is = is || now[path] != text
	}
	return now, is
}

// anonymous returns the identity of callers without a token or certificate; "" if such callers have no identity.
func (r *accessRules) anonymous() string {
	if id := access.NewPolicy(r.config, nil, time.Time{}).Identify(nil); id != nil {
		return id.Name
	}
	return ""
}

// keepClosed returns an error if the rules give callers without a token or certificate an identity although addresses,
// which are by setting, must not serve them.
func (r *accessRules) keepClosed(path string, addresses map[string]string) error {
	identity := r.anonymous()
	if identity == "" || len(addresses) == 0 {
		return nil
	}
	return fmt.Errorf("--access %s: callers who prove nothing are the identity %s, and %s is reached from other "+
		"machines; take \"anonymous\" out of its callers, listen on 127.0.0.1 or unix:/PATH, or set insecure to serve "+
		"whoever comes",
		path, identity, strings.Join(slices.Sorted(maps.Values(addresses)), ", "))
}

// authorizer has access control follow an access file. Once run has begun, only run uses rules and kept; readAgain may
// be called from anywhere.
type authorizer struct {
	path string
	// closed are the addresses, by setting, that must not serve callers without a token or certificate; none: any may.
	closed  map[string]string
	control *access.Control
	log     *slog.Logger
	rules   *accessRules // those of the latest reading, faulty or not
	kept    *accessRules // those in force
	again   chan struct{}
	every   time.Duration // between two looks at the files
}

// lookEvery is how often the files are read and compared. They are small, so that this is cheap. Notifications of the
// file system may not come on network file systems, or where a mounted directory is exchanged, as Kubernetes does.
const lookEvery = time.Second

// newAuthorizer returns one that follows the rules.
func newAuthorizer(path string, rules *accessRules, control *access.Control, log *slog.Logger) *authorizer {
	// One wish to read again is enough, however many hangups it stands for: hence the capacity of 1.
	p := &authorizer{
		path: path, control: control, log: log, rules: rules, again: make(chan struct{}, 1), every: lookEvery,
	}
	p.follow(rules)
	return p
}

// follow puts rules without faults in force. Requests that were authorized before go on.
func (a *authorizer) follow(r *accessRules) {
	if a.kept != nil && a.kept.jwt != nil && r.jwt != nil && a.kept.jwt.Equal(r.jwt) {
		r.issuer = a.kept.issuer // it remembers what it has verified
	}
	a.kept = r
	// The new policy takes over what identities have used of their quotas.
	policy := access.NewPolicy(r.config, a.control.Policy(), time.Now())
	a.control.Follow(policy, &access.Prover{Tokens: r.tokens, Issuer: r.issuer})
	a.log.Info("access rules in force", "event", "access_in_force", "access", a.path,
		"identities", policy.Identities(), "tokens", r.tokens.Len())
}

// reload reads the files again. Faulty ones leave the rules in force as they are, and are logged once: a.rules becomes
// the faulty reading, so that look sees no further change in it.
func (a *authorizer) reload() {
	rules, err := readAccess(a.path)
	a.rules = rules
	if err == nil {
		// Rules that a start would refuse are refused here, too.
		err = rules.keepClosed(a.path, a.closed)
	}
	if err != nil {
		a.log.Error("access file rejected", "event", "access_rejected", "access", a.path,
			"kept", "previous access rules", "cause", err)
		return
	}
	a.follow(rules)
}

// readAgain has run read the files again now, changed or not. It does not block.
func (a *authorizer) readAgain() {
	select {
	case a.again <- struct{}{}:
	default:
	}
}

// run follows the files until ctx ends. Only files that stay the same for two looks are read: others may be half
// written.
func (a *authorizer) run(ctx context.Context) error {
	look := time.NewTicker(a.every)
	defer look.Stop()
	var before map[string]string
	for {
		select {
		case <-ctx.Done():
			return nil
		// A reload that was asked for does not wait for two equal looks.
		case <-a.again:
			a.reload()
			before = nil
		case <-look.C:
			before = a.look(before)
		}
	}
}

// look compares the files with the latest reading, and reads them again if they differ from it and are the same as at
// the look before. It returns their texts, which are before at the next look.
func (a *authorizer) look(before map[string]string) map[string]string {
	now, changed := a.rules.changed()
	if changed && maps.Equal(now, before) {
		a.reload()
	}
	return now
}

// readAccess reads the access file, if there is one.
func (s *assembly) readAccess(context.Context) (err error) {
	if s.Access == "" {
		return nil
	}
	if s.rules, err = readAccess(s.Access); err != nil {
		return err
	}
	return s.rules.keepClosed(s.Access, s.closed())
}

// closed returns the addresses that must not serve callers without a token or certificate: the ones that other machines
// reach, unless insecure is set or every caller must show a certificate.
func (s *assembly) closed() map[string]string {
	if s.Insecure || s.Identified() {
		return nil
	}
	return s.Beyond()
}

// openAccess makes the access control that every call passes. Without an access file it lets everybody do everything.
func (s *assembly) openAccess() {
	s.control = &access.Control{Observer: s.measured, Logger: s.log}
	if s.rules != nil {
		s.authorizer = newAuthorizer(s.Access, s.rules, s.control, s.log)
		s.authorizer.closed = s.closed()
		s.group.Start(untilStopped("access rules", s.authorizer.run))
	}
}

// Token makes a token. It writes the token alone to out, so that a file can take it, and its line for the tokens file
// to notes. The line has only the hash of the token, so that the token is shown this once.
func Token(name string, out, notes io.Writer) error {
	// config.Faults gives it the exit status of a wrong command line.
	if err := access.CheckTokenName(name); err != nil {
		return config.Faults{{Key: "<name>", Message: err.Error()}}
	}
	token, line := access.NewToken(name)
	if _, err := fmt.Fprintln(out, token); err != nil {
		return err
	}
	_, err := fmt.Fprintf(notes, "The token is for its owner only, and is not shown again. Its line for the tokens file, "+
		"optionally followed by \"expires 2030-01-31T00:00:00Z\":\n%s\n", line)
	return err
}
