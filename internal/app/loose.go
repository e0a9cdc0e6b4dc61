package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/lifecycle"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelfile"
	"github.com/weftserve/weft/runtime/modelrepo"
	"github.com/weftserve/weft/server/web"
)

// looseModel is a model that the command line names itself: a file, or a folder with a model.onnx. It is served from a
// repository that the server makes for the time that it runs, and into which each change of the file puts a version.
type looseModel struct {
	name, file string
	number     int64    // of its first version; 0: 1
	beside     []string // settings and warmup of a folder, which are linked to
	published  string   // the mark of what was published last
	seen       string   // its mark when it was looked at last
	own        string   // how its file was when its names were read
	paths      map[string]string
	again      time.Time // before then, what was refused is not tried again
}

// staging is the repository of loose models. It is locked as long as its server runs.
type staging struct {
	dir    string
	lock   *os.File
	loose  []*looseModel
	links  map[string]string // folders with versions, by the names of their models
	stores []string          // folders that links lead to
	below  *regexp.Regexp    // a path in dir: the model, the version, and one more element
}

// Beginnings of what lies in the folder of temporary files, and beside a model in its folder.
const stagingName = "weft-serve-"

var besideModel = []string{modelrepo.ManifestName, modelrepo.TritonConfigName, "warmup"}

// stage makes a repository of the loose models of the command line. It does nothing where there is none. The caller
// must unstage.
func (s *Settings) stage() (err error) {
	g := &staging{links: map[string]string{}}
	names := map[string]string{} // to what was named
	var repositories []string
	elsewhere := slices.ContainsFunc(s.Repositories, remoteURL.MatchString)
	for _, path := range s.Repositories {
		if remoteURL.MatchString(path) {
			repositories = append(repositories, path)
			continue
		}
		loose, folder, err := looseAt(path)
		if err != nil {
			return err
		}
		name := s.Name
		switch {
		case loose != nil:
			loose.name = cmp.Or(name, loose.name)
			name = loose.name
			g.loose = append(g.loose, loose)
		case folder != "":
			name = cmp.Or(name, filepath.Base(folder))
			g.links[name] = folder
		default:
			repositories = append(repositories, path)
			continue
		}
		switch other, twice := names[name]; {
		case !modelrepo.ValidName(name):
			return fmt.Errorf("%s: %q cannot be the name of a model; name it with --name", path, name)
		case twice:
			return fmt.Errorf("%s and %s would both be model %q; rename one, or serve a folder that holds "+
				"<model>/<version>/model.onnx of both (--name names a single model)", other, path, name)
		}
		names[name] = path
	}
	if len(names) == 0 {
		if s.Name != "" && !elsewhere { // a mirror knows whether its source is one model
			for _, path := range s.Repositories {
				if _, err := os.Stat(path); err != nil {
					return fmt.Errorf("%w; --name %s needs a model file or model folder", err, s.Name)
				}
				if others, _ := filepath.Glob(filepath.Join(path, "*.onnx")); len(others) > 0 {
					return fmt.Errorf("--name %s: %s has no model.onnx and no 1/model.onnx, but %s; name that file", s.Name, path,
						filepath.Base(others[0]))
				}
			}
			return fmt.Errorf("--name %s: expected one model file or model folder, got repositories, whose folders are the "+
				"names", s.Name)
		}
		return nil
	}
	defer func() {
		if err != nil {
			s.unstage()
		}
	}()
	s.staged = g
	if err := g.make(); err != nil {
		return fmt.Errorf("a folder for models that are named by their files: %w; set TMPDIR to one that can be written to",
			err)
	}
	s.paths = slices.Concat(repositories, []string{g.dir})
	for name, folder := range g.links {
		g.stores = append(g.stores, folder)
		if err := os.Symlink(folder, filepath.Join(g.dir, name)); err != nil {
			return err
		}
	}
	repository, err := modelrepo.Open(g.dir)
	if err != nil {
		return err
	}
	for _, m := range g.loose {
		m.seen = m.mark()
		if err := g.publish(repository, m); err != nil {
			return err
		}
		for _, path := range m.beside {
			g.stores = append(g.stores, filepath.Dir(m.file))
			if err := os.Symlink(path, filepath.Join(g.dir, m.name, filepath.Base(path))); err != nil {
				return err
			}
		}
	}
	return nil
}

