package cloud

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// address is the URL of a repository.
type address struct {
	*url.URL
	name string // of the one model that may be there; "": the last element of the path
}

// parameters are what a URL may ask for, by its scheme. None of them is a secret, and all others are refused.
var parameters = map[string][]string{
	"s3": {
		"region", "endpoint", "use_path_style", "hostname_immutable", "profile", "anonymous", "dualstack", "fips",
		"accelerate",
	},
	"gs":     {"anonymous", "universe_domain"},
	"azblob": {"storage_account", "domain", "protocol", "localemu", "anonymous"},
	"oci":    {"insecure"},
}

// parse reads the URL of a repository. Errors do not repeat what may be a secret.
func parse(from, name string) (a address, err error) {
	a.name = name
	var query url.Values
	if a.URL, err = url.Parse(from); err == nil {
		query, err = url.ParseQuery(a.RawQuery)
	}
	if err != nil || parameters[a.Scheme] == nil || a.Host == "" { // the error has the whole URL
		scheme, _, _ := strings.Cut(from, ":")
		return a, fmt.Errorf("%s: no URL of a repository; expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "+
			"azblob://CONTAINER/PREFIX or oci://REGISTRY/NAME:TAG", scheme)
	}
	const credentials = "name no credentials here: they come from where the SDK of the service looks for them " +
		"(docs/REPOSITORIES.md)"
	if a.User != nil {
		return a, fmt.Errorf("%s: the URL names a user; %s", show(from), credentials)
	}
	for key, values := range query {
		switch allowed := parameters[a.Scheme]; {
		case !slices.Contains(allowed, key):
			return a, fmt.Errorf("%s: there is no parameter %q of %s://, only %s; %s", show(from), key, a.Scheme,
				strings.Join(allowed, ", "), credentials)
		case len(values) != 1 || strings.ContainsAny(values[0], "@?"):
			return a, fmt.Errorf("%s: parameter %q is twice there, or no plain value; %s", show(from), key, credentials)
		}
	}
	return a, nil
}

// String is what logs and files call the repository: without a query.
func (a address) String() string { return a.Scheme + "://" + a.Host + a.Path }

// folder names the folder of the cache: no other repository has it, and a person recognises it.
func (a address) folder() string {
	words := regexp.MustCompile(`[^\w.-]+`).ReplaceAllString(a.Host+a.Path, "-")
	sum := sha256.Sum256([]byte(a.URL.String() + "\x00" + a.name))
	return fmt.Sprintf("%s-%.60s-%x", a.Scheme, strings.Trim(words, "-"), sum[:6])
}

// model is the name of the model, if there is only one: --name, or the last element of the path without its tag.
func (a address) model() string {
	if a.name != "" {
		return a.name
	}
	last := path.Base(path.Join("/", a.Host, a.Path))
	last, _, _ = strings.Cut(last, "@")
	last, _, _ = strings.Cut(last, ":")
	return last
}

var (
	users   = regexp.MustCompile(`(\w://)[^/\s"]*@`)
	queries = regexp.MustCompile(`(\w://[^\s"?]*)\?[^\s"]*`)
)

// show returns a text without what is secret in the URLs of it: users, and queries, which signed requests have.
func show(text string) string {
	return queries.ReplaceAllString(users.ReplaceAllString(text, "$1"), "$1")
}

// shown is an error whose text may be logged.
type shown struct{ error }

func (s shown) Error() string { return show(s.error.Error()) }
func (s shown) Unwrap() error { return s.error }

// besideModel are the files and folders of a model that do not belong to one version.
var besideModel = []string{"model.yaml", "config.pbtxt", "warmup"}

var versionNumber = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// layout gives objects their paths in a repository of models, and groups them by what gets its place with one rename:
// the folder of a version, or a file beside versions. A source that is one model becomes a repository of it.
func (a address) layout(objects []Object) (map[string][]Object, error) {
	numbered, bare := false, false
	for _, o := range objects {
		dir, file := path.Split(o.Path)
		model := file == "model.onnx" || file == "pipeline.yaml"
		bare = bare || dir == "" && file == "model.onnx"
		numbered = numbered || model && versionNumber.MatchString(strings.TrimSuffix(dir, "/"))
	}
	if a.name != "" && !bare && !numbered {
		return nil, fmt.Errorf("--name %s: %s is a repository, whose folders are the names of its models; expected one "+
			"model, with model.onnx or 1/model.onnx", a.name, a)
	}
	units := map[string][]Object{}
	for _, o := range objects {
		at, isFolder := strings.CutSuffix(o.Path, "/") // consoles of buckets make such objects
		if path.Clean(at) != at || !filepath.IsLocal(at) || strings.ContainsFunc(at, oddLetter) {
			return nil, fmt.Errorf("%s: %q cannot be the path of a file in a repository; rename or remove it", a, o.Path)
		}
		first, _, _ := strings.Cut(at, "/")
		switch {
		case bare && !slices.Contains(besideModel, first):
			at = path.Join(a.model(), "1", at)
		case bare || numbered:
			at = path.Join(a.model(), at)
		}
		elements := strings.Split(at, "/")
		last := len(elements) - 1
		if last == 0 || slices.ContainsFunc(elements[:last], hidden) {
			continue // scans pass over it
		}
		o.Path = at
		isFolder = isFolder || hidden(elements[last]) // as .gitkeep
		switch unit := unitOf(at); {
		case isVersion(unit) && at == unit && !isFolder:
			return nil, fmt.Errorf("%s: %q is a file, and by its name the folder of a version; rename or remove it", a, at)
		case !isFolder:
			units[unit] = append(units[unit], o)
		case isVersion(unit) && units[unit] == nil:
			units[unit] = []Object{} // it may stay empty
		}
	}
	return units, nil
}

func oddLetter(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '\uFFFD' }

func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "lost+found" }

// unitOf returns the unit that a path lies in: the folder of a version, or the file itself.
func unitOf(at string) string {
	if elements := strings.Split(at, "/"); len(elements) > 1 && versionNumber.MatchString(elements[1]) {
		return path.Join(elements[:2]...)
	}
	return at
}

// isVersion reports whether a unit is the folder of a version.
func isVersion(unit string) bool {
	_, below, _ := strings.Cut(unit, "/")
	return versionNumber.MatchString(below)
}
