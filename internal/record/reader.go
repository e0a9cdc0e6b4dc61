package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Reader reads recordings. It is not safe for use by several goroutines at once.
type Reader struct {
	files []string
	spans map[time.Time]*span

	name string // of the file that is read, or was read last
	head Header // of the last file that has one

	total int64 // bytes of all files when they were listed
	past  int64 // bytes of the files that were read
	scan  *scan // of the file that is read; nil between files
}

// span is the part of one recording that was read: how many entries the Writer had missed when the first file of it
// began, and at the last entry.
type span struct{ first, last int64 }

// Open looks for the files of recordings. A directory stands for the files of its own that are named as the Writer
// names them. They are read in the order of their names without the directory, which is that of time.
func Open(paths ...string) (*Reader, error) {
	r := &Reader{spans: map[time.Time]*span{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		// A named file is read whatever its name is.
		if !info.IsDir() {
			r.files = append(r.files, path)
			r.total += info.Size()
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
		none := true
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), suffix) {
				r.files = append(r.files, filepath.Join(path, entry.Name()))
				none = false
				if info, err := entry.Info(); err == nil { // else it is gone already
					r.total += info.Size()
				}
			}
		}
		if none {
			return nil, fmt.Errorf("record: %s: no file in it ends in %s; name a directory that `weft serve --record` wrote to",
				path, suffix)
		}
	}
	slices.SortStableFunc(r.files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return r, nil
}

// Files returns the names of the files in the order in which they are read.
func (r *Reader) Files() []string { return slices.Clone(r.files) }

// File returns the name of the file that is being read, or was read last.
func (r *Reader) File() string { return r.name }

// Header returns the header of the file that the last entry came from.
func (r *Reader) Header() Header { return r.head }

// Entries reads from the first file to the last. Damage comes as a *DamageError with a nil entry; then the next file
// follows.
func (r *Reader) Entries() iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		r.past = 0
		for _, name := range r.files {
			if !r.file(name, yield) {
				return
			}
		}
	}
}

// Progress returns how many bytes of the files were read since Entries began, and how many there are. Files that were
// being written when they were listed may hold more.
func (r *Reader) Progress() (read, total int64) {
	read = r.past
	if r.scan != nil {
		read += r.scan.offset
	}
	return min(read, r.total), r.total
}

// Missed returns how many entries the Writer could not record in the time that the files read so far cover.
func (r *Reader) Missed() int64 {
	sum := int64(0)
	for _, s := range r.spans {
		sum += s.last - s.first
	}
	return sum
}

// MissedBefore returns how many entries the Writer could not record before the first file of each recording that was
// read: some of them in the time of earlier files, if there were any.
func (r *Reader) MissedBefore() int64 {
	sum := int64(0)
	for _, s := range r.spans {
		sum += s.first
	}
	return sum
}

// file reads one file, and returns false if the caller wants no more. Damage ends the file and not the reading.
func (r *Reader) file(name string, yield func(*Entry, error) bool) bool {
	r.name = name
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = errGone
	}
	if err != nil {
		return yield(nil, &DamageError{File: name, Err: err})
	}
	defer f.Close()
	s, err := newScan(f)
	if err != nil {
		return yield(nil, &DamageError{File: name, Err: err})
	}
	size := s.left
	r.scan = s
	defer func() {
		r.scan = nil
		r.past += size
	}()
	header, err := s.header()
	if err != nil {
		return yield(nil, &DamageError{File: name, Offset: s.offset, Err: err})
	}
	r.head = *header
	// Files of one recording share the time at which it started.
	seen := r.spans[header.Started]
	if seen == nil {
		seen = &span{first: header.Missed}
		r.spans[header.Started] = seen
	}
	// Files may be read in any order, and counts only grow.
	seen.last = max(seen.last, header.Missed)
	for {
		e, err := s.entry()
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return yield(nil, &DamageError{File: name, Offset: s.offset, Err: err})
		}
		seen.last = max(seen.last, e.Missed)
		if !yield(e, nil) {
			return false
		}
	}
}

// scan reads the frames of one file, up to the size that it had when it was opened: its writer may be writing still.
type scan struct {
	in     *bufio.Reader
	offset int64 // of the frame that is read next, or that is wrong
	left   int64 // bytes from there to the end, as it was when the file was opened
}

// newScan returns a scan of a regular file. A pipe has no size to compare with.
func newScan(f *os.File) (*scan, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file; expected one that `weft serve --record` wrote")
	}
	return &scan{in: bufio.NewReaderSize(f, 1<<18), left: info.Size()}, nil
}

// header reads the preamble and the first frame.
func (s *scan) header() (*Header, error) {
	preamble := make([]byte, min(int64(preambleBytes), s.left))
	if err := s.read(preamble); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(string(preamble), magic) {
		return nil, errMagic
	}
	if len(preamble) < preambleBytes {
		return nil, errTorn
	}
	// The version comes before all that could differ between versions.
	if version := little.Uint32(preamble[len(magic):]); version != formatVersion {
		return nil, fmt.Errorf("the format has version %d; expected %d: read it with the release of Weft that wrote it",
			version, formatVersion)
	}
	s.advance(preambleBytes)
	payload, err := s.frame()
	if errors.Is(err, io.EOF) {
		err = errTorn
	}
	if err != nil {
		return nil, err
	}
	h := &Header{}
	if err := json.Unmarshal(payload, h); err != nil {
		return nil, err
	}
	s.advance(frameBytes + len(payload))
	return h, nil
}

// entry reads the next entry, or returns io.EOF at the end of the file.
func (s *scan) entry() (*Entry, error) {
	payload, err := s.frame()
	if err != nil {
		return nil, err
	}
	e, err := parseEntry(payload)
	if err != nil {
		return nil, err
	}
	s.advance(frameBytes + len(payload))
	return e, nil
}

// frame returns the next payload, or io.EOF if the file ends behind a frame. It does not advance: offset stays at a
// frame that is wrong. It allocates no more than the file has left, whatever the length says.
func (s *scan) frame() ([]byte, error) {
	if s.left == 0 {
		return nil, io.EOF
	}
	head := make([]byte, frameBytes)
	if err := s.read(head); err != nil {
		return nil, err
	}
	length := int64(little.Uint32(head))
	if length > s.left-frameBytes {
		return nil, errTorn // or its length is wrong, which comes to the same
	}
	payload := make([]byte, length)
	if err := s.read(payload); err != nil {
		return nil, err
	}
	if checksum(head[:4], payload) != little.Uint32(head[4:]) {
		return nil, errChecksum
	}
	return payload, nil
}

// read fills b. An end of the file within it is torn.
func (s *scan) read(b []byte) error {
	_, err := io.ReadFull(s.in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// advance moves the offset behind what was read without a fault.
func (s *scan) advance(n int) {
	s.offset += int64(n)
	s.left -= int64(n)
}

var (
	errMagic    = errors.New("it is no recording of Weft; expected a file that `weft serve --record` wrote")
	errTorn     = errors.New("the file ends within an entry: its writer was cut off, or is still writing")
	errChecksum = errors.New("the checksum of an entry is wrong")
	errGone     = errors.New(
		"it was deleted since the files were listed, as a server that records into the folder does when they " +
			"reach its record-limit; copy what is to be kept to another folder")
)

// DamageError says from where on a file could not be read.
type DamageError struct {
	File   string
	Offset int64 // bytes
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: left out from byte %d on: %v", e.File, e.Offset, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }
