package modelfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/onnx"
	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// Place is where the files of a version are.
type Place struct {
	// Repository is the directory that the version's, Dir, lies in; both are absolute. Names in the model are relative to
	// Dir and do not lead out of it; symbolic links may lead wherever they stay in the repository, and to the Stores.
	Repository, Dir string
	Stores          []string
	// Joint: the version is made of others; nil: it has a model of its own.
	Joint *Joint
}

func (p Place) path(name string) string { return filepath.Join(p.Dir, name) }

// Read copies the files of a version. The error says which file is wrong, or that ctx ended. told hears how many bytes
// were copied, and of how many; it may be nil.
func Read(ctx context.Context, from Place, told func(done, of int64)) (_ *Files, err error) {
	r := &reader{Place: from, files: &Files{from: from}, told: told}
	if told == nil {
		r.told = func(int64, int64) {}
	}
	defer r.leave()
	defer func() {
		if err != nil && r.copy != nil {
			_ = r.copy.Close()
		}
	}()
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	if r.files.copy, err = seal(r.copy); err != nil {
		return nil, err
	}
	r.files.seen = r.sources
	return r.files, nil
}

// Confirm looks at the files once more, after the time that it took to prove and warm up what was read. It returns
// ErrChanged, wrapped, if one was written to in place: what was read may be half of a change. A file that was replaced
// by another one was whole when it was read. Where only its times or links changed, its digest shows that.
func (f *Files) Confirm(ctx context.Context) error {
	r := &reader{}
	defer r.leave()
	for _, before := range f.seen {
		now, err := r.open(before.place, before.below)
		if err != nil {
			continue // it was removed since
		}
		if !os.SameFile(now.info, before.info) || unchanged(now.info, before.info) {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, stoppable(ctx, now.file)); err != nil {
			return fmt.Errorf("cannot read %s again: %w", now.path(), err)
		}
		if [sha256.Size]byte(sum.Sum(nil)) != f.file(before.name).SHA256 {
			return now.changed()
		}
	}
	return nil
}

// reader reads one version.
type reader struct {
	Place
	roots    map[string]*rooted.Root // by repository
	sources  []source
	files    *Files
	copy     *os.File
	end      int64 // of the copy
	told     func(done, of int64)
	done, of int64 // bytes copied, and to be
}

// root returns the repository of a version, and where the version lies in it.
func (r *reader) root(p Place) (root *rooted.Root, below string, err error) {
	if below, err = filepath.Rel(p.Repository, p.Dir); err != nil {
		return nil, "", err
	}
	if root = r.roots[p.Repository]; root == nil {
		if root, err = rooted.Open(p.Repository, p.Stores); err != nil {
			return nil, "", err
		}
		if r.roots == nil {
			r.roots = map[string]*rooted.Root{}
		}
		r.roots[p.Repository] = root
	}
	return root, below, nil
}

func (r *reader) leave() {
	for _, s := range r.sources {
		_ = s.file.Close() // it was only read
	}
	for _, root := range r.roots {
		_ = root.Close()
	}
}

// source is a file that is to be copied.
type source struct {
	name  string // in the copy
	place Place
	below string // its path relative to the version's directory
	file  *os.File
	info  fs.FileInfo
}

func (s source) path() string { return s.place.path(s.below) }

func (r *reader) read(ctx context.Context) error {
	if r.Joint != nil {
		return r.join(ctx)
	}
	l, err := r.openModel(r.Place, "")
	if err != nil {
		return err
	}
	if err := r.addAll(ctx); err != nil {
		return err
	}
	r.files.Opened = r.files.List[0]
	if err := r.same(r.sources[0], l); err != nil {
		return err
	}
	if err := r.findLarge(l); err != nil || !l.embed {
		return err
	}
	model, err := r.parse(r.files.Opened)
	if err != nil {
		return err
	}
	return r.embed(model)
}

// openModel opens the files of a model, and returns what its graph says of them. Their names in the copy begin with
// prefix.
func (r *reader) openModel(p Place, prefix string) (l located, err error) {
	model, err := r.open(p, Model)
	if err != nil {
		return l, err
	}
	r.sources[len(r.sources)-1].name = prefix + Model
	if l, err = locate(model.file, model.info.Size()); err != nil {
		return l, fmt.Errorf("%s: %w", model.path(), err)
	}
	for _, name := range l.names {
		if name == Model {
			return l, fmt.Errorf("%s: a tensor lies in the model file itself; put it in a file of its own", model.path())
		}
		if _, err := r.open(p, name); err != nil {
			return l, fmt.Errorf("%s names a file: %w", model.path(), err)
		}
		r.sources[len(r.sources)-1].name = prefix + name
	}
	return l, nil
}

