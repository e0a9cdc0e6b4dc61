package archtest

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// digest is what a tokens file knows a token by, and SHA256SUMS a file.
var digest = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// pasted wants each digest in a page to be of zeros: an example that is pasted into a tokens file must let nobody in,
// and nobody can tell by its look that a digest is of a word such as "test".
func pasted(root fs.FS) []string {
	var complaints []string
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		for _, found := range digest.FindAllString(string(text), -1) {
			if strings.Trim(found, "0") != "" {
				complaints = append(complaints, fmt.Sprintf("%s has the digest %s: write zeros, which match nothing", name, found))
			}
		}
		return err
	})
	if err != nil {
		complaints = append(complaints, err.Error())
	}
	return complaints
}

func TestPasted(t *testing.T) {
	for _, complaint := range pasted(root) {
		t.Error(complaint)
	}
}

func TestPastedComplains(t *testing.T) {
	zeros := strings.Repeat("0", 64)
	files := fstest.MapFS{
		"docs/A.md": {Data: []byte("a sha256:" + zeros + " b")}, "docs/B.md": {Data: []byte("x " + zeros[:63] + "1\n")},
	}
	if got := pasted(files); len(got) != 1 || !strings.HasPrefix(got[0], "docs/B.md has the digest 000") {
		t.Errorf("%q", got)
	}
}
