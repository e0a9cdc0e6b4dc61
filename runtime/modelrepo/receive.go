package modelrepo

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/modelrepo/rooted"
	"github.com/weftserve/weft/runtime/tensor"
)

const (
	// uploadDir begins the name of the folder that an upload is written to: scans pass over dot files.
	uploadDir = ".weft-upload-"
	// uploaded is the version's directory in it, until it is complete.
	uploaded = "content"
	// maxUploads bounds the uploads under way: each writes to the disk, and has a message of its caller in memory.
	maxUploads = 4
	// leftFree is how many bytes an upload leaves free on its file system, where logs and decisions may be kept, too.
	leftFree = 64 << 20
	// maxNumber is the highest number of an upload, 2^53: numbers go on after it, and JSON has it exactly.
	maxNumber = 1 << 53
	// sumsFile is modelfile.SumsName, which is written beside the files.
	sumsFile = "SHA256SUMS"
)

// AcceptUploads lets Receive take versions whose files have at most so many bytes together, and removes what a process
// that was killed left of its uploads. It is called before the first Receive. needs returns the files that a model has
// external data in, by their paths relative to its own directory, or an error that says why nothing could load it. sums
// joins a pipeline, and returns the SHA256SUMS of its files and those of its steps.
func (r *Repository) AcceptUploads(most int64, needs func(model io.ReaderAt, size int64) ([]string, error),
	sums func(Version) ([]byte, error),
) {
	r.mostUploaded, r.needs, r.sums = most, needs, sums
	for _, path := range r.paths {
		if root, err := rooted.Open(path, nil); err == nil {
			sweep(root, uploadDir+"*", "*/"+uploadDir+"*")
			_ = root.Close()
		}
	}
}

// Reserve keeps uploads out of a directory of the repository, but for those of the server itself, and says why: the
// name of the model goes where why has a %s. It is called before the first Receive.
func (r *Repository) Reserve(dir, why string) { r.reserved[dir] = why }

// Rename has the models in a directory of the repository be called as the caller named them there: the names in their
// config.pbtxt, which were right where they come from, do not count. It is called before Scan and Watch.
func (r *Repository) Rename(dir string) { r.renamed = dir }

// abandonedAfter is how long nothing was written to the folder of an upload whose process is gone, on file systems
// without locks. Uploads write every half minute at least; the rest is for clocks of other machines.
const abandonedAfter = time.Hour

// sweep removes the folders of uploads whose process is gone: nobody has them locked.
func sweep(root *rooted.Root, patterns ...string) {
	for _, pattern := range patterns {
		left, _ := fs.Glob(root.FS(), pattern) // the patterns are right, and nothing else is an error
		for _, name := range left {
			lock, locked, err := lockUpload(root, name)
			if err != nil {
				continue
			}
			if locked || time.Since(lastWritten(root, name)) > abandonedAfter {
				_ = root.RemoveAll(name) // the next one tries again
			}
			_ = lock.Close()
		}
	}
}

// lastWritten returns when anything in a folder was written last.
func lastWritten(root *rooted.Root, folder string) (last time.Time) {
	_ = fs.WalkDir(root.FS(), folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has gone since
		}
		if info, err := e.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return nil
	})
	return last
}

var flock = syscall.Flock // or of a test

// lockUpload opens the folder of an upload, and locks it until it is closed, or the process is gone. Where the file
// system has no locks, as NFS without its lock manager, it is only opened.
func lockUpload(root *rooted.Root, name string) (_ *os.File, locked bool, _ error) {
	folder, err := root.Open(name)
	if err != nil {
		return nil, false, err
	}
	err = flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.ENOLCK) || errors.Is(err, errors.ErrUnsupported) { // ENOSYS, ENOTSUP and EOPNOTSUPP
		return folder, false, nil
	}
	if err != nil {
		_ = folder.Close()
		return nil, false, err
	}
	return folder, true, nil
}