// folders are the repositories, the one of loose models last.
func (s *Settings) folders() []string {
	if s.staged == nil {
		return s.local(s.Repositories)
	}
	return s.local(s.paths)
}

// stores are the directories that links in the repositories may lead to.
func (s *Settings) stores() []string {
	if s.staged == nil {
		return s.ModelStores
	}
	return slices.Concat(s.ModelStores, s.staged.stores)
}

// make makes the folder, and removes those of servers that were killed.
func (g *staging) make() (err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), stagingName+"*")) // the pattern is right
	for _, dir := range left {
		if lock, err := lockFolder(dir); err == nil {
			_ = os.RemoveAll(dir) // the next server tries again
			_ = lock.Close()
		}
	}
	if g.dir, err = os.MkdirTemp("", stagingName); err != nil {
		return err
	}
	g.below = regexp.MustCompile(regexp.QuoteMeta(g.dir) + `/([\w.-]+)(/\d+)?(/[\w.-]*)?`)
	g.lock, err = lockFolder(g.dir)
	return err
}

// told names, in a text for people, what the command line has in the place of what was made of it.
func (g *staging) told(text string) string {
	if g == nil || g.below == nil {
		return text
	}
	return g.below.ReplaceAllStringFunc(text, func(path string) string {
		of := g.below.FindStringSubmatch(path)
		if folder := g.links[of[1]]; folder != "" {
			return folder + of[2] + of[3]
		}
		i := slices.IndexFunc(g.loose, func(m *looseModel) bool { return m.name == of[1] })
		switch {
		case i < 0:
			return path
		case of[3] == "" || of[3] == "/"+modelrepo.ModelFile:
			return g.loose[i].file
		}
		return filepath.Dir(g.loose[i].file) + of[3]
	})
}

// lockFolder locks a folder until it is closed, or the process is gone.
func lockFolder(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = folder.Close()
		return nil, err
	}
	return folder, nil
}

// unstage removes what stage has made.
func (s *Settings) unstage() {
	if g := s.staged; g != nil && g.dir != "" {
		_ = os.RemoveAll(g.dir) // the next server removes what is left
		_ = g.lock.Close()      // may be nil
	}
}

// pythonApp matches what servers of Python take: MODULE:NAME.
var pythonApp = regexp.MustCompile(`^[\w.]+:\w+$`)

// looseAt looks at a path of the command line. It is a loose model, or the folder of a model with version directories,
// or neither: a repository, and modelrepo says what is wrong with it.
func looseAt(path string) (_ *looseModel, folder string, err error) {
	info, err := os.Stat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && filepath.Ext(path) == filepath.Ext(modelrepo.ModelFile):
		return nil, "", fmt.Errorf("%s: no such file", path)
	case missing && pythonApp.MatchString(path):
		return nil, "", fmt.Errorf("%s: Weft runs ONNX models, not Python: docs/how-to/pre-and-postprocessing.md", path)
	case err != nil:
		return nil, "", nil //nolint:nilerr // modelrepo says it
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", err
	}
	pipeline := func(repository string) error {
		return fmt.Errorf("%s is a pipeline, whose steps are models beside it: name its repository, %s", path, repository)
	}
	if !info.IsDir() {
		if filepath.Base(path) == modelrepo.PipelineFile {
			return nil, "", pipeline(filepath.Join(path, "../../.."))
		}
		if filepath.Ext(path) != filepath.Ext(modelrepo.ModelFile) {
			return nil, "", fmt.Errorf("%s is a file, but no model of ONNX by its name; export the model to NAME.onnx "+
				"(docs/quickstart/python-policy.md), or name a repository", path)
		}
		name, number := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs)), int64(0)
		if name+filepath.Ext(abs) == modelrepo.ModelFile {
			name, number = nameOf(filepath.Dir(abs))
		}
		return &looseModel{name: name, file: abs, number: number}, "", nil
	}
	regular := func(elements ...string) bool {
		info, err := os.Stat(filepath.Join(append([]string{abs}, elements...)...))
		return err == nil && info.Mode().IsRegular()
	}
	if regular(modelrepo.ModelFile) {
		m := &looseModel{file: filepath.Join(abs, modelrepo.ModelFile)}
		m.name, m.number = nameOf(abs)
		for _, name := range besideModel {
			if _, err := os.Stat(filepath.Join(abs, name)); err == nil {
				m.beside = append(m.beside, filepath.Join(abs, name))
			}
		}
		return m, "", nil
	}
	if regular(modelrepo.PipelineFile) {
		return nil, "", pipeline(filepath.Join(path, "../.."))
	}
	entries, _ := os.ReadDir(abs) // modelrepo says why it cannot be read
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 63); err != nil {
			continue
		}
		if regular(e.Name(), modelrepo.ModelFile) {
			return nil, abs, nil
		}
		if regular(e.Name(), modelrepo.PipelineFile) {
			return nil, "", pipeline(filepath.Join(path, ".."))
		}
	}
	return nil, "", nil
}

