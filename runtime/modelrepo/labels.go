package modelrepo

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weftserve/weft/internal/config"
)

// WriteLabels makes labels the only ones in the model's manifest, whatever m says of it; where there is no manifest it makes
// one. Everything else in the file stays as it is, comments too. A reader sees the old file or the new one, never a part,
// also after a crash. It is not for two callers at once on one model.
//
// The error says why the labels are not written; the file is as it was then. One reason is that the manifest would be
// faulty, such as a label of a version that m does not have or that the policy excludes.
func WriteLabels(m *Model, labels map[string]int64) error {
	if err := writeLabels(m, labels); err != nil {
		return fmt.Errorf("the labels of model %s are not written: %w", m.Name, err)
	}
	return nil
}

func writeLabels(m *Model, labels map[string]int64) error {
	path := filepath.Join(m.Dir, ManifestName)
	root, err := os.OpenRoot(m.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	before, err := root.Lstat(ManifestName)
	var text []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		before = nil
	case err != nil:
		return unreadable(path, err)
	case before.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link, which would be replaced; change the file that it leads to", path)
	case !before.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case before.Mode().Perm()&0o222 == 0:
		return fmt.Errorf("%s is read-only", path)
	default:
		if text, err = readManifest(root, ManifestName); err != nil {
			return unreadable(path, err)
		}
	}
	changed, err := config.SetNumbers(path, text, "versions", "labels", labels)
	if err != nil {
		return err
	}
	manifest, err := ReadManifest(path, changed)
	if err != nil {
		return fmt.Errorf("the manifest would be faulty: %w", err)
	}
	if _, missing, faults := manifest.choose(m.Versions); len(missing)+len(faults) > 0 {
		return fmt.Errorf("the manifest would be faulty: %w", append(missing, faults...))
	}
	if bytes.Equal(changed, text) {
		return nil
	}
	return replaceFile(root, path, before, changed)
}

// replaceFile gives the manifest a new text. before is what it was when its text was read, nil if there was none.
func replaceFile(root *os.Root, path string, before fs.FileInfo, text []byte) (err error) {
	temporary := "." + ManifestName + "." + rand.Text()
	defer func() {
		if err != nil {
			_ = root.Remove(temporary) // it may not be there, and the first error tells more
		}
	}()
	if err := writeFile(root, temporary, before, text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(filepath.Dir(path), temporary), err)
	}
	now, err := root.Lstat(ManifestName)
	if !(before == nil && errors.Is(err, fs.ErrNotExist)) && !(before != nil && err == nil && unchanged(before, now)) {
		return fmt.Errorf("%s was changed by somebody else meanwhile; try again", path)
	}
	if err := root.Rename(temporary, ManifestName); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func unchanged(before, now fs.FileInfo) bool {
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

// writeFile makes a file, durably, with mode and owner of another one if there is one.
func writeFile(root *os.Root, name string, like fs.FileInfo, text []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if like != nil {
		err = f.Chmod(like.Mode().Perm())
		if owner, ok := like.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(owner.Uid), int(owner.Gid)) // only the superuser may; others keep their own name on it
		}
	}
	if err == nil {
		_, err = f.Write(text)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readManifest reads a manifest, and one byte more than is accepted, so that a longer file is refused and not cut off.
func readManifest(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(config.MaxSize)+1))
}