// Receive puts a new version into the repository, as a whole or not at all, with its SHA256SUMS. content has its files
// one after the other. A model that is not there yet is made, in the first directory. Watch looks at it at once, and
// takes it for complete. It returns the version's number.
//
// The error is a *tensor.FieldError, of the message weft.v1.UploadStart, a *catalog.UploadError, or that of content.
func (r *Repository) Receive(u catalog.Upload, content io.Reader) (int64, error) {
	if err := r.checkUpload(&u); err != nil {
		return 0, err
	}
	home, err := r.home(&u)
	if err != nil {
		return 0, err
	}
	if why, is := r.reserved[home]; is && !u.Own {
		return 0, &catalog.UploadError{
			Model: u.Model, Version: u.Version, Reason: catalog.NotWritable, Why: fmt.Sprintf(why, u.Model),
		}
	}
	root, err := rooted.Open(home, nil)
	if err != nil {
		return 0, refuseUpload(&u, err)
	}
	defer root.Close()
	up := &receiving{Upload: u, repository: r, root: root, home: home}
	if err := up.begin(); err != nil {
		return 0, err
	}
	defer up.end()
	if err := up.read(content); err != nil {
		return 0, err
	}
	return up.publish()
}

// wrong is the error of a field of an upload.
func wrong(field, want, got string) error {
	return &tensor.FieldError{Field: "start." + field, Want: want, Got: got}
}

// checkUpload finds what is wrong with an upload before its content comes.
func (r *Repository) checkUpload(u *catalog.Upload) error {
	switch {
	case !ValidName(u.Model) || len(u.Model) > 128:
		return wrong("model", "a name of at most 128 characters: a model "+nameRule, strconv.Quote(u.Model))
	case u.Version < 0 || u.Version > maxNumber:
		return wrong("version", fmt.Sprintf("a positive number of at most %d, or 0 for the next one", int64(maxNumber)),
			strconv.FormatInt(u.Version, 10))
	case len(u.Files) == 1 && isPipeline(u):
	case isPipeline(u):
		return wrong("files", PipelineFile+" alone, since a pipeline is made of files of other models",
			fmt.Sprintf("%d files", len(u.Files)))
	case !slices.ContainsFunc(u.Files, func(f catalog.UploadFile) bool { return f.Name == ModelFile && f.Bytes > 0 }):
		return wrong("files", "a "+ModelFile+" that is not empty among them, or "+PipelineFile+" alone", "none")
	case len(u.Files) > maxFiles:
		return wrong("files", fmt.Sprintf("at most %d", maxFiles), strconv.Itoa(len(u.Files)))
	}
	names, folders, left := map[string]bool{}, map[string]bool{}, r.mostUploaded
	if u.Own {
		left = math.MaxInt64
	}
	for i, f := range u.Files {
		field := fmt.Sprintf("files[%d].", i)
		above := slices.Collect(foldersOf(f.Name))
		inFile := slices.ContainsFunc(above, func(folder string) bool { return names[folder] })
		switch {
		case !validFile(f.Name) || names[f.Name] || folders[f.Name] || inFile:
			return wrong(field+"name", "the path of another file relative to the version's directory, with slashes, of "+
				"printable characters, and of names that begin with no dot and have at most 255 bytes", strconv.Quote(f.Name))
		case f.Bytes < 0 || f.Bytes > left:
			return wrong(field+"bytes", fmt.Sprintf("at most %d bytes in all files together (--max-upload-bytes)",
				r.mostUploaded), fmt.Sprintf("%d after %d", f.Bytes, r.mostUploaded-left))
		case len(f.SHA256) != sha256.Size:
			return wrong(field+"sha256", "32 bytes", strconv.Itoa(len(f.SHA256)))
		}
		names[f.Name] = true
		for _, folder := range above {
			folders[folder] = true
		}
		left -= f.Bytes
	}
	return nil
}

// isPipeline reports whether an upload is of a pipeline.
func isPipeline(u *catalog.Upload) bool {
	return slices.ContainsFunc(u.Files, func(f catalog.UploadFile) bool { return f.Name == PipelineFile })
}

// foldersOf yields the folders that a file lies in, below the version's.
func foldersOf(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := path.Dir(name); at != "." && at != "/" && yield(at); at = path.Dir(at) {
		}
	}
}

// validFile reports whether a file of a version may be called so. Its line in SHA256SUMS needs no escape then.
func validFile(name string) bool {
	elements := strings.Split(name, "/")
	tooLong := func(element string) bool { return len(element) > 255 } // file systems have no longer ones
	return elements[0] != sumsFile && !slices.ContainsFunc(elements, tooLong) && len(name) <= 1024 &&
		path.Clean(name) == name && filepath.IsLocal(name) && !hidden(name) &&
		strings.Count(name, "/") < maxDepth-1 &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '\uFFFD' })
}

