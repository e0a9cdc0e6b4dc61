package archtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// pinned wants everything that is fetched to be named by a version and, wherever its fetcher can compare one, a
// digest: Go modules, npm packages, ONNX Runtime, Python packages, actions of workflows and images of containers.
// Nothing else may be fetched by make or by a script.
func pinned(root fs.FS) (complaints []string) {
	for _, check := range []func(fs.FS) ([]string, error){
		pinnedModules, pinnedPackages, pinnedLibrary, pinnedWheels, pinnedActions, pinnedImages, noOtherFetches,
	} {
		found, err := check(root)
		if err != nil {
			found = append(found, err.Error())
		}
		complaints = append(complaints, found...)
	}
	return complaints
}

var required = regexp.MustCompile(`(?m)^(?:require )?\s*([\w.-]+\.[\w.-]+/\S+) (v\S+)`)

// ourselves is how the laboratory requires the module that it lies in.
const ourselves = "require " + module + " v0.0.0\n\nreplace " + module + " => ../..\n"

// pinnedModules wants a sum of each module that a go.mod requires, and none that is replaced.
func pinnedModules(root fs.FS) (complaints []string, err error) {
	for _, folder := range []string{".", "tools", "scripts/packages/nfpm", "scripts/fleet", laboratory} {
		mod, err := fs.ReadFile(root, path.Join(folder, "go.mod"))
		if err != nil {
			return nil, err
		}
		sums, err := fs.ReadFile(root, path.Join(folder, "go.sum"))
		if err != nil {
			return nil, err
		}
		name := path.Join(folder, "go.mod")
		if folder == laboratory {
			mod = bytes.Replace(mod, []byte(ourselves), nil, 1)
		}
		if strings.Contains(string(mod), "replace ") {
			complaints = append(complaints, name+": a module is replaced; require a version that has a sum")
		}
		for _, m := range required.FindAllStringSubmatch(string(mod), -1) {
			// A module that no package is built of needs only the sum of its go.mod.
			if !strings.Contains(string(sums), m[1]+" "+m[2]+" h1:") &&
				!strings.Contains(string(sums), m[1]+" "+m[2]+"/go.mod h1:") {
				complaints = append(complaints, fmt.Sprintf("%s: %s %s has no sum in go.sum; run go mod tidy", name, m[1], m[2]))
			}
		}
	}
	return complaints, nil
}

var exact = regexp.MustCompile(`^\d+\.\d+\.\d+$`)

// pinnedPackages wants exact versions of npm's packages, and a digest of all that Linux uses on x64 and arm64: npm
// writes none for packages that it did not fetch when the lock file was made.
func pinnedPackages(root fs.FS) (complaints []string, err error) {
	var wanted struct{ DevDependencies, Dependencies map[string]string }
	if err := readJSON(root, "tools/package.json", &wanted); err != nil {
		return nil, err
	}
	for name, version := range wanted.DevDependencies {
		if !exact.MatchString(version) {
			complaints = append(complaints, fmt.Sprintf("tools/package.json: %s %q is no exact version", name, version))
		}
	}
	if len(wanted.Dependencies) > 0 {
		complaints = append(complaints, "tools/package.json: tools are devDependencies")
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity string
			OS, CPU            []string
		}
	}
	if err := readJSON(root, "tools/package-lock.json", &lock); err != nil {
		return nil, err
	}
	for name, p := range lock.Packages {
		linux := len(p.OS) == 0 || slices.Contains(p.OS, "linux")
		ours := linux && (len(p.CPU) == 0 || slices.Contains(p.CPU, "x64") || slices.Contains(p.CPU, "arm64"))
		if name == "" || strings.HasPrefix(p.Integrity, "sha512-") || !ours && exact.MatchString(p.Version) {
			continue
		}
		complaints = append(complaints,
			fmt.Sprintf("tools/package-lock.json: %s has no integrity; run npm install there", name))
	}
	npmrc, err := fs.ReadFile(root, "tools/.npmrc")
	if !strings.Contains(string(npmrc), "ignore-scripts=true") {
		complaints = append(complaints, "tools/.npmrc: scripts of packages are run; set ignore-scripts=true")
	}
	return complaints, err
}

func readJSON(root fs.FS, name string, into any) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

var (
	member = regexp.MustCompile(`member:`)
	sha256 = regexp.MustCompile(`sha256: "[0-9a-f]{64}"`)
	sha512 = regexp.MustCompile(`"[0-9a-f]{64}" \+\s+"[0-9a-f]{64}"|"[0-9a-f]{128}"`)
)

