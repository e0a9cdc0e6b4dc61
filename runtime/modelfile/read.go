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

	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// Read copies the files of a version, whose directory lies in a repository. Names in the model are relative to that
// directory and do not lead out of it; symbolic links may lead wherever they stay in the repository, and to the stores.
// The error says which file is wrong, or that ctx ended. told hears how many bytes were copied, and of how many; it may
// be nil.
func Read(ctx context.Context, repository, dir string, told func(done, of int64),
	stores ...string,
) (_ *Files, err error) {
	r := &reader{place: place{repository, dir, stores}, files: &Files{}, told: told}
	if told == nil {
		r.told = func(int64, int64) {}
	}
	if err := r.enter(); err != nil {
		return nil, err
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
	r.files.from = r.place
	for _, s := range r.sources {
		r.files.seen = append(r.files.seen, s.info)
	}
	return r.files, nil
}

// Confirm looks at the files once more, after the time that it took to prove and warm up what was read. It returns
// ErrChanged, wrapped, if one was written to in place: what was read may be half of a change. A file that was replaced
// by another one was whole when it was read. Where only its times or links changed, its digest shows that.
func (f *Files) Confirm(ctx context.Context) error {
	r := &reader{place: f.from}
	if err := r.enter(); err != nil {
		return nil // it was removed since
	}
	defer r.leave()
	for i, file := range f.List {
		if err := r.open(file.Name); err != nil {
			continue // it was removed since
		}
		now := r.sources[len(r.sources)-1]
		if !os.SameFile(now.info, f.seen[i]) || unchanged(now.info, f.seen[i]) {
			continue
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, stoppable(ctx, now.file)); err != nil {
			return fmt.Errorf("cannot read %s again: %w", r.path(file.Name), err)
		}
		if [sha256.Size]byte(sum.Sum(nil)) != file.SHA256 {
			return r.changed(file.Name)
		}
	}
	return nil
}

// place is where the files of a version are.
type place struct {
	repository, dir string
	stores          []string
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

// reader reads one version.
type reader struct {
	place
	root     *rooted.Root
	below    string // the version's directory from root
	sources  []source
	files    *Files
	copy     *os.File
	end      int64 // of the copy
	told     func(done, of int64)
	done, of int64 // bytes copied, and to be
}

func (r *reader) enter() (err error) {
	if r.below, err = filepath.Rel(r.repository, r.dir); err != nil {
		return err
	}
	r.root, err = rooted.Open(r.repository, r.stores)
	return err
}

func (r *reader) leave() {
	for _, s := range r.sources {
		_ = s.file.Close() // it was only read
	}
	_ = r.root.Close()
}

// source is a file that is to be copied.
type source struct {
	name string
	file *os.File
	info fs.FileInfo
}

func (r *reader) read(ctx context.Context) error {
	if err := r.open(Model); err != nil {
		return err
	}
	model := r.sources[0]
	l, err := locate(model.file, model.info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", r.path(Model), err)
	}
	size := model.info.Size()
	for _, name := range l.names {
		if name == Model {
			return fmt.Errorf("%s: a tensor lies in the model file itself; put it in a file of its own", r.path(Model))
		}
		if err := r.open(name); err != nil {
			return fmt.Errorf("%s names a file: %w", r.path(Model), err)
		}
		size += r.sources[len(r.sources)-1].info.Size()
	}
	r.of = size
	if r.copy, err = newCopy(size); err != nil {
		return err
	}
	for _, s := range r.sources {
		if err := r.add(ctx, s); err != nil {
			return err
		}
	}
	r.files.Opened = r.files.List[0]
	now, err := locate(r.section(r.files.Opened), r.files.Opened.Size)
	if err != nil || fmt.Sprint(now) != fmt.Sprint(l) {
		return r.changed(Model)
	}
	for _, t := range l.large {
		if err := r.large(t); err != nil {
			return err
		}
	}
	if l.embed {
		return r.embed()
	}
	return nil
}

// open opens a file that the model is made of.
func (r *reader) open(name string) error {
	f, err := r.root.OpenFile(filepath.Join(r.below, name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for a pipe
	if err != nil {
		return fmt.Errorf("%s: %w; put it there, with symbolic links only within the repository or to "+
			"--model-stores", r.path(name),
			cause(err))
	}
	r.sources = append(r.sources, source{name: name, file: f})
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file; put one in its place")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.path(name), err)
	}
	r.sources[len(r.sources)-1].info = info
	return nil
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
		return fmt.Errorf("cannot read %s: %w", r.path(s.name), err)
	}
	after, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", r.path(s.name), err)
	}
	if n != size || !unchanged(after, s.info) {
		return r.changed(s.name)
	}
	f := File{Name: s.name, Offset: r.end, Size: n}
	sum.Sum(f.SHA256[:0])
	r.files.List = append(r.files.List, f)
	r.skip(n)
	return nil
}

func (r *reader) changed(name string) error {
	return fmt.Errorf("%s %w; replace files in one step, by renaming", r.path(name), ErrChanged)
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

// copied returns a file that was copied.
func (r *reader) copied(name string) (File, error) {
	for _, f := range r.files.List {
		if f.Name == name {
			return f, nil
		}
	}
	return File{}, fmt.Errorf("%s was not copied", name)
}

// large adds an initializer that may be large: it is if the rest of its file is.
func (r *reader) large(t largeTensor) error {
	f, err := r.copied(t.file)
	if err != nil {
		return err
	}
	where, err := t.within(t.file, f.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", r.path(Model), err)
	}
	if where.Size > mostEmbedded {
		where.Offset += f.Offset
		r.files.Large = append(r.files.Large, where)
	}
	return nil
}

// embed adds the model as the engine is to take it.
func (r *reader) embed() error {
	model, err := embed(r.section(r.files.Opened), func(name string) (*io.SectionReader, error) {
		f, err := r.copied(name)
		return r.section(f), err
	})
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
	const export = "export the model to ONNX, as docs/PYTHON_POLICIES.md shows"
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