// home returns the directory of the repository that the model lies in, or is to.
func (r *Repository) home(u *catalog.Upload) (string, error) {
	refuse := func(why string) error {
		return &catalog.UploadError{Model: u.Model, Version: u.Version, Reason: catalog.NotWritable, Why: why}
	}
	if r.file != "" {
		listed, _ := r.scanListed(newSettling(0, 0))
		if slices.ContainsFunc(listed, func(m Model) bool { return m.Name == u.Model }) {
			return "", refuse("a model config file says where it lies; put the version there")
		}
	}
	if len(r.paths) == 0 {
		return "", refuse("the server has no repository, only a model config file; start it with one")
	}
	for _, home := range r.paths {
		info, err := os.Lstat(filepath.Join(home, u.Model))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", refuseUpload(u, err)
		case !info.IsDir():
			return "", refuse("what the repository has by that name is a link, or no directory; put the version where it leads")
		}
		return home, nil
	}
	return r.paths[0], nil
}

// refuseUpload is the error of an upload that the file system does not let happen.
func refuseUpload(u *catalog.Upload, err error) error {
	return &catalog.UploadError{
		Model: u.Model, Version: u.Version, Reason: catalog.NotWritable, Cause: err,
		Why: "the server cannot write to the repository; let its user write there, and see to it that the disk has room",
	}
}

// receiving is an upload under way.
type receiving struct {
	catalog.Upload
	repository *Repository
	root       *rooted.Root // of the directory of models
	home       string       // its path
	folder     string       // what the upload is written to, below root
	lock       *os.File     // of folder
}

// begin makes the folder, in that of the model if there is one: it may be a mounted file system. It removes what
// processes that were killed left there.
func (u *receiving) begin() (err error) {
	r := u.repository
	r.uploading.Lock()
	defer r.uploading.Unlock()
	if r.uploads == maxUploads {
		return &catalog.UploadError{
			Model: u.Model, Version: u.Version, Reason: catalog.TooManyUploads,
			Why: fmt.Sprintf("%d uploads are under way, as many as may at once; try again when one has ended", maxUploads),
		}
	}
	if u.Version > 0 {
		if err := u.mustBeNew(u.Version); err != nil {
			return err
		}
	}
	sweep(u.root, uploadDir+"*", path.Join(u.Model, uploadDir+"*"))
	var in string
	if _, err := u.root.Lstat(u.Model); err == nil {
		in = u.Model
	}
	if err := u.checkRoom(in); err != nil {
		return err
	}
	u.folder = path.Join(in, uploadDir+rand.Text())
	err = u.root.Mkdir(u.folder, 0o755)
	if err == nil {
		u.lock, _, err = lockUpload(u.root, u.folder)
	}
	if err == nil {
		err = u.root.Mkdir(path.Join(u.folder, uploaded), 0o755)
	}
	if err != nil {
		u.discard()
		return refuseUpload(&u.Upload, err)
	}
	r.uploads++
	return nil
}

// checkRoom refuses an upload that there is no room for in a folder, before the content comes. What other uploads are
// still to bring is not known to it: then the disk may become full, and those fail that need it.
func (u *receiving) checkRoom(in string) error {
	folder, err := u.root.Open(cmp.Or(in, "."))
	if err != nil {
		return refuseUpload(&u.Upload, err)
	}
	defer folder.Close()
	free, known := u.repository.free(folder)
	need := int64(leftFree)
	for _, f := range u.Files {
		need += f.Bytes
	}
	if u.Own || !known || free >= need {
		return nil
	}
	const mebibyte = 1 << 20
	return &catalog.UploadError{
		Model: u.Model, Version: u.Version, Reason: catalog.NotWritable,
		Why: fmt.Sprintf("the disk has %.1f MiB free, and it needs %.1f MiB, %d of which stay free; remove versions that "+
			"nobody needs from the repository", float64(free)/mebibyte, float64(need)/mebibyte, leftFree/mebibyte),
	}
}

// end removes what is left of the folder.
func (u *receiving) end() {
	r := u.repository
	r.uploading.Lock()
	defer r.uploading.Unlock()
	r.uploads--
	u.discard()
}

func (u *receiving) discard() {
	_ = u.root.RemoveAll(u.folder) // what is left is removed by sweep
	if u.lock != nil {
		_ = u.lock.Close()
	}
}

