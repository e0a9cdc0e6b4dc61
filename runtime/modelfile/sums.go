package modelfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SumsName is the file of a version's directory that lists the SHA-256 of its files, as sha256sum(1) does.
const SumsName = "SHA256SUMS"

// maxSums bounds that file, in bytes.
const maxSums = 16 << 20

// ErrDigest says that a file does not have the digest that SHA256SUMS lists, or that none is listed.
var ErrDigest = errors.New("its digest is not confirmed")

// Load is Read, and refuses a version whose files differ from its SHA256SUMS. One that has none is refused if digests
// are required.
func Load(ctx context.Context, from Place, required bool, told func(done, of int64)) (*Files, error) {
	f, err := Read(ctx, from, told)
	if err != nil {
		return nil, err
	}
	if err := f.verify(required); err != nil {
		_ = f.Close() // it was not used
		return nil, err
	}
	return f, nil
}

// verify compares the files with the lists that there are: the version's own, and those of its parts.
func (f *Files) verify(required bool) error {
	if f.from.Joint != nil {
		for _, p := range f.from.Joint.Parts {
			if err := f.verifyBy(p.Place, p.Name+"/", false); err != nil {
				return err
			}
		}
	}
	return f.verifyBy(f.from, "", required)
}

// verifyBy compares the files whose names begin with prefix with the list of a version.
func (f *Files) verifyBy(p Place, prefix string, required bool) error {
	dir, path := p.Dir, p.path(SumsName)
	listed, err := p.readSums()
	switch {
	case errors.Is(err, fs.ErrNotExist) && !required:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w: --require-digests is set, and there is no %s; write it with `weft seal %s`", dir,
			ErrDigest, SumsName, dir)
	case err != nil:
		return fmt.Errorf("%s: %w; put the right list there, or write one of these files with `weft seal --replace %s`", path,
			err, dir)
	}
	for _, file := range f.List {
		name, of := strings.CutPrefix(file.Name, prefix)
		want, is := listed[name]
		switch {
		case !of:
		case !is:
			return fmt.Errorf("%s: %w: %s does not list it; if it belongs to the model, run `weft seal --replace %s`",
				f.pathOf(file), ErrDigest, path, dir)
		case want != file.SHA256:
			return fmt.Errorf("%s: %w: it has the SHA-256 %x, and %s lists %x; put the right file there, or, if this is "+
				"the right one, run `weft seal --replace %s`", f.pathOf(file), ErrDigest, file.SHA256, path, want, dir)
		}
	}
	return nil
}

// pathOf returns where a file was read from.
func (f *Files) pathOf(file File) string {
	for _, s := range f.seen {
		if s.name == file.Name {
			return s.path()
		}
	}
	return f.from.path(file.Name)
}

// Differences says in what a version's SHA256SUMS differs from its files: nothing if there is none.
func (f *Files) Differences() (all []string) {
	listed, err := f.from.readSums()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []string{err.Error()}
	}
	for _, file := range f.List {
		switch want, is := listed[file.Name]; {
		case !is:
			all = append(all, file.Name+" is not listed")
		case want != file.SHA256:
			all = append(all, fmt.Sprintf("%s has the SHA-256 %x, and %x is listed", file.Name, file.SHA256, want))
		}
		delete(listed, file.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		all = append(all, name+" is listed, and is no file of the model")
	}
	return all
}

// readSums reads a version's SHA256SUMS, by name. The error is fs.ErrNotExist, wrapped, if there is none.
func (p Place) readSums() (map[string][sha256.Size]byte, error) {
	r := &reader{}
	defer r.leave()
	root, below, err := r.root(p)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(filepath.Join(below, SumsName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSums))
	if err != nil {
		return nil, err
	}
	return ParseSums(text)
}

// ParseSums reads the text of a SHA256SUMS, by name.
func ParseSums(text []byte) (map[string][sha256.Size]byte, error) {
	listed := map[string][sha256.Size]byte{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		name, sum, ok := parseSum(line)
		if before, twice := listed[name]; !ok || twice && before != sum {
			return nil, fmt.Errorf("line %d is no digest and name as sha256sum writes them, or contradicts another", i+1)
		}
		listed[name] = sum
	}
	return listed, nil
}

// parseSum reads a line of sha256sum: digits, a blank, a blank or an asterisk, and the name, with a backslash in front
// if one is in the name.
func parseSum(line string) (name string, sum [sha256.Size]byte, ok bool) {
	line, escaped := strings.CutPrefix(line, `\`)
	digits, name, ok := strings.Cut(line, " ")
	if !ok || len(digits) != 2*sha256.Size || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
		return "", sum, false
	}
	if _, err := hex.Decode(sum[:], []byte(digits)); err != nil {
		return "", sum, false
	}
	name = name[1:]
	if escaped {
		name = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(name)
	}
	return filepath.Clean(name), sum, true
}

// escape returns the form of a name in SHA256SUMS, and what precedes its line.
func escape(name string) (before, escaped string) {
	escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(name)
	if escaped != name {
		before = `\`
	}
	return before, escaped
}

// WriteSums writes a version's SHA256SUMS, in one step.
func WriteSums(dir string, sums []byte) (err error) {
	temporary, err := os.CreateTemp(dir, "."+SumsName+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(sums)
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close())
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), filepath.Join(dir, SumsName))
}
