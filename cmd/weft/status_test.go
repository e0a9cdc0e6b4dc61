package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// commands are, for each command, a line that is wrong by itself although the parser takes it ("": there is none), and
// one that is right and fails. CLOSED is an address at which nobody listens.
var commands = map[string]struct{ wrong, fails string }{
	"serve":           {"models --drain-timeout 25h", "absent"},
	"check":           {"models --drain-timeout 25h", "absent"},
	"place":           {"models", "absent --roster absent"},
	"setup":           {"--frm x", "--from absent"},
	"seal":            {"", "absent"},
	"sim":             {"", "--replay absent"},
	"replay":          {"absent --target CLOSED --concurrency 0", "absent --target CLOSED"},
	"bench":           {"--target CLOSED", "--target CLOSED --streams absent"},
	"top":             {"--demo --json", "--address CLOSED --once"},
	"explain":         {"--address CLOSED --limit 1001", "--address CLOSED 1234"},
	"predict":         {"m --address CLOSED --timeout 0s", "m --address CLOSED"},
	"models":          {"--address CLOSED --timeout 0s", "--address CLOSED"},
	"push":            {"absent --model m --admin CLOSED --version=-1", "absent --model m --admin CLOSED"},
	"load":            {"m 0 --admin CLOSED", "m 1 --admin CLOSED"},
	"unload":          {"m 0 --admin CLOSED", "m 1 --admin CLOSED"},
	"label":           {"m stable --admin CLOSED", "m stable 1 --admin CLOSED"},
	"traffic":         {"m 1=1 --clear --admin CLOSED", "m --admin CLOSED"},
	"rollout show":    {"m --admin CLOSED --tls-cert absent", "m --admin CLOSED"},
	"rollout start":   {"m --admin CLOSED --baseline 1 --candidate 2 --tls-cert absent", "m --admin CLOSED --baseline 1 --candidate 2"},
	"rollout advance": {"m --admin CLOSED --tls-cert absent", "m --admin CLOSED"},
	"rollout abort":   {"m --admin CLOSED --tls-cert absent", "m --admin CLOSED"},
	"serviceconfig":   {"least", "wrr"},
	"token":           {"-", "robot"},
	"completion":      {"tcsh", "bash"},
	"complete":        {"", ""},
	"worker":          {"", "absent"},
	"version":         {"", ""},
}

// full is where nothing can be written to: commands that only print fail by it.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// leaves returns the commands that do something, by their words.
func leaves(node *kong.Node, words string) map[string]*kong.Node {
	if len(node.Children) == 0 {
		return map[string]*kong.Node{words: node}
	}
	all := map[string]*kong.Node{}
	for _, child := range node.Children {
		maps.Copy(all, leaves(child, strings.TrimSpace(words+" "+child.Name)))
	}
	return all
}

// TestExitStatuses: each command ends with 2 if its line is wrong, and with 1 if it fails.
func TestExitStatuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	t.Chdir(t.TempDir())

	var line commandLine
	parser, err := newParser(&line, streams{out: io.Discard, err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	present := leaves(parser.Model.Node, "")
	for _, words := range slices.Sorted(maps.Keys(present)) {
		lines, is := commands[words]
		if !is {
			t.Errorf("weft %s: not in the table of commands", words)
			continue
		}
		wants := func(rest string, want int) {
			t.Helper()
			args := strings.Fields(words + " " + strings.ReplaceAll(rest, "CLOSED", closed))
			var said bytes.Buffer
			if got := run(args, full{}, &said); got != want || said.Len() == 0 {
				t.Errorf("weft %s: status %d, want %d:\n%s", strings.Join(args, " "), got, want, said.String())
			}
		}
		if !slices.ContainsFunc(present[words].Positional, func(p *kong.Positional) bool { return p.Passthrough }) {
			wants(lines.fails+" --no-such-flag", statusUsage)
		}
		if lines.wrong != "" {
			wants(lines.wrong, statusUsage)
		}
		wants(lines.fails, statusFailed)
	}
	for words := range commands {
		if present[words] == nil {
			t.Errorf("weft %s: in the table, and no command", words)
		}
	}
}
