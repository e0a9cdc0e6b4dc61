package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	settings   []string // model.yaml and config.pbtxt of a folder
	published  string   // the mark of what was published last
	seen       string   // its mark when it was looked at last
}

// staging is the repository of loose models.
type staging struct {
	dir   string
	loose []*looseModel
}

// stage has the settings name a repository in the place of each loose model. It is nil where there is none. The caller
// must remove it.
func (s *Settings) stage() (_ *staging, err error) {
	g := &staging{}
	names, links := map[string]string{}, map[string]string{} // to what was named, and to folders
	var repositories []string
	for _, path := range s.Repositories {
		loose, folder, err := looseAt(path)
		if err != nil {
			return nil, err
		}
		if loose == nil && folder == "" {
			repositories = append(repositories, path)
			continue
		}
		name := s.Name
		if loose != nil {
			loose.name = cmp.Or(name, loose.name)
			name = loose.name
			g.loose = append(g.loose, loose)
		} else {
			name = cmp.Or(name, filepath.Base(folder))
			links[name] = folder
		}
		switch other, twice := names[name]; {
		case !modelrepo.ValidName(name):
			return nil, fmt.Errorf("%s: %q cannot be the name of a model; name it with --name", path, name)
		case twice:
			return nil, fmt.Errorf("%s and %s would both be model %q; rename one, or serve a folder that holds "+
				"<model>/<version>/model.onnx of both (--name names a single model)", other, path, name)
		}
		names[name] = path
	}
	if len(names) == 0 {
		if s.Name != "" {
			return nil, fmt.Errorf("--name %s: expected one model file or model folder, got repositories, whose folders are "+
				"the names", s.Name)
		}
		return nil, nil
	}
	if g.dir, err = os.MkdirTemp("", "weft-serve-"); err != nil {
		return nil, fmt.Errorf("a folder for models that are named by their files: %w; set TMPDIR to one that can be "+
			"written to", err)
	}
	defer func() {
		if err != nil {
			g.remove()
		}
	}()
	for name, folder := range links {
		if err := os.Symlink(folder, filepath.Join(g.dir, name)); err != nil {
			return nil, err
		}
	}
	repository, err := modelrepo.Open(g.dir)
	if err != nil {
		return nil, err
	}
	repository.AcceptUploads(math.MaxInt64)
	for _, m := range g.loose {
		m.seen = m.mark()
		if err := g.publish(repository, m); err != nil {
			return nil, err
		}
	}
	s.Repositories = append([]string{g.dir}, repositories...)
	s.ModelStores = slices.AppendSeq(slices.Clone(s.ModelStores), maps.Values(links))
	return g, nil
}

// remove removes the repository; nil has none.
func (g *staging) remove() {
	if g != nil {
		_ = os.RemoveAll(g.dir) // what is left is in the folder of temporary files
	}
}

func mustAbs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// looseAt looks at a path of the command line. It is a loose model, or the folder of a model with version directories,
// or neither: a repository, and modelrepo says what is wrong with it.
func looseAt(path string) (_ *looseModel, folder string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", nil //nolint:nilerr // modelrepo says it
	}
	abs := mustAbs(path)
	if !info.IsDir() {
		if filepath.Ext(path) != filepath.Ext(modelrepo.ModelFile) {
			return nil, "", fmt.Errorf("%s is a file, but no model of ONNX by its name; export the model to NAME.onnx "+
				"(docs/PYTHON_POLICIES.md), or name a repository", path)
		}
		name := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
		if name+filepath.Ext(abs) == modelrepo.ModelFile {
			name = filepath.Base(filepath.Dir(abs))
		}
		return &looseModel{name: name, file: abs}, "", nil
	}
	regular := func(elements ...string) bool {
		info, err := os.Stat(filepath.Join(append([]string{abs}, elements...)...))
		return err == nil && info.Mode().IsRegular()
	}
	if regular(modelrepo.ModelFile) {
		m := &looseModel{name: filepath.Base(abs), file: filepath.Join(abs, modelrepo.ModelFile)}
		for _, name := range []string{modelrepo.ManifestName, modelrepo.TritonConfigName} {
			if regular(name) {
				m.settings = append(m.settings, filepath.Join(abs, name))
			}
		}
		return m, "", nil
	}
	entries, _ := os.ReadDir(abs) // modelrepo says why it cannot be read
	for _, e := range entries {
		if _, err := strconv.ParseUint(e.Name(), 10, 63); err == nil && regular(e.Name(), modelrepo.ModelFile) {
			return nil, abs, nil
		}
	}
	return nil, "", nil
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

// mark changes when a file of the model does. It is "" for one that cannot be read now.
func (m *looseModel) mark() string {
	names, paths, err := m.files()
	var b strings.Builder
	for i := range names {
		info, statErr := os.Stat(paths[names[i]])
		if statErr != nil {
			return ""
		}
		fmt.Fprintln(&b, names[i], info.Size(), info.ModTime().UnixNano())
	}
	if err != nil {
		return ""
	}
	return b.String()
}

// publish puts what the model's files have now into the repository, as a new version.
func (g *staging) publish(to *modelrepo.Repository, m *looseModel) error {
	names, paths, err := m.files()
	if err != nil {
		return err
	}
	u := catalog.Upload{Model: m.name}
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
	if _, err := to.Receive(u, io.MultiReader(contents...)); err != nil {
		return fmt.Errorf("%s: %w", m.file, err)
	}
	m.published = m.seen
	for _, from := range m.settings {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(g.dir, m.name, filepath.Base(from)), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
				if m.seen = now; !same || now == "" || now == m.published {
					continue
				}
				m.published = now // also where it fails: then the next change is tried
				if err := g.publish(to, m); err != nil {
					log.Error("changed model file not served", "event", "model_file_refused", "model", m.name, "cause", err)
				}
			}
		}
	})
}

// hints tells a person, in three lines, where the server is, what to ask it, and where its pages are.
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
	}
	models := s.house.models.Snapshot().Models
	for name := range models.All() {
		names = append(names, name)
	}
	for _, name := range names {
		if line := exampleCall(models.Get(name), addressOf(s.grpc)); line != "" {
			fmt.Fprintln(out, "weft: try    ", line)
			break
		}
	}
	if page != "" {
		fmt.Fprintf(out, "weft: page    %s/docs\n", page)
	}
}

// exampleCall is a command that asks a model; "" where no version of it is ready.
func exampleCall(m *catalog.Model, address string) string {
	for _, v := range slices.Backward(m.Versions) {
		if v.State != catalog.Ready {
			continue
		}
		line := []string{"weft predict", m.Name}
		if address != config.DefaultServer().Listen {
			line = append(line, "--address", address)
		}
		for i := range v.Signature.Inputs {
			spec := &v.Signature.Inputs[i]
			value, err := json.Marshal(web.Example(spec))
			const long = 200 // then `weft predict` says what it takes
			if err != nil || len(value) > long || string(value) == "null" {
				break
			}
			line = append(line, fmt.Sprintf("--input %s='%s'", spec.Name, value))
		}
		return strings.Join(line, " ")
	}
	return ""
}
