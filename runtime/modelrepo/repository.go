// Package modelrepo reads and watches model repositories on disk: names, versions and manifests; it loads nothing.
package modelrepo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// ModelFile is the name of an ONNX model in its version directory.
const ModelFile = "model.onnx"

const layout = "expected <model>/<version>/" + ModelFile + " and, if wanted, <model>/" + ManifestName

// ErrNoRepository marks a repository path that cannot be one.
var ErrNoRepository = errors.New("not a model repository")

// Repository is directories of models, and models that a file lists. It is safe for concurrent use.
type Repository struct {
	file     string            // the model config file, absolute; "": there is none
	paths    []string          // absolute, as given otherwise: a symbolic link is followed again in each scan
	stores   []string          // see LinkInto
	reserved map[string]string // see Reserve: why, by directory
	renamed  string            // see Rename; "": none are
	divide   func(*Listing)

	mu sync.Mutex
	// held is which directory each path led to when models were last found there. Guarded by mu.
	held map[string]fs.FileInfo
	// complete is what Receive has put there, by absolute path, and how it looks. Guarded by mu.
	complete map[string]string
	// awaited are the calls of Looked that no scan has begun for yet. Guarded by mu.
	awaited []chan struct{}

	looks        chan struct{} // has Watch look at once; capacity 1
	mostUploaded int64         // see AcceptUploads
	needs        func(model io.ReaderAt, size int64) ([]string, error)
	sums         func(Version) ([]byte, error)
	free         func(*os.File) (bytes int64, known bool) // rooted.Free, or of a test

	// uploading is held while an upload begins, gets its place, or ends. It comes before mu.
	uploading sync.Mutex
	uploads   int // under way; guarded by uploading
}

// Open names the directories of a repository and checks that they are directories; it reads no model yet.
// The error is ErrNoRepository, wrapped.
func Open(paths ...string) (*Repository, error) { return OpenListed("", paths...) }

// OpenListed is Open of a repository that also has the models of a model config file of TensorFlow Serving's, which may
// lie anywhere; "": there is no such file. With one there need be no directories.
func OpenListed(file string, paths ...string) (*Repository, error) {
	if len(paths) == 0 && file == "" {
		return nil, fmt.Errorf("%w: no directory was named; %s", ErrNoRepository, layout)
	}
	r := &Repository{
		held: map[string]fs.FileInfo{}, complete: map[string]string{}, looks: make(chan struct{}, 1),
		free: rooted.Free, reserved: map[string]string{},
	}
	var faults []error
	if file != "" {
		var err error
		if r.file, err = filepath.Abs(file); err != nil {
			faults = append(faults, err)
		}
	}
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err == nil {
			err = isDirectory(abs)
		}
		if err == nil && slices.Contains(r.paths, abs) {
			err = fmt.Errorf("%w: %s is named twice; name it once", ErrNoRepository, abs)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		r.paths = append(r.paths, abs)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return r, nil
}

// LinkInto lets symbolic links in the repository lead to directories outside it. It is called before Scan and Watch.
func (r *Repository) LinkInto(stores ...string) error {
	for _, store := range stores {
		if info, err := os.Stat(store); err != nil || !info.IsDir() {
			return fmt.Errorf("model store %s is no directory that can be read (%w); name one that links in the "+
				"repositories lead to (--model-stores)", config.Absolute(store), cmp.Or(err, error(syscall.ENOTDIR)))
		}
	}
	r.stores = stores
	return nil
}

// Divide has each listing go through divide, from any goroutine, which says what is elsewhere. It is called before Scan
// and Watch.
func (r *Repository) Divide(divide func(*Listing)) { r.divide = divide }

func isDirectory(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist; %s in it", ErrNoRepository, path, layout)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNoRepository, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is a file; name the directory that holds <model>/<version>/%s", ErrNoRepository, path,
			ModelFile)
	}
	return nil
}

// Scan reads the directories as they are now. A fault of one model never hides another model: faults are in the
// listing, each at the innermost thing that it harms.
//
// A directory without a model is a fault, ErrNoRepository: a file system that was to be mounted there may be missing.
// It is no fault where models were found in the very same directory before, for then they were removed.
//
// Everything is read through an os.Root per directory, so that neither a name nor a symbolic link reaches anything
// outside. The paths in the listing are for an engine that opens files itself: a user who may write to the repository
// can still change the files there before the engine opens them.
func (r *Repository) Scan() Listing { return r.scan(newSettling(0, 0)) }

func (r *Repository) scan(s *settling) Listing {
	s.begin(time.Now())
	defer s.end()
	var l Listing
	for _, path := range r.paths {
		models, faults := r.scanRoot(s, path)
		l.Models = append(l.Models, models...)
		l.Faults = append(l.Faults, faults...)
	}
	if r.file != "" {
		models, faults := r.scanListed(s)
		l.Models = append(l.Models, models...)
		l.Faults = append(l.Faults, faults...)
	}
	// Stable: of two models with one name the one in the earlier directory comes first.
	slices.SortStableFunc(l.Models, func(a, b Model) int { return cmp.Compare(a.Name, b.Name) })
	l.Models = joinNamesakes(l.Models)
	l.resolve(s)
	if r.divide != nil {
		r.divide(&l)
	}
	return l
}

