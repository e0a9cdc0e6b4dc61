// Package registry fetches the npm package of ONNX Runtime on machines that have no npm.
package registry

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/ortlib/fetch"
)

// Fetch is a fetch.Source: it downloads by npm, or where there is none over HTTPS from the registry that npm would ask.
func Fetch(ctx context.Context, dir string) (io.ReadCloser, error) {
	content, err := fetch.NPM(ctx, dir)
	if !errors.Is(err, fetch.ErrNoNPM) {
		return content, err
	}
	registry, err := named()
	if err != nil {
		return nil, err
	}
	if registry == "" {
		return nil, fmt.Errorf("%w, and neither npm_config_registry nor registry= in ~/.npmrc names a registry",
			fetch.ErrNoNPM)
	}
	return download(ctx, registry)
}

// named returns the registry that the user's environment names, "" for none.
func named() (string, error) {
	if found := cmp.Or(os.Getenv("npm_config_registry"), os.Getenv("NPM_CONFIG_REGISTRY")); found != "" {
		return found, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", nil // without a home there are no settings in it
	}
	file, err := os.Open(filepath.Join(home, ".npmrc"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	found := ""
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		if strings.TrimSpace(key) == "registry" {
			found = os.ExpandEnv(strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return found, lines.Err()
}

// download gets the package's file. Anybody who reads it checks its digest, so that a registry without TLS will do.
func download(ctx context.Context, registry string) (io.ReadCloser, error) {
	base, err := url.Parse(registry)
	if err != nil || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("the npm registry that the environment or ~/.npmrc names is no URL of http or https")
	}
	file := base.JoinPath(fetch.PackageName, "-", fetch.PackageName+"-"+ortlib.Version+".tgz")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, file.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("%s answers %s", file.Redacted(), response.Status)
		return nil, errors.Join(err, response.Body.Close())
	}
	return body{response.Body, response.ContentLength}, nil
}

// body is an answer that knows its size; -1: it does not.
type body struct {
	io.ReadCloser

	size int64
}

// Size returns how many bytes it has.
func (b body) Size() int64 { return b.size }
