package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	var line commandLine
	parser, err := newParser(&line, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"weft s", "serve seal setup serviceconfig sim"},
		{"weft w", ""},
		{"weft to", "top token"},
		{"weft top --o", "--once"},
		{"weft comp", "completion"},
		{"weft rollout ", "start show advance abort"},
		{"weft rollout a", "advance abort"},
		{"weft rollout show m --adm", "--admin"},
		{"weft serve --log-l", "--log-level"},
		{"weft serve --log-level ", "debug info warn error"},
		{"weft serve --log-level w", "warn"},
		{"weft serve --listen :1 --log-level e", "error"},
		{"weft serve --log-level info mod", ""},
		{"weft predict m --input '[[1, 2]]' --vers", "--version"},
		{"weft predict --json --la", "--label"},
		{"weft mo", "models"},
		{"weft traffic m 1=1 --sh", "--shadow"},
		{"weft completion ", "bash zsh fish"},
		{"weft", ""},
	} {
		typed, want := c[0], c[1]
		if got := strings.Join(complete(parser.Model.Node, typed), " "); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
	if all := complete(parser.Model.Node, "weft "); !slices.Contains(all, "predict") || slices.Contains(all, "worker") {
		t.Errorf("commands: %q", all)
	}
}
