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
)

const (
	// maxDepth and maxFiles bound what is looked at in one version directory; what lies beyond is not noticed.
	maxDepth = 8
	maxFiles = 10_000
)

// prints are what tells one state of a directory from another without reading its files.
type prints struct {
	// files covers what a model may be made of.
	files string
	// all covers dot files too: programs that copy call a file so until it is complete.
	all string
}

// walk takes prints.
type walk struct {
	root       *os.Root
	files, all hash.Hash
	count      int
	above      []fs.FileInfo                      // the directories that lead to where the walk is: a link may lead back to one
	entered    func(dir string, info fs.FileInfo) // is called with each directory
}

// takePrints reads the state of the directory dir of root. It follows links as far as root does.
func takePrints(root *os.Root, dir string, entered func(dir string, info fs.FileInfo)) prints {
	w := walk{root: root, files: sha256.New(), all: sha256.New(), entered: entered}
	info, err := root.Stat(dir)
	w.visit(dir, "", info, err)
	return prints{files: sum(w.files), all: sum(w.all)}
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// visit adds one name, and what lies below it.
func (w *walk) visit(name, below string, info fs.FileInfo, err error) {
	if w.count++; w.count > maxFiles {
		return
	}
	if err == nil && info.IsDir() {
		w.enter(name, below, info)
		return
	}
	if err != nil {
		w.add(below, err.Error())
		return
	}
	w.add(below, fmt.Sprint(info.Mode().Type(), info.Size(), info.ModTime().UnixNano(), identity(info)))
}

func (w *walk) enter(name, below string, info fs.FileInfo) {
	again := slices.ContainsFunc(w.above, func(above fs.FileInfo) bool { return os.SameFile(above, info) })
	if again || len(w.above) == maxDepth {
		return
	}
	w.entered(name, info)
	folder, err := w.root.Open(name)
	var names []string
	if err == nil {
		names, err = folder.Readdirnames(-1)
		_ = folder.Close() // it was only read
	}
	if err != nil {
		w.add(below, err.Error())
		return
	}
	slices.Sort(names)
	w.above = append(w.above, info)
	for _, n := range names {
		info, err := w.root.Stat(path.Join(name, n))
		w.visit(path.Join(name, n), path.Join(below, n), info, err)
	}
	w.above = w.above[:len(w.above)-1]
}

func (w *walk) add(below, state string) {
	line := fmt.Appendf(nil, "%q %q\n", below, state)
	w.all.Write(line)
	if !strings.HasPrefix(below, ".") && !strings.Contains(below, "/.") {
		w.files.Write(line)
	}
}

// identity tells a file from another one that took its name.
func identity(info fs.FileInfo) string {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(stat.Dev, ":", stat.Ino)
	}
	return ""
}
