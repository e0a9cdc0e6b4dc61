package cloud

import (
	"cmp"
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

// parse reads the URL of a repository. Errors do not repeat what may be a secret.
func parse(from, name string) (a address, err error) {
	a.name = name
	if a.URL, err = url.Parse(from); err != nil || a.Host == "" { // the error has the whole URL
		scheme, _, _ := strings.Cut(from, ":")
		return a, fmt.Errorf("%s: no URL of a repository; expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "+
			"azblob://CONTAINER/PREFIX or oci://REGISTRY/NAME:TAG", scheme)
	}
	if query, err := url.QueryUnescape(a.RawQuery); err != nil || a.User != nil || strings.Contains(query, "@") {
		return a, fmt.Errorf("%s: the URL names a user, or its parameters cannot be read; name no credentials here: they "+
			"come from where the SDK of the service looks for them (docs/how-to/remote-repositories.md)", a)
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
	last := path.Base(path.Join("/", a.Host, a.Path))
	return cmp.Or(a.name, last[:strings.IndexAny(last+":", ":@")])
}

// inURL finds a URL up to its end, with what is secret in it: users, and queries, which signed requests have.
var inURL = regexp.MustCompile(`(\w://)(?:[^/?\s"]*@)?([^?\s"]*)(?:\?[^\s"]*)?`)

// show says an error without what is secret in its URLs.
func show(err error) string { return inURL.ReplaceAllString(err.Error(), "$1$2") }

// besideModel are the files and folders of a model that do not belong to one version.
var besideModel = []string{"model.yaml", "config.pbtxt", "warmup"}

var (
	versionNumber = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)
	ofModel       = regexp.MustCompile(`^(([^/.][^/]*/)?[1-9][0-9]{0,18}/(model\.onnx|pipeline\.yaml)|model\.onnx)$`)
)

// layout groups objects by their models. A source that is one model becomes a repository of it.
func (a address) layout(objects []Object) (map[string]files, error) {
	like := "" // where a model is
	for _, o := range objects {
		if !ofModel.MatchString(o.Path) {
			continue
		}
		if like != "" && strings.Count(o.Path, "/") != strings.Count(like, "/") {
			return nil, fmt.Errorf("%s has %q and %q: one is of a repository, whose folders are the names of its models, and "+
				"one of a model by itself; remove what does not belong there", a, like, o.Path)
		}
		like = o.Path
	}
	bare, one := like == "model.onnx", like != "" && strings.Count(like, "/") < 2
	if a.name != "" && !one {
		return nil, fmt.Errorf("--name %s: %s is a repository, whose folders are the names of its models; expected one "+
			"model, with model.onnx or 1/model.onnx", a.name, a)
	}
	models := map[string]files{}
	for _, o := range objects {
		at, isFolder := strings.CutSuffix(o.Path, "/") // consoles of buckets make such objects
		if path.Clean(at) != at || !filepath.IsLocal(at) || strings.ContainsFunc(at, oddLetter) {
			return nil, fmt.Errorf("%s: %q cannot be the path of a file in a repository; rename or remove it", a, o.Path)
		}
		elements := strings.Split(at, "/")
		if bare && !slices.Contains(besideModel, elements[0]) {
			elements = slices.Insert(elements, 0, "1")
		}
		if one {
			elements = slices.Insert(elements, 0, a.model())
		}
		if isFolder || len(elements) == 1 || slices.ContainsFunc(elements, hidden) {
			continue // scans pass over it
		}
		if models[elements[0]] == nil {
			models[elements[0]] = files{}
		}
		models[elements[0]][path.Join(elements[1:]...)] = o
	}
	return models, nil
}

func oddLetter(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '\uFFFD' }

func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "lost+found" }