// pinnedLibrary wants a digest of ONNX Runtime's package and of each library in it.
func pinnedLibrary(root fs.FS) (complaints []string, err error) {
	const name = "internal/ortlib/fetch/pinned.go"
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	if !sha512.Match(text) {
		complaints = append(complaints, name+": the package has no SHA-512")
	}
	members, digests := len(member.FindAll(text, -1)), len(sha256.FindAll(text, -1))
	if members == 0 || members != digests {
		complaints = append(complaints, fmt.Sprintf("%s: %d libraries and %d SHA-256 of them", name, members, digests))
	}
	return complaints, nil
}

var wheel = regexp.MustCompile(`(?m)^[a-z](?:[^\n]*\\\n)*[^\n]*`)

// pinnedWheels wants an exact version of each Python package, and digests.
func pinnedWheels(root fs.FS) (complaints []string, err error) {
	err = fs.WalkDir(root, "scripts", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "requirements.txt" {
			return err
		}
		text, err := fs.ReadFile(root, name)
		for _, w := range wheel.FindAllString(string(text), -1) {
			if !strings.Contains(w, "==") || !strings.Contains(w, "--hash=sha256:") {
				complaints = append(complaints, fmt.Sprintf("%s: %q has no exact version or no digest", name, w))
			}
		}
		return err
	})
	return complaints, err
}

var (
	uses       = regexp.MustCompile(`(?m)^\s*(?:-\s*)?uses:\s*(\S+)`)
	byDigest   = regexp.MustCompile(`@[0-9a-f]{40}$|@sha256:[0-9a-f]{64}$`)
	from       = regexp.MustCompile(`(?m)^FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?`)
	fetches    = regexp.MustCompile(`\b(curl|wget|npx|pip install|pipx|apt-get install|go install|git clone|docker pull)\b`)
	goRunAt    = regexp.MustCompile(`\bgo (?:run|install|get)\b[^\n]*@`)
	skipFolder = []string{".git", ".weft", "bin", "node_modules"}
)

// pinnedActions wants actions of workflows by the digest of their commit, since tags move.
func pinnedActions(root fs.FS) (complaints []string, err error) {
	names, err := fs.Glob(root, ".github/workflows/*.y*ml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "./") && !byDigest.MatchString(m[1]) {
				complaints = append(complaints, fmt.Sprintf("%s: %s is not named by the digest of a commit", name, m[1]))
			}
		}
	}
	return complaints, nil
}

// pinnedImages wants images of containers by digest, but for those of an earlier stage and the empty one.
func pinnedImages(root fs.FS) (complaints []string, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(skipFolder, d.Name()) {
			return fs.SkipDir
		}
		if base := d.Name(); d.IsDir() || base != "Dockerfile" && base != "Containerfile" && path.Ext(base) != ".dockerfile" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		stages := []string{"scratch"}
		for _, m := range from.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(stages, m[1]) && !byDigest.MatchString(m[1]) {
				complaints = append(complaints, fmt.Sprintf("%s: the image %s is not named by a digest", name, m[1]))
			}
			stages = append(stages, m[2])
		}
		return nil
	})
	return complaints, err
}

// noOtherFetches wants neither make nor a script to fetch anything past the files that pin it.
func noOtherFetches(root fs.FS) (complaints []string, err error) {
	for _, pattern := range []string{"Makefile", ".ci/*", "scripts/*.sh", "scripts/packages/*.sh"} {
		names, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return nil, err
			}
			for i, line := range strings.Split(string(text), "\n") {
				code, _, _ := strings.Cut(line, "#")
				code = strings.NewReplacer("pip install --require-hashes", "", "pip install --no-index", "").Replace(code)
				if name == ".ci/run" { // programs that only look at what was built, and are signed by their distribution
					code = strings.ReplaceAll(code, "apt-get install --yes --no-install-recommends", "")
				}
				if found := cmp.Or(fetches.FindString(code), goRunAt.FindString(code)); found != "" {
					complaints = append(complaints, fmt.Sprintf("%s:%d: %q fetches what nothing pins; pin it in tools/go.mod, "+
						"tools/package-lock.json or internal/ortlib/fetch/pinned.go", name, i+1, found))
				}
			}
		}
	}
	return complaints, nil
}

func TestPinned(t *testing.T) {
	for _, complaint := range pinned(root) {
		t.Error(complaint)
	}
}

