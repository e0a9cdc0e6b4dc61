package modelrepo

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/weftserve/weft/runtime/modelrepo/rooted"
)

// readDir returns the entries of a directory that are worth keeping, sorted by name, without the ones that are nobody's
// model: dot files, which editors and Kubernetes volumes leave, and the lost+found of a mounted file system.
func readDir(root *rooted.Root, dir string, keep func(fs.DirEntry) bool) ([]fs.DirEntry, error) {
	entries, err := entriesOf(root, dir)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return strings.HasPrefix(e.Name(), ".") || e.Name() == "lost+found" || !keep(e)
	})
	slices.SortFunc(entries, byName)
	return entries, nil
}

func byName(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }

// entriesOf returns the entries of a directory, in no order, with names and types only, as the directory itself has
// them: their Info is to be had from root. It does not look at each entry, as a file of a root does when it is
// listed, which takes ten times as long.
func entriesOf(root *rooted.Root, dir string) ([]fs.DirEntry, error) {
	opened, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer opened.Close() // it was only read
	fd, err := syscall.Dup(int(opened.Fd()))
	if err != nil {
		return nil, &fs.PathError{Op: "dup", Path: dir, Err: err}
	}
	syscall.CloseOnExec(fd)
	folder := os.NewFile(uintptr(fd), opened.Name())
	defer folder.Close()
	return folder.ReadDir(-1)
}