// read writes the content into the folder, and checks it.
func (u *receiving) read(content io.Reader) error {
	var sums strings.Builder
	folders := map[string]bool{".": true}
	for i, f := range u.Files {
		for folder := range foldersOf(f.Name) {
			folders[folder] = true
		}
		if err := u.root.MkdirAll(path.Join(u.folder, uploaded, path.Dir(f.Name)), 0o755); err != nil {
			return refuseUpload(&u.Upload, err)
		}
		if err := u.file(i, &f, content); err != nil {
			return err
		}
		if f.Name == ModelFile && !u.Own {
			if err := u.checkModel(f.Bytes); err != nil {
				return err
			}
		}
		fmt.Fprintf(&sums, "%x  %s\n", f.SHA256, f.Name)
	}
	if n, err := io.ReadFull(content, make([]byte, 1)); n > 0 {
		return &tensor.FieldError{Field: "chunk", Want: "no byte after the last file", Got: "more"}
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	if isPipeline(&u.Upload) {
		listed, err := u.joined()
		if err != nil {
			return err
		}
		sums.Reset()
		sums.Write(listed)
	}
	err := u.write(path.Join(u.folder, uploaded, sumsFile), func(to io.Writer) error {
		_, err := io.WriteString(to, sums.String())
		return err
	})
	for folder := range folders {
		err = errors.Join(err, syncDir(u.root, path.Join(u.folder, uploaded, folder)))
	}
	if err != nil {
		return refuseUpload(&u.Upload, err)
	}
	return nil
}

// joined joins the steps of a pipeline, as they are in the repository now, and returns the SHA256SUMS of their files.
func (u *receiving) joined() (sums []byte, err error) {
	dir := path.Join(u.folder, uploaded)
	file, err := u.root.Open(path.Join(dir, PipelineFile))
	if err != nil {
		return nil, refuseUpload(&u.Upload, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, int64(config.MaxSize)+1)) // larger ones are refused below
	if err != nil {
		return nil, refuseUpload(&u.Upload, err)
	}
	v := Version{Model: u.Model, Dir: filepath.Join(u.home, dir), Path: PipelineFile} // its name in faults
	if v.Pipeline, v.Err = ReadPipeline(v.Path, text); v.Err == nil {
		for _, s := range v.Pipeline.Steps {
			if err := u.mayJoin(s.Model); err != nil {
				return nil, err
			}
		}
		l := u.repository.Scan()
		l.Models = slices.DeleteFunc(l.Models, func(m Model) bool { return u.mayJoin(m.Name) != nil }) // nor hinted at
		l.resolveVersion(newSettling(0, 0), &Model{}, &v)
	}
	if v.Err == nil {
		sums, v.Err = u.repository.sums(v)
	}
	if v.Err == nil {
		return sums, nil
	}
	why := catalog.Public(v.Err, u.repository.paths...)
	if faults, is := errors.AsType[config.Faults](v.Err); is {
		why = faults.Error() // the caller knows the file
	}
	return nil, wrong("files", "a "+PipelineFile+" whose steps can be joined", "one that cannot: "+why)
}

func (u *receiving) mayJoin(model string) error {
	if u.Joins == nil {
		return nil
	}
	return u.Joins(model)
}

// checkModel refuses a model that nothing could load. It would be the newest one, which a server that starts next loads
// in the place of those before.
func (u *receiving) checkModel(size int64) error {
	file, err := u.root.Open(path.Join(u.folder, uploaded, ModelFile))
	if err != nil {
		return refuseUpload(&u.Upload, err)
	}
	defer file.Close()
	names, err := u.repository.needs(file, size)
	if err != nil {
		return wrong("files", "a "+ModelFile+" that can be loaded", "one that cannot: "+err.Error())
	}
	for _, name := range names {
		if !slices.ContainsFunc(u.Files, func(f catalog.UploadFile) bool { return f.Name == name }) {
			return wrong("files", fmt.Sprintf("the file %q among them, where %s has external data", name, ModelFile),
				"none; upload it with the model, as a folder that has both")
		}
	}
	return nil
}

// file writes one of the files.
func (u *receiving) file(i int, f *catalog.UploadFile, content io.Reader) error {
	field := fmt.Sprintf("files[%d].", i)
	sum, from := sha256.New(), &faultyReader{from: io.LimitReader(content, f.Bytes)}
	var n int64
	err := u.write(path.Join(u.folder, uploaded, f.Name), func(to io.Writer) (err error) {
		n, err = io.Copy(io.MultiWriter(to, sum), from)
		return err
	})
	switch digest := sum.Sum(nil); {
	case from.err != nil:
		return from.err
	case err != nil:
		return refuseUpload(&u.Upload, err)
	case n < f.Bytes:
		return wrong(field+"bytes", fmt.Sprintf("%d bytes of %q", f.Bytes, f.Name), strconv.FormatInt(n, 10))
	case !bytes.Equal(digest, f.SHA256):
		return wrong(field+"sha256", fmt.Sprintf("the SHA-256 %x of %q", f.SHA256, f.Name),
			hex.EncodeToString(digest)+": the file changed on the way; upload it again")
	}
	return nil
}

// faultyReader remembers why it could not be read.
type faultyReader struct {
	from io.Reader
	err  error
}

func (r *faultyReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// write makes a file that is on the disk when it returns.
func (u *receiving) write(name string, fill func(io.Writer) error) error {
	file, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(fill(file), file.Sync(), file.Close())
}

func syncDir(root *rooted.Root, name string) error {
	folder, err := root.Open(name)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // the file system knows no such thing of folders, as CIFS
	}
	return errors.Join(err, folder.Close())
}

// publish gives the version its number, and its place in the repository by one rename, so that nobody sees a part of
// it.
func (u *receiving) publish() (int64, error) {
	r := u.repository
	r.uploading.Lock()
	defer r.uploading.Unlock()
	number, err := u.number()
	if err != nil {
		return 0, err
	}
	content := path.Join(u.folder, uploaded)
	from, to := content, path.Join(u.Model, strconv.FormatInt(number, 10))
	marks := map[string]string{
		to: takePrints(u.root, content, func(string, fs.FileInfo) {}).all,
	}
	// A model that is not there yet gets its place with its first version in it.
	if _, err := u.root.Lstat(u.Model); errors.Is(err, fs.ErrNotExist) {
		if err := u.root.Rename(content, path.Join(u.folder, path.Base(to))); err != nil {
			return 0, refuseUpload(&u.Upload, err)
		}
		if err := syncDir(u.root, u.folder); err != nil {
			return 0, refuseUpload(&u.Upload, err)
		}
		marks[u.Model] = (&head{}).mark()
		from, to = u.folder, u.Model
	}
	r.mu.Lock()
	for name, mark := range marks {
		r.complete[filepath.Join(u.home, name)] = mark
	}
	r.mu.Unlock()
	if err := u.root.Rename(from, to); err != nil {
		return 0, refuseUpload(&u.Upload, err)
	}
	_ = syncDir(u.root, path.Dir(to)) // it is there; only after a loss of power it may not be
	r.look()
	return number, nil
}

// number returns the version's number, which the repository does not have. The caller holds Repository.uploading.
func (u *receiving) number() (int64, error) {
	if u.Version > 0 {
		return u.Version, u.mustBeNew(u.Version)
	}
	highest := u.Above
	entries, err := fs.ReadDir(u.root.FS(), u.Model)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, refuseUpload(&u.Upload, err)
	}
	for _, e := range entries {
		if n, is := parseVersion(e.Name()); is {
			highest = max(highest, n)
		}
	}
	if highest == math.MaxInt64 { // somebody put it there by hand
		return 0, wrong("version", "a number, since none comes after the highest", "0")
	}
	return highest + 1, nil
}

// mustBeNew refuses a version that the repository has.
func (u *receiving) mustBeNew(number int64) error {
	_, err := u.root.Lstat(path.Join(u.Model, strconv.FormatInt(number, 10)))
	switch {
	case err == nil:
		return &catalog.UploadError{
			Model: u.Model, Version: number, Reason: catalog.VersionExists,
			Why: "the repository has it already; choose another number, or none for the next one",
		}
	case !errors.Is(err, fs.ErrNotExist):
		return refuseUpload(&u.Upload, err)
	}
	return nil
}

// isComplete reports whether Receive wrote something as it looks now, and forgets that.
func (r *Repository) isComplete(what, mark string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.complete[what] != mark {
		return false
	}
	delete(r.complete, what)
	return true
}
