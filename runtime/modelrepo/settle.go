package modelrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// ErrCopying marks a model or a version that changed a moment ago, so that it may not be complete yet. It comes again,
// without this error, in a later listing; a version of that number that is loaded already need not be given up for it.
var ErrCopying = errors.New("still being copied")

// settling decides which manifests, models and versions are complete: the ones that looked the same in every scan for a
// while. Until then it answers with their last complete state. It is kept from scan to scan by one goroutine.
type settling struct {
	quiet  time.Duration // 0: everything is complete at once
	later  time.Duration // the same for versions that came or changed after the first scan
	begun  time.Time     // the first scan
	models map[string]*settledModel
	seen   map[string]sighting
	// pipelines whose steps were all there, by directory
	pipelines map[string]resolved
	listed    listedFile // the zero value: nothing is known of it
	// complete reports whether something that has this mark was written by this server, as a whole; nil: nothing was.
	complete func(what, mark string) bool

	// Of the scan in progress.
	now  time.Time
	next time.Time         // when the first thing that is not quiet yet will have been; zero: all is quiet
	dirs map[string]string // the directories that were read, by absolute path, and which ones they were
}

// settledModel is the complete part of a model directory.
type settledModel struct {
	repository string
	listed     Model // as it was in the listing before
	head       head
	headKnown  bool
	versions   map[int64]Version
}

// sighting is how something has looked since when.
type sighting struct {
	mark        string
	since, last time.Time
}

func newSettling(quiet, later time.Duration) *settling {
	return &settling{
		quiet: quiet, later: later, models: map[string]*settledModel{}, seen: map[string]sighting{},
		pipelines: map[string]resolved{}, dirs: map[string]string{},
	}
}

// begin starts a scan.
func (s *settling) begin(now time.Time) {
	s.now, s.next, s.dirs = now, time.Time{}, map[string]string{}
	if s.begun.IsZero() {
		s.begun = now
	}
}

// end finishes a scan: entries that it did not look at are forgotten.
func (s *settling) end() {
	for what, seen := range s.seen {
		if !seen.last.Equal(s.now) {
			delete(s.seen, what)
		}
	}
}

// enter notes that a directory is read, which lies at path.
func (s *settling) enter(path string, info fs.FileInfo) { s.dirs[path] = identity(info) }

// settled reports whether something has long enough had the mark that it has now.
func (s *settling) settled(what, mark string) bool { return s.settledFor(s.quiet, what, mark) }

// filled is settled for a version's files. Programs that write to them in place pause: files that came or changed since
// the first scan must be quiet for longer.
func (s *settling) filled(dir, mark string) bool {
	quiet := s.quiet
	if seen, ok := s.seen[dir]; !ok && !s.now.Equal(s.begun) || ok && (seen.mark != mark || seen.since.After(s.begun)) {
		quiet = max(quiet, s.later)
	}
	return s.settledFor(quiet, dir, mark)
}

func (s *settling) settledFor(quiet time.Duration, what, mark string) bool {
	seen, ok := s.seen[what]
	if !ok || seen.mark != mark {
		seen = sighting{mark: mark, since: s.now}
		if s.complete != nil && s.complete(what, mark) {
			seen.since = s.now.Add(-quiet)
		}
	}
	seen.last = s.now
	s.seen[what] = seen
	due := seen.since.Add(quiet)
	if !s.now.Before(due) {
		return true
	}
	s.lookAt(due)
	return false
}

// lookAt asks for a scan at a time.
func (s *settling) lookAt(due time.Time) {
	if s.next.IsZero() || due.Before(s.next) {
		s.next = due
	}
}

// absent is the mark of an entry that was there before.
const absent = "absent"

// model returns the complete part of a directory.
func (s *settling) model(repository, dir string) *settledModel {
	m, ok := s.models[dir]
	if !ok {
		m = &settledModel{repository: repository, versions: map[int64]Version{}}
		s.models[dir] = m
	}
	return m
}

// missed returns the models of a repository that were listed before and are not among those found now. gone says that
// they were looked for and are not there, so that they are dropped after a while; else they are kept.
func (s *settling) missed(repository string, found []Model, gone func(dir string) bool) []Model {
	here := map[string]bool{}
	for _, m := range found {
		here[m.Dir] = true
	}
	var kept []Model
	for dir, m := range s.models {
		switch {
		case m.repository != repository || here[dir]:
		case gone(dir) && s.settled(dir, absent):
			delete(s.models, dir)
		default:
			kept = append(kept, m.listed)
		}
	}
	return kept
}

// copying says why something is not taken yet.
func (s *settling) copying(path string) error {
	return fmt.Errorf("%s is %w: it changed within the last %v, and is looked at again when that is over", path,
		ErrCopying, s.quiet)
}
