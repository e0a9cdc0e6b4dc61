package modelrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

const (
	// maxDepth and maxFiles bound the look at one version directory: of further files only the names count, and files
	// that lie deeper are not noticed.
	maxDepth = 8
	maxFiles = 10_000
)

// prints distinguish one state of a directory from another without reading its files.
type prints struct {
	// files covers the files that a model may be made of.
	files string
	// all covers dot files too: programs that copy call a file so until it is complete.
	all string
	// pipeline: there is a pipeline.yaml.
	pipeline bool
}

// walk takes prints.
type walk struct {
	root       *rooted.Root
	files, all hash.Hash
	count      int // of the files that were looked at, or passed over beyond maxFiles
	// the directories that lead to where the walk is: a link may lead back to one
	above   []fs.FileInfo
	entered func(dir string, info fs.FileInfo) // is called with each directory
	looked  func(file string)                  // is called with each regular file that a model may be made of; may be nil

	pipeline bool // there is a pipeline.yaml
}

// takePrints reads the state of the directory dir of root. It follows links as far as root does.
func takePrints(root *rooted.Root, dir string, entered func(dir string, info fs.FileInfo)) prints {
	w := walk{root: root, files: sha256.New(), all: sha256.New(), entered: entered}
	info, err := root.Stat(dir)
	w.visit(dir, "", info, err)
	return prints{files: sum(w.files), all: sum(w.all), pipeline: w.pipeline}
}

// openForWriting returns a file below the directory dir of root that a program has open for writing, where that can be
// known; "": there is none.
func openForWriting(root *rooted.Root, dir string) (found string) {
	w := walk{root: root, files: sha256.New(), all: sha256.New(), entered: func(string, fs.FileInfo) {}}
	w.looked = func(name string) {
		if found != "" {
			return
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return // the load of the version says why
		}
		defer f.Close() // it was only read
		if rooted.Written(f) {
			found = name
		}
	}
	info, err := root.Stat(dir)
	w.visit(dir, "", info, err)
	return found
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// visit adds one name, and everything below it.
func (w *walk) visit(name, below string, info fs.FileInfo, err error) {
	if err == nil && info.IsDir() {
		w.enter(name, below, info)
		return
	}
	if err != nil {
		w.add(below, err.Error())
		return
	}
	if w.looked != nil && info.Mode().IsRegular() && !hidden(below) {
		w.looked(name)
	}
	w.pipeline = w.pipeline || below == PipelineFile
	w.add(below, fmt.Sprint(info.Mode().Type(), info.Size(), info.ModTime().UnixNano(), identity(info)))
}

func (w *walk) enter(name, below string, info fs.FileInfo) {
	again := slices.ContainsFunc(w.above, func(above fs.FileInfo) bool { return os.SameFile(above, info) })
	if again || len(w.above) == maxDepth {
		return
	}
	w.entered(name, info)
	folder, entries, err := w.open(name)
	if err != nil {
		w.add(below, err.Error())
		return
	}
	defer folder.Close() // it was only read
	w.above = append(w.above, info)
	for _, e := range entries {
		name, below := path.Join(name, e.Name()), path.Join(below, e.Name())
		if w.count++; w.count > maxFiles {
			w.add(below, "")
			continue
		}
		// A link may lead out of the folder; anything else is found in it, which is quicker than by its whole path.
		if e.Type().IsRegular() {
			info, err = folder.Lstat(e.Name())
		} else {
			info, err = w.root.Stat(name)
		}
		w.visit(name, below, info, err)
	}
	w.above = w.above[:len(w.above)-1]
}

// open returns a directory and its entries, in the order in which they are to be looked at: the model first, however
// many files there are, and the others by name.
func (w *walk) open(name string) (*rooted.Root, []fs.DirEntry, error) {
	folder, err := w.root.OpenRoot(name)
	if err != nil {
		return nil, nil, err
	}
	entries, err := entriesOf(folder, ".")
	if err != nil {
		_ = folder.Close()
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		switch ModelFile {
		case a.Name():
			return -1
		case b.Name():
			return 1
		}
		return byName(a, b)
	})
	return folder, entries, nil
}

func (w *walk) add(below, state string) {
	line := fmt.Appendf(nil, "%q %q\n", below, state)
	w.all.Write(line)
	if !hidden(below) {
		w.files.Write(line)
	}
}

// hidden reports whether a file or a directory above it is a dot file.
func hidden(below string) bool { return strings.HasPrefix(below, ".") || strings.Contains(below, "/.") }

// identity distinguishes a file from another one that took its name.
func identity(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(stat.Dev, ":", stat.Ino)
	}
	return ""
}