func TestPinnedComplains(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	whole := map[string]string{
		"go.mod":       "module m\n\nrequire (\n\texample.org/a v1.2.3\n)\n\nrequire example.org/b v0.1.0 // indirect\n",
		"go.sum":       "example.org/a v1.2.3 h1:x=\nexample.org/b v0.1.0/go.mod h1:y=\n",
		"tools/go.mod": "module m/tools\n", "tools/go.sum": "",
		"scripts/packages/nfpm/go.mod": "module m/nfpm\n", "scripts/packages/nfpm/go.sum": "",
		"scripts/fleet/go.mod": "module m/fleet\n\nrequire example.org/c v1.0.0\n", "scripts/fleet/go.sum": "example.org/c v1.0.0 h1:z=\n",
		"tools/lab/go.mod": "module m/lab\n\n" + ourselves, "tools/lab/go.sum": "",
		"tools/package.json": `{"devDependencies": {"buf": "1.2.3"}}`,
		"tools/package-lock.json": `{"packages": {"": {}, "node_modules/buf": {"version": "1.2.3", "integrity": "sha512-x"},
			"node_modules/buf-darwin": {"version": "1.2.3", "os": ["darwin"]}}}`,
		"tools/.npmrc":                    "ignore-scripts=true\n",
		"internal/ortlib/fetch/pinned.go": `"` + digest + `" + "` + digest + `" {member: "a", sha256: "` + digest + `"}`,
		".github/workflows/ci.yml":        "steps:\n  - uses: actions/checkout@" + digest[:40] + " # v5\n  - uses: ./mine\n",
		"deploy/Dockerfile":               "FROM golang@sha256:" + digest + " AS build\nFROM build AS more\nFROM scratch\n",
		"Makefile":                        "a:\n\tnpm ci # not curl\n\tpip install --require-hashes -r x\n",
		"scripts/a.sh":                    "go run ./x\npip install --no-index x.whl\n",
		".ci/run":                         "apt-get install --yes --no-install-recommends x\n",

		"scripts/clients/requirements.txt": "# ours\na==1.2 \\\n    --hash=sha256:" + digest + "\n",
	}
	for _, tt := range []struct{ file, old, new, want string }{
		{"go.mod", "", "", ""},
		{"go.sum", "example.org/a v1.2.3 h1:x=\n", "", "example.org/a v1.2.3 has no sum"},
		{"go.sum", "example.org/b v0.1.0/go.mod h1:y=\n", "", "example.org/b v0.1.0 has no sum"},
		{"scripts/fleet/go.sum", "example.org/c", "example.org/d", "scripts/fleet/go.mod: example.org/c v1.0.0 has no sum"},
		{"go.mod", "\n)\n", "\n)\nreplace example.org/a => ../a\n", "is replaced"},
		{"tools/lab/go.mod", "=> ../..", "=> ../../..", "tools/lab/go.mod: a module is replaced"},
		{"tools/package.json", "1.2.3", "^1.2.3", "no exact version"},
		{"tools/package-lock.json", `, "integrity": "sha512-x"`, "", "node_modules/buf has no integrity"},
		{"tools/package-lock.json", `"darwin"]`, `"linux"]`, "node_modules/buf-darwin has no integrity"},
		{"tools/.npmrc", "ignore-scripts=true", "", "ignore-scripts"},
		{"internal/ortlib/fetch/pinned.go", "sha256: ", "none: ", "1 libraries and 0 SHA-256"},
		{"internal/ortlib/fetch/pinned.go", `" + "`, `" + x + "`, "no SHA-512"},
		{".github/workflows/ci.yml", "@" + digest[:40], "@v5", "actions/checkout@v5"},
		{"deploy/Dockerfile", "@sha256:" + digest, ":1.26", "golang:1.26"},
		{"Makefile", "npm ci", "curl x | sh", `Makefile:2: "curl"`},
		{"Makefile", "--require-hashes", "", `Makefile:3: "pip install"`},
		{"scripts/clients/requirements.txt", "==1.2", ">1", "no exact version"},
		{"scripts/clients/requirements.txt", "--hash", "", "no digest"},
		{"scripts/a.sh", "./x", "example.org/x@latest", "scripts/a.sh:1"},
		{"scripts/a.sh", "go run ./x", "apt-get install --yes --no-install-recommends x", "scripts/a.sh:1"},
		{".ci/run", "apt-get install --yes", "apt-get install", ".ci/run:1"},
	} {
		t.Run(tt.file+" "+tt.want, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range whole {
				if name == tt.file {
					text = strings.Replace(text, tt.old, tt.new, 1)
				}
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got := strings.Join(pinned(files), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("complaints %q, want %q", got, tt.want)
			}
		})
	}
}