// nameOf returns the name of a model in a folder: that of the folder or, for one of a version, that of the folder above
// and the number.
func nameOf(folder string) (name string, number int64) {
	number, err := strconv.ParseInt(filepath.Base(folder), 10, 64)
	if err != nil || number < 0 {
		return filepath.Base(folder), 0
	}
	return filepath.Base(filepath.Dir(folder)), number
}

// NamesModel reports whether a path of the command line is a model, and not a repository.
func NamesModel(path string) bool {
	model, folder, err := looseAt(path)
	return err == nil && (model != nil || folder != "")
}

// files returns the model's file and those of its external data, by their names in a version's directory.
func (m *looseModel) files() (names []string, paths map[string]string, err error) {
	file, err := os.Open(m.file)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	external, err := modelfile.ExternalNames(file, info.Size())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", m.file, err)
	}
	names, paths = []string{modelrepo.ModelFile}, map[string]string{modelrepo.ModelFile: m.file}
	for _, name := range external {
		names = append(names, name)
		paths[name] = filepath.Join(filepath.Dir(m.file), name)
	}
	return names, paths, nil
}

// mark changes when a file of the model does. It is "" for one that cannot be read now. The model is read only when it
// has changed itself, for the names of the others.
func (m *looseModel) mark() string {
	info, err := os.Stat(m.file)
	if err != nil {
		return ""
	}
	if own := fmt.Sprint(info.Size(), info.ModTime().UnixNano()); own != m.own {
		_, paths, err := m.files()
		if err != nil {
			return ""
		}
		m.own, m.paths = own, paths
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.paths)) {
		info, err := os.Stat(m.paths[name])
		if err != nil {
			return ""
		}
		fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}

// publish puts what the model's files have now into the repository, as a new version.
func (g *staging) publish(to *modelrepo.Repository, m *looseModel) error {
	names, paths, err := m.files()
	if err != nil {
		return err
	}
	u := catalog.Upload{Model: m.name, Own: true}
	if m.published == "" {
		u.Version = m.number
	}
	var contents []io.Reader
	for _, name := range names {
		file, err := os.Open(paths[name])
		if err != nil {
			return err
		}
		defer file.Close() //nolint:revive // all of them are read below
		sum := sha256.New()
		n, err := io.Copy(sum, file)
		if err == nil {
			_, err = file.Seek(0, io.SeekStart)
		}
		if err != nil {
			return err
		}
		u.Files = append(u.Files, catalog.UploadFile{Name: name, Bytes: n, SHA256: sum.Sum(nil)})
		contents = append(contents, file)
	}
	number, err := to.Receive(u, io.MultiReader(contents...))
	if err != nil {
		return fmt.Errorf("%s: %w", m.file, err)
	}
	m.published = m.seen
	// The version before goes when this one is ready; those before that are gone.
	return os.RemoveAll(filepath.Join(g.dir, m.name, strconv.FormatInt(number-2, 10)))
}

