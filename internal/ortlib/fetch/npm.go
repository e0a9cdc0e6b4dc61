package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoNPM says that there is no npm on the PATH.
var ErrNoNPM = errors.New("npm is not installed")

// NPM is a Source: it downloads the package through the user's own npm configuration (registry, proxy, cache) and
// without running any of its scripts.
func NPM(ctx context.Context, dir string) (io.ReadCloser, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return nil, ErrNoNPM
	}
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
	for line := range strings.Lines(stderr) {
		if code, ok := strings.CutPrefix(line, "npm error code "); ok {
			return strings.TrimSpace(code)
		}
	}
	return ""
}
