package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
)

// sealQuiet is how long the files of a version must not change before they count as complete. It is what a server waits
// at its start (modelrepo.WatchConfig.Settle).
const sealQuiet = time.Second

// Seal writes the SHA256SUMS of every version that has files in the paths, which are repositories or directories of
// models or versions in one. It lists on out what it wrote. It refuses a version whose files change meanwhile. It also
// refuses to overwrite a list that differs from the files, since these may be damaged, unless replace is set. A fault
// of one version keeps no other from being sealed; the error joins them.
//
// The order matters: the fingerprints are taken before the files are read, and again sealQuiet later. Equal ones prove
// that what was read is what is there.
func Seal(ctx context.Context, paths []string, replace bool, stores []string, out io.Writer) error {
	s := sealer{replace: replace, stores: stores, out: out}
	repositories, err := s.choose(paths)
	if err != nil {
		return err
	}
	repository, err := modelrepo.Open(repositories...)
	if err == nil {
		err = repository.LinkInto(stores...)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	before := repository.Scan()
	var faults []error
	// Faults of a repository count only if it was named itself, and not if it only holds a model that was named.
	if slices.ContainsFunc(repositories, func(path string) bool { return slices.Contains(s.paths, path) }) {
		faults = append(faults, before.Faults...)
	}
	found := s.filed(&before)
	for _, path := range s.paths {
		if !slices.ContainsFunc(found, func(v modelrepo.Version) bool { return overlap(v.Dir, path) }) {
			faults = append(faults, fmt.Errorf("%s has no version to seal; name a repository of <model>/<version>/%s or %s, or "+
				"a model's or a version's directory in one", path, modelrepo.ModelFile, modelrepo.PipelineFile))
		}
	}
	lists := map[string]digestList{}
	for _, v := range found {
		err := v.Err
		if err == nil {
			lists[v.Dir], err = sumsOf(ctx, v, s.stores)
		}
		faults = append(faults, err)
	}
	select {
	// Reading has taken a part of the time already.
	case <-time.After(sealQuiet - time.Since(began)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after := repository.Scan()
	for _, v := range s.filed(&after) {
		switch list, known := lists[v.Dir]; {
		case !known || list.text == nil: // it was refused above, or has come since
		case v.Fingerprint != s.fingerprintOf(&before, v.Dir):
			faults = append(faults, fmt.Errorf("%s %w; seal it when it is complete", v.Dir, modelfile.ErrChanged))
		default:
			faults = append(faults, s.write(v.Dir, list))
		}
	}
	return errors.Join(faults...)
}

// sealer has the arguments of Seal. stores are directories outside of the repositories into which links may lead.
type sealer struct {
	paths   []string // absolute
	replace bool
	stores  []string
	out     io.Writer
}

// digestList is the SHA256SUMS that a version's files require, and how the list that is there differs from it.
type digestList struct {
	text        []byte
	differences []string
}

// choose notes the absolute paths, and returns the repositories that they are, or lie in. The files tell which: a
// version's are one level below it, two below a model and three below a repository, and an ensemble's lies beside them.
func (s *sealer) choose(paths []string) (repositories []string, err error) {
	for _, path := range paths {
		if remoteURL.MatchString(path) {
			return nil, fmt.Errorf("%s: %w", remoteURL.FindString(path), errSealElsewhere)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		repository := path
		// Versions are numbers without leading zeros.
		if has(path, "[1-9]*/"+modelrepo.ModelFile, "[1-9]*/"+modelrepo.PipelineFile, modelrepo.TritonConfigName) {
			repository = filepath.Dir(path)
		}
		if has(path, modelrepo.ModelFile, modelrepo.PipelineFile) || has(filepath.Dir(path), modelrepo.TritonConfigName) {
			repository = filepath.Dir(filepath.Dir(path))
		}
		s.paths = append(s.paths, path)
		if !slices.Contains(repositories, repository) {
			repositories = append(repositories, repository)
		}
	}
	return repositories, nil
}

// has reports whether a directory has a file that one of the patterns matches.
func has(dir string, patterns ...string) bool {
	dir = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are right
		return len(found) > 0
	})
}

// overlap reports whether two absolute paths are equal, or one lies in the other.
func overlap(a, b string) bool {
	return strings.HasPrefix(a+"/", b+"/") || strings.HasPrefix(b+"/", a+"/")
}

// write writes a version's SHA256SUMS and says so. A list that is right already is not touched, so that its time and
// the fingerprint of the version stay.
func (s *sealer) write(dir string, list digestList) error {
	path := filepath.Join(dir, modelfile.SumsName)
	if now, _ := os.ReadFile(path); bytes.Equal(now, list.text) {
		fmt.Fprintf(s.out, "%s is up to date\n", path)
		return nil
	}
	if len(list.differences) > 0 && !s.replace {
		return fmt.Errorf("%s differs from the files, and is left as it is: %s; put the right files there or, if these are "+
			"the right ones, run `weft seal --replace %s`", path, strings.Join(list.differences, "; "), dir)
	}
	if err := modelfile.WriteSums(dir, list.text); err != nil {
		return err
	}
	what := "written"
	if len(list.differences) > 0 {
		what = "replaced"
	}
	fmt.Fprintf(s.out, "%s %s, %d files\n", path, what, bytes.Count(list.text, []byte("\n")))
	for _, difference := range list.differences {
		fmt.Fprintf(s.out, "  before: %s\n", difference)
	}
	return nil
}

// filed returns the versions of a listing that have files and lie in one of the paths. A model whose settings cannot be
// read has one version here, with the reason as its Err.
func (s *sealer) filed(l *modelrepo.Listing) (all []modelrepo.Version) {
	for _, m := range l.Models {
		if m.Err != nil {
			all = append(all, modelrepo.Version{Dir: m.Dir, Err: m.Err})
		}
		for _, v := range m.Versions {
			if v.Path != "" {
				all = append(all, v)
			}
		}
	}
	return slices.DeleteFunc(all, func(v modelrepo.Version) bool {
		return !slices.ContainsFunc(s.paths, func(path string) bool { return overlap(v.Dir, path) })
	})
}

// fingerprintOf returns the fingerprint of the version in a directory; "" if the listing has none there.
func (s *sealer) fingerprintOf(l *modelrepo.Listing, dir string) string {
	for _, v := range s.filed(l) {
		if v.Dir == dir {
			return v.Fingerprint
		}
	}
	return ""
}

// sumsOf reads all files of a version and computes their digests.
func sumsOf(ctx context.Context, v modelrepo.Version, stores []string) (digestList, error) {
	f, err := modelfile.Read(ctx, placeOf(v, stores), nil)
	if err != nil {
		return digestList{}, err
	}
	return digestList{text: f.Sums(), differences: f.Differences()}, f.Close()
}