// looseEvery is how often the files of loose models are looked at. One that looks the same twice, and not as what was
// published last, is published.
const looseEvery = 500 * time.Millisecond

// follow publishes the changes of the models' files.
func (g *staging) follow(to *modelrepo.Repository, log *slog.Logger) lifecycle.Part {
	return untilStopped("files of models", func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(looseEvery):
			}
			for _, m := range g.loose {
				now := m.mark()
				same := now == m.seen
				if m.seen = now; !same || now == "" || now == m.published || time.Now().Before(m.again) {
					continue
				}
				if err := g.publish(to, m); err != nil {
					const patience = 30 * time.Second
					m.again = time.Now().Add(patience)
					log.Error("changed model file not served", "event", "model_file_refused", "model", m.name, "cause", err)
				}
			}
		}
	})
}

// hints tells a person, in three lines, where the server is, what to ask it, and where its pages are, and which
// models of the command line it does not batch.
func (s *assembly) hints(out io.Writer) {
	scheme, page := "http", ""
	if s.certs != nil {
		scheme = "https"
	}
	if s.pagesAt != "" {
		page = scheme + "://" + s.pagesAt
	}
	fmt.Fprintf(out, "weft: serving %s (gRPC)", addressOf(s.grpc))
	if page != "" {
		fmt.Fprintf(out, " and %s (HTTP)", page)
	}
	fmt.Fprintln(out)
	var names []string // those of the command line first
	if s.staged != nil {
		for _, m := range s.staged.loose {
			names = append(names, m.name)
		}
		names = append(names, slices.Sorted(maps.Keys(s.staged.links))...)
	}
	models := s.house.models.Snapshot().Models
	for name := range models.All() {
		names = append(names, name)
	}
	for _, name := range names {
		if line := exampleCall(s.Program, models.Get(name), addressOf(s.grpc)); line != "" {
			fmt.Fprintln(out, "weft: try    ", line)
			break
		}
	}
	if page != "" {
		fmt.Fprintf(out, "weft: page    %s/docs\n", page)
	}
	if s.staged == nil {
		return
	}
	for _, m := range s.staged.loose {
		model := models.Get(m.name)
		if model == nil {
			continue
		}
		for _, v := range model.Versions {
			if v.State == catalog.Ready && !v.Batching.Batched {
				fmt.Fprintf(out, "weft: note    %s is served request by request: %s\n", m.name, v.Batching.Reason)
			}
			if s := v.EpisodeState; v.State == catalog.Ready && s != nil && s.Found {
				fmt.Fprintf(out, "weft: note    %s has state, by names and shapes (%s <- %s): requests of an episode that begins "+
					"(begin_episode) need not bring it\n", m.name, v.Signature.Inputs[s.Inputs[0].Input].Name,
					v.Signature.Outputs[s.Inputs[0].Output].Name)
			}
		}
	}
}

// exampleCall is a command that asks a model; "" where no version of it is ready.
func exampleCall(program string, m *catalog.Model, address string) string {
	if m == nil {
		return ""
	}
	for _, v := range slices.Backward(m.Versions) {
		if v.State != catalog.Ready {
			continue
		}
		line := []string{program, "predict", m.Name}
		if address != config.DefaultServer().Listen {
			line = append(line, "--address", address)
		}
		for i := range v.Signature.Inputs {
			spec := &v.Signature.Inputs[i]
			value, err := json.Marshal(web.Example(spec))
			const long = 200 // then `weft predict` says what it takes, as for names that a shell would read
			if err != nil || len(value) > long || string(value) == "null" || !modelrepo.ValidName(spec.Name) {
				break
			}
			line = append(line, fmt.Sprintf("--input %s='%s'", spec.Name, value))
		}
		return strings.Join(line, " ")
	}
	return ""
}
