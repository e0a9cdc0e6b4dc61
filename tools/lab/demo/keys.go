package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
)

// press is a key that is pressed by itself.
type press struct {
	key   byte
	after time.Duration
}

// parsePresses reads KEY@TIME,KEY@TIME; they are returned in the order of time.
func parsePresses(text string) ([]press, error) {
	var all []press
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		key, after, _ := strings.Cut(strings.TrimSpace(one), "@")
		at, err := time.ParseDuration(after)
		if !slices.Contains([]string{"c", "s", "f", "q"}, key) || err != nil || at < 0 {
			return nil, fmt.Errorf("--press %s: found %q; expected a key of c, s, f and q and a time, such as c@5s", text, one)
		}
		all = append(all, press{key[0], at})
	}
	slices.SortStableFunc(all, func(a, b press) int { return int(a.after - b.after) })
	return all, nil
}

// takeKeys has keys of a terminal come one by one, unseen, and reports whether there is one. What it returns puts the
// terminal back.
func takeKeys(ctx context.Context, in *os.File, keys chan<- byte) (restore func(), raw bool) {
	if !term.IsTerminal(in.Fd()) {
		return func() {}, false
	}
	before, err := term.MakeRaw(in.Fd())
	if err != nil {
		return func() {}, false
	}
	go func() { // until the program ends: nothing ends a read of a terminal
		for buffer := make([]byte, 1); ; {
			n, err := in.Read(buffer)
			if err != nil {
				return
			}
			if n == 0 {
				continue
			}
			select {
			case keys <- buffer[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { _ = term.Restore(in.Fd(), before) }, true
}
