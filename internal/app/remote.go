package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/weftserve/weft/internal/lifecycle"
)

// Mirror is a directory that follows a repository elsewhere.
type Mirror interface {
	Dir() string
	// Refresh has it follow now, and returns how soon it must be called again; 0: as usual.
	Refresh(ctx context.Context) time.Duration
}

// OpenMirror copies a repository that a URL names to a folder in the cache.
type OpenMirror func(ctx context.Context, url string, s *Settings, cache string, log *slog.Logger) (Mirror, error)

var remoteURL = regexp.MustCompile(`^(s3|gs|azblob|oci)://`)

// copyRemote copies the repositories that lie elsewhere. It returns when what can be served is there.
func (s *Settings) copyRemote(ctx context.Context, log *slog.Logger) error {
	s.mirrors = map[string]Mirror{}
	for _, at := range s.Repositories {
		if !remoteURL.MatchString(at) {
			continue
		}
		if s.OpenMirror == nil {
			return fmt.Errorf("%s: this program is built without buckets and registries; build one with `go build -tags cloud "+
				"./cmd/weft` (docs/how-to/remote-repositories.md), or serve a directory", remoteURL.FindString(at))
		}
		cache := s.Cache
		if cache == "auto" {
			user, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("there is no place for copies of repositories: %w; name a directory with --cache", err)
			}
			cache = filepath.Join(user, "weft")
		}
		cache, err := filepath.Abs(cache)
		if err == nil {
			s.mirrors[at], err = s.OpenMirror(ctx, at, s, cache, log)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// local names the directories of repositories that lie elsewhere.
func (s *Settings) local(repositories []string) []string {
	repositories = slices.Clone(repositories)
	for i, at := range repositories {
		if m := s.mirrors[at]; m != nil {
			repositories[i] = m.Dir()
		}
	}
	return repositories
}

var errSealElsewhere = errors.New("only directories can be sealed: seal the directory that is copied to there")

// mirrorPart has mirrors follow their sources at an interval (0: never), and whenever ask has a new one. Each time it
// passes the interval on when they did, since the watch may look by itself at other times, or never.
func mirrorPart(mirrors map[string]Mirror, interval time.Duration, ask <-chan time.Duration, on chan<- time.Duration,
) lifecycle.Part {
	return untilStopped("mirrors of repositories", func(ctx context.Context) error {
		for wait := interval; ; {
			var due <-chan time.Time
			if wait > 0 {
				due = time.After(wait)
			}
			select {
			case <-ctx.Done():
				return nil
			case interval = <-ask:
			case <-due:
			}
			wait = interval
			for _, m := range mirrors {
				if soon := m.Refresh(ctx); soon > 0 && (wait == 0 || soon < wait) {
					wait = soon
				}
			}
			select {
			case on <- interval:
			case <-ctx.Done():
			}
		}
	})
}
