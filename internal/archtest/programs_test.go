package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// programs finds built programs and libraries, which belong into bin/ and .weft/, which git ignores.
func programs(root fs.FS) (complaints []string, err error) {
	ignored := []string{".git", ".weft", "bin", "node_modules"}
	magics := [][]byte{
		[]byte("\x7fELF"), []byte("MZ"), {0xcf, 0xfa, 0xed, 0xfe}, {0xca, 0xfe, 0xba, 0xbe}, []byte("!<arch>\n"),
	}
	err = fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(ignored, d.Name()) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		f, err := root.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		begins := make([]byte, 8)
		n, _ := f.Read(begins) // an empty file has none
		if slices.ContainsFunc(magics, func(m []byte) bool { return bytes.HasPrefix(begins[:n], m) }) {
			complaints = append(complaints, path+": a built program or library; remove it, and build into bin/")
		}
		return nil
	})
	return complaints, err
}

func TestPrograms(t *testing.T) {
	complaints, err := programs(os.DirFS("../.."))
	if err != nil || len(complaints) > 0 {
		t.Error(err, strings.Join(complaints, "\n"))
	}
}

func TestProgramsComplain(t *testing.T) {
	elf := &fstest.MapFile{Data: []byte("\x7fELF\x02\x01")}
	complaints, err := programs(fstest.MapFS{
		"scripts/tool/tool": elf, "bin/weft": elf, ".weft/lib.so": elf, "a.go": {Data: []byte("package a")}, "empty": {},
	})
	if err != nil || len(complaints) != 1 || !strings.HasPrefix(complaints[0], "scripts/tool/tool:") {
		t.Errorf("%v, %q", err, complaints)
	}
}