// addAll copies the files that were opened.
func (r *reader) addAll(ctx context.Context) (err error) {
	for _, s := range r.sources {
		r.of += s.info.Size()
	}
	if r.copy, err = newCopy(r.of + r.end); err != nil {
		return err
	}
	if r.Joint != nil {
		if err := r.addText(r.Joint.File, r.Joint.Text); err != nil {
			return err
		}
	}
	for _, s := range r.sources {
		if err := r.add(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// same compares what a graph says of its files with what it said before it was copied.
func (r *reader) same(model source, before located) error {
	copied := r.files.file(model.name)
	now, err := locate(r.section(copied), copied.Size)
	if err != nil || fmt.Sprint(now) != fmt.Sprint(before) {
		return model.changed()
	}
	return nil
}

// open opens a file of a version.
func (r *reader) open(p Place, name string) (source, error) {
	root, below, err := r.root(p)
	if err != nil {
		return source{}, err
	}
	s := source{name: name, place: p, below: name}
	s.file, err = root.OpenFile(filepath.Join(below, name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for a pipe
	if err != nil {
		return source{}, fmt.Errorf("%s: %w; put it there, with symbolic links only within the repository or to "+
			"--model-stores", s.path(), cause(err))
	}
	s.info, err = s.file.Stat()
	r.sources = append(r.sources, s)
	if err == nil && !s.info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; put one in its place")
	}
	if err != nil {
		return source{}, fmt.Errorf("%s: %w", s.path(), err)
	}
	return s, nil
}

// cause is an error of a system call without the path, which is relative to the repository.
func cause(err error) error {
	if p, is := errors.AsType[*fs.PathError](err); is {
		return p.Err
	}
	return err
}

// add copies a file. One that is written to meanwhile is refused.
func (r *reader) add(ctx context.Context, s source) error {
	// Half a change has no digest that anybody wrote down; where there is none, the times tell.
	size, sum := s.info.Size(), sha256.New()
	from := io.LimitReader(io.TeeReader(r.counted(stoppable(ctx, s.file)), sum), size+1)
	n, err := io.Copy(io.NewOffsetWriter(r.copy, r.end), from)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.path(), err)
	}
	after, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", s.path(), err)
	}
	if n != size || !unchanged(after, s.info) {
		return s.changed()
	}
	f := File{Name: s.name, Offset: r.end, Size: n}
	sum.Sum(f.SHA256[:0])
	r.files.List = append(r.files.List, f)
	r.skip(n)
	return nil
}

func (s source) changed() error {
	return fmt.Errorf("%s %w; replace files in one step, by renaming", s.path(), ErrChanged)
}

// unchanged reports whether a file was not written to between two looks at it.
func unchanged(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && changedAt(a).Equal(changedAt(b))
}

// ErrChanged says that a file was written to while it was read, or shortly after.
var ErrChanged = errors.New("changed while it was being loaded")

// alignment is where files begin in the copy, so that tensors keep theirs.
const alignment = 4096

func (r *reader) skip(n int64) { r.end = (r.end + n + alignment - 1) / alignment * alignment }

func (r *reader) section(f File) *io.SectionReader {
	return io.NewSectionReader(r.copy, f.Offset, f.Size)
}

// findLarge adds the initializers that may be large: one is if the rest of its file is.
func (r *reader) findLarge(l located) error {
	for _, t := range l.large {
		f := r.files.file(t.file)
		where, err := t.within(t.file, f.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", r.path(Model), err)
		}
		if where.Size > mostEmbedded {
			where.Offset += f.Offset
			r.files.Large = append(r.files.Large, where)
		}
	}
	return nil
}

// parse reads a model file of the copy.
func (r *reader) parse(f File) (*onnx.ModelProto, error) {
	text, err := io.ReadAll(r.section(f))
	if err != nil {
		return nil, err
	}
	m := &onnx.ModelProto{}
	if err := proto.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s is no ONNX model: %w", f.Name, err)
	}
	return m, nil
}

// embed adds a model as the engine is to take it.
func (r *reader) embed(m *onnx.ModelProto) error {
	model, err := embed(m, func(name string) *io.SectionReader { return r.section(r.files.file(name)) })
	if err != nil {
		return fmt.Errorf("%s: %w", r.path(Model), err)
	}
	r.files.Opened = File{Name: Model, Offset: r.end, Size: int64(len(model)), SHA256: sha256.Sum256(model)}
	_, err = io.Copy(io.NewOffsetWriter(r.copy, r.end), bytes.NewReader(model))
	return err
}

// stoppable ends reading with a context.
func stoppable(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(b)
	})
}

// counted tells how far the copy is.
func (r *reader) counted(from io.Reader) io.Reader {
	return readerFunc(func(b []byte) (int, error) {
		n, err := from.Read(b)
		r.done += int64(n)
		r.told(r.done, r.of)
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// changedAt is when a file was last changed in any way: unlike the time of its content, nobody can set it.
func changedAt(info fs.FileInfo) time.Time {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(stat.Ctim.Unix())
	}
	return info.ModTime()
}

// mistaken returns what a file is that was taken for an ONNX model and cannot be read as one, and what to do; nil if
// that cannot be told.
func mistaken(file io.ReaderAt) error {
	head := make([]byte, 64)
	n, _ := file.ReadAt(head, 0)
	head = head[:n]
	const export = "export the model to ONNX, as docs/quickstart/python-policy.md shows"
	for _, known := range []struct {
		at         int
		magic      string
		is, remedy string
	}{
		{0, "version https://git-lfs", "a pointer of Git LFS in the place of the model", "fetch the file itself, with `git lfs pull`"},
		{0, "PK\x03\x04", "a zip archive, as torch.save and Keras write", export},
		{0, "\x80\x02", "a pickle of Python's, as older torch.save and scikit-learn write", export},
		{0, "\x80\x04", "a pickle of Python's", export},
		{0, "\x80\x05", "a pickle of Python's", export},
		{0, "\x89HDF", "a file of HDF5, as Keras writes", export},
		{8, `{"`, "a file of safetensors: weights without a graph", export},
		{0, "GGUF", "a file of GGUF, a format for language models, which Weft does not serve", "serve it with llama.cpp"},
		{4, "TFL3", "a model of TensorFlow Lite", "convert it to ONNX, as with tf2onnx"},
		{0, "\x1f\x8b", "compressed by gzip", "decompress it"},
		{0, "<", "a page of HTML or XML, as a failed download leaves", "download the file again"},
	} {
		if len(head) > known.at && bytes.HasPrefix(head[known.at:], []byte(known.magic)) {
			return fmt.Errorf("it is no ONNX model, but %s; %s", known.is, known.remedy)
		}
	}
	return nil
}
