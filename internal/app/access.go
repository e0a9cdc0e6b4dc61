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

// accessRules are those of an access file, and of the files that it names.
type accessRules struct {
	config *access.Config
	tokens *access.Tokens
	jwt    *access.IssuerConfig // nil: JWTs are not taken
	issuer *access.Issuer       // of jwt; nil if there is none, or something is wrong
	files  map[string]string    // what was read, by path; also if something is wrong with it
}

// maxAccessFile is the largest file of access rules that is read, in bytes.
const maxAccessFile = 4 << 20

// read reads a file once.
func (r *accessRules) read(path string) (string, error) {
	text, err := readBounded(path)
	r.files[path] = text
	return text, err
}

func readBounded(path string) (string, error) {
	file, err := os.Open(path)
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

// readAccess reads an access file and the files that it names. The error is everything that is wrong; the rules then
// have their files only.
func readAccess(path string) (*accessRules, error) {
	r := &accessRules{files: map[string]string{}, tokens: &access.Tokens{}}
	text, err := r.read(path)
	if err != nil {
		return r, fmt.Errorf("--access: %w", err)
	}
	var f accessFile
	err = config.Decode(path, []byte(text), &f, func() (faults config.Faults) {
		r.config, faults = f.check()
		return faults
	})
	errs := []error{err}
	beside := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(path), name)
	}
	if f.Tokens != "" {
		errs = append(errs, r.readTokens(beside(f.Tokens)))
	}
	if f.JWT != nil {
		r.jwt = &access.IssuerConfig{URL: f.JWT.Issuer, Audience: f.JWT.Audience, Groups: f.JWT.Groups}
		if r.jwt.Groups == "" {
			r.jwt.Groups = "groups"
		}
		switch {
		case strings.Contains(f.JWT.JWKS, "://"):
			r.jwt.KeysURL = f.JWT.JWKS
		case f.JWT.JWKS != "":
			keys, err := r.read(beside(f.JWT.JWKS))
			r.jwt.Keys = []byte(keys)
			errs = append(errs, err)
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

func (r *accessRules) readTokens(path string) error {
	text, err := r.read(path)
	if err != nil {
		return err
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
		now[path], _ = readBounded(path)
		is = is || now[path] != text
	}
	return now, is
}

// anonymous returns the identity that callers have who prove nothing; "": they have none.
func (r *accessRules) anonymous() string {
	if id := access.NewPolicy(r.config, nil, time.Time{}).Identify(nil); id != nil {
		return id.Name
	}
	return ""
}

// keepClosed returns an error if the rules let anybody in although there are addresses where nobody may be.
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

// porter has a door follow an access file.
type porter struct {
	path string
	// closed are the addresses where nobody is served who proves nothing, by setting; none: anybody may be.
	closed map[string]string
	door   *access.Control
	log    *slog.Logger
	rules  *accessRules // those of the latest reading, faulty or not
	kept   *accessRules // those in force
	again  chan struct{}
	every  time.Duration // between two looks at the files
}

// lookEvery is how often the files are looked at: that is cheap, and knows no file system on which it fails.
const lookEvery = time.Second

// newPorter returns one whose door follows the rules.
func newPorter(path string, rules *accessRules, door *access.Control, log *slog.Logger) *porter {
	p := &porter{
		path: path, door: door, log: log, rules: rules, again: make(chan struct{}, 1), every: lookEvery,
	}
	p.follow(rules)
	return p
}

// follow has the door follow the rules.
func (p *porter) follow(r *accessRules) {
	if p.kept != nil && p.kept.jwt != nil && r.jwt != nil && p.kept.jwt.Equal(r.jwt) {
		r.issuer = p.kept.issuer // it remembers what it has verified
	}
	p.kept = r
	policy := access.NewPolicy(r.config, p.door.Policy(), time.Now())
	p.door.Follow(policy, &access.Prover{Tokens: r.tokens, Issuer: r.issuer})
	p.log.Info("access rules in force", "event", "access_in_force", "access", p.path,
		"identities", policy.Identities(), "tokens", r.tokens.Len())
}

// reload reads the files again. Faulty ones change nothing.
func (p *porter) reload() {
	rules, err := readAccess(p.path)
	p.rules = rules
	if err == nil {
		err = rules.keepClosed(p.path, p.closed)
	}
	if err != nil {
		p.log.Error("access file rejected", "event", "access_rejected", "access", p.path,
			"kept", "previous access rules", "cause", err)
		return
	}
	p.follow(rules)
}

// hurry has the files read again now.
func (p *porter) hurry() {
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// run follows the files until ctx ends. Only files that stay the same for two looks are read: others may be half
// written.
func (p *porter) run(ctx context.Context) error {
	look := time.NewTicker(p.every)
	defer look.Stop()
	var before map[string]string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.again:
			p.reload()
			before = nil
		case <-look.C:
			before = p.look(before)
		}
	}
}

// look looks at the files, and reads them if they have changed and are as they were at the look before. It returns how
// they are.
func (p *porter) look(before map[string]string) map[string]string {
	now, changed := p.rules.changed()
	if changed && maps.Equal(now, before) {
		p.reload()
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

// closed returns the addresses where nobody is served who proves nothing, unless the settings say otherwise.
func (s *assembly) closed() map[string]string {
	if s.Insecure || s.Identified() {
		return nil
	}
	return s.Beyond()
}

// openDoor makes the door that calls come in by.
func (s *assembly) openDoor() {
	s.door = &access.Control{Observer: s.measured, Logger: s.log}
	if s.rules != nil {
		s.porter = newPorter(s.Access, s.rules, s.door, s.log)
		s.porter.closed = s.closed()
		s.group.Start(untilStopped("access rules", s.porter.run))
	}
}