// joinNamesakes leaves one model per name; one that several directories hold cannot be served from either.
func joinNamesakes(models []Model) []Model {
	var joined []Model
	for len(models) > 0 {
		n := 1
		for n < len(models) && models[n].Name == models[0].Name {
			n++
		}
		m := models[0]
		if n > 1 {
			dirs := make([]string, n)
			for i, namesake := range models[:n] {
				dirs[i] = namesake.Dir
			}
			m = Model{Name: m.Name, Dir: m.Dir, Manifest: Defaults(), Err: fmt.Errorf(
				"model %q is in more than one place: %s; rename or remove all but one", m.Name,
				strings.Join(dirs, ", "))}
		}
		joined, models = append(joined, m), models[n:]
	}
	return joined
}

// scanRoot reads the models of one directory. It returns the models that it could read, and the faults.
func (r *Repository) scanRoot(s *settling, path string) (models []Model, faults []error) {
	// A directory that cannot be read says nothing of its content: the models that were there before still count.
	keep := func(string) bool { return false }
	root, err := rooted.Open(path, r.stores)
	if err != nil {
		return s.missed(path, nil, keep), []error{fmt.Errorf("%w: %w", ErrNoRepository, err)}
	}
	defer root.Close()
	// Stray files are left out first: there may be very many.
	entries, err := readDir(root, ".", func(e fs.DirEntry) bool { return !e.Type().IsRegular() })
	if err != nil {
		return s.missed(path, nil, keep), []error{fmt.Errorf("%w: read %s: %w", ErrNoRepository, path, err)}
	}
	itself, err := root.Stat(".")
	if err != nil {
		return s.missed(path, nil, keep), []error{fmt.Errorf("%w: %w", ErrNoRepository, err)}
	}
	s.enter(path, itself)
	unclear := map[string]bool{}
	misnamed := 0
	for _, entry := range entries {
		name := entry.Name()
		info, err := root.Stat(name)
		full := filepath.Join(path, name)
		switch {
		case err == nil && !info.IsDir(), errors.Is(err, fs.ErrNotExist):
			// A link to a file, or to nothing: no model either way.
		case err != nil:
			unclear[full] = true
			faults = append(faults, unreadable(full, err))
		case !ValidName(name):
			if misnamed++; misnamed <= maxOdd {
				faults = append(faults, fmt.Errorf(
					"%s: the directory cannot be a model: a model %s; rename or remove it", full, nameRule))
			}
		default:
			s.enter(full, info)
			models = append(models, scanModel(s, root, source{
				owner: path, repository: path, dir: name, renamed: path == r.renamed,
			}, name))
		}
	}
	if misnamed > maxOdd {
		faults = append(faults, fmt.Errorf("%s: %d more directories cannot be models for their names", path,
			misnamed-maxOdd))
	}
	emptied := r.emptied(path, itself, len(models) > 0)
	models = append(models, s.missed(path, models, func(dir string) bool { return !unclear[dir] })...)
	if len(models) == 0 && len(faults) == 0 && !emptied {
		faults = append(faults, fmt.Errorf("%w: %s holds no model; %s in it%s", ErrNoRepository, path, layout,
			looseModel(root, path)))
	}
	return models, faults
}

// looseModel says where a model file belongs that lies in the repository itself.
func looseModel(root *rooted.Root, path string) string {
	files, err := readDir(root, ".", func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == filepath.Ext(ModelFile) })
	if err != nil || len(files) == 0 {
		return ""
	}
	name := strings.TrimSuffix(files[0].Name(), filepath.Ext(ModelFile))
	return fmt.Sprintf("; move %s to %s", files[0].Name(), filepath.Join(path, name, "1", ModelFile))
}

// emptied reports whether a directory, if there is no model in it now, is one whose models were removed: there were
// some when it was looked at before. Where the path leads to another directory now, or no model was ever seen there, it
// reports false, since nobody can tell.
func (r *Repository) emptied(path string, itself fs.FileInfo, hasModels bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hasModels {
		r.held[path] = itself
	}
	before := r.held[path]
	return before != nil && os.SameFile(before, itself)
}

// maxOdd is how many of the things of a kind that are passed over are reported one by one; the others are counted.
const maxOdd = 10

// unreadable words an error of os.Root for the keeper of the repository.
func unreadable(path string, err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without the path relative to the root
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return fmt.Errorf("%s: %w", path, err)
	}
	// If the system did not refuse it, the root did.
	return fmt.Errorf("%s: %w; a symbolic link must be relative and stay inside the repository, "+
		"or lead to a directory of --model-stores", path, err)
}
