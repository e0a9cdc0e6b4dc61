package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/weftserve/weft/internal/ortlib"
	"github.com/weftserve/weft/internal/ortlib/fetch"
	"github.com/weftserve/weft/internal/progress"
)

// setupCommand is `weft setup`.
type setupCommand struct {
	From string `placeholder:"FILE" help:"The npm package file (.tgz) or the library; by default it is downloaded, unless WEFT_ONNXRUNTIME_LIB names one."`
	To   string `placeholder:"DIR" help:"The directory of the library; by default one where weft finds it."`
}

// Run puts the library into its place and prints where that is. Progress goes to s.err, so that the output is one line.
func (c *setupCommand) Run(s streams) error {
	said, err := c.setUp(s.err)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, said)
	return err
}

// setUp returns the line that says which library is in place. It shows progress on errs.
func (c *setupCommand) setUp(errs io.Writer) (string, error) {
	// A library that the environment names is used anyway: there is nothing to fetch.
	if c.From == "" && c.To == "" {
		if said, err := fetch.Named(); said != "" || err != nil {
			return said, err
		}
	}
	path, err := ortlib.UserPath()
	if c.To != "" {
		path, err = filepath.Join(c.To, ortlib.FileName()), nil
	}
	if err != nil {
		return "", err
	}
	place, err := fetch.NewPlace(path)
	if err != nil {
		return "", err
	}
	shown := progress.Start(errs, "weft setup", progress.Bytes(fetch.Package, place.Read))
	defer shown.Close()
	if c.From != "" {
		err = place.Take(c.From)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = place.Fetch(ctx, fetch.Download)
	}
	if err != nil || found(path) {
		return place.String(), err
	}
	return fmt.Sprintf("%s; weft finds no library or another by itself: name this one with --onnxruntime-lib or %s",
		place, ortlib.EnvVar), nil
}

// found reports whether the other commands, started in the same environment, find the library at path by themselves.
func found(path string) bool {
	other, err := ortlib.Find()
	if err != nil {
		return false
	}
	a, err1 := os.Stat(path)
	b, err2 := os.Stat(other)
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}
