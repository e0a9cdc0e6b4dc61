package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// completionCommand is `weft completion`.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong.HelpProvider: the text below the flags.
func (completionCommand) Help() string {
	return `In ~/.bashrc: eval "$(weft completion bash)"; in ~/.zshrc the same with zsh.
For fish, write the output of weft completion fish to ~/.config/fish/completions/weft.fish.`
}

// shells have a shell run the command for each completion, so that a newer program needs no new script. Where the
// command prints nothing, bash and zsh complete names of files.
var shells = map[string]func(command string) string{
	"bash": func(command string) string { return "complete -o default -C " + quote(command) + " weft\n" },
	// zsh takes this by eval, and as the file _weft of a folder of completions.
	"zsh": func(command string) string {
		return "#compdef weft\n_weft() {\n  local -a next=(${(f)\"$(COMP_LINE=${(j: :)words[1,CURRENT]} " + command +
			")\"})\n  if (($#next)); then compadd -a next; else _files; fi\n}\n" +
			"if [[ ${funcstack[1]-} == _weft ]]; then\n  _weft\nelse\n" +
			"  (($+functions[compdef])) || { autoload -Uz compinit && compinit }\n  compdef _weft weft\nfi\n"
	},
	"fish": func(command string) string {
		return "function __weft_complete\n  COMP_LINE=(commandline -cp) " + command +
			"\nend\ncomplete -c weft -a '(__weft_complete)'\n"
	},
}

// quote returns a word in a form that shells take as one word, whatever its characters.
func quote(word string) string {
	if !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._+-", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Run prints the script.
func (c *completionCommand) Run(s streams) error {
	// The path, because the shell may find another weft, or none, by the name.
	program, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, shells[c.Shell](quote(program)+" complete"))
	return err
}

// completeCommand is `weft complete`, which shells ask how the line in COMP_LINE, up to COMP_POINT, may go on.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""` // bash repeats what COMP_LINE has
}

// Run prints the words that may be next, one a line. Without COMP_POINT, as in fish, the whole line counts.
func (completeCommand) Run(ctx *kong.Context, s streams) error {
	line := os.Getenv("COMP_LINE")
	var point int
	if _, err := fmt.Sscan(os.Getenv("COMP_POINT"), &point); err == nil && point < len(line) {
		line = line[:max(point, 0)]
	}
	for _, word := range complete(ctx.Model.Node, line) {
		if _, err := fmt.Fprintln(s.out, word); err != nil {
			return err
		}
	}
	return nil
}

// complete returns what the last word of a line may become: a command, a flag or the value of one. It follows the words
// before through the tree of commands and ignores quotes, which only arguments have. No maintained library does this
// for kong.
func complete(node *kong.Node, line string) (next []string) {
	words := strings.Split(line, " ")
	last := words[len(words)-1]
	var flag *kong.Flag // whose value is next
	for _, word := range words[1:max(len(words)-1, 1)] {
		// The word is the value of the flag before it, or there were two spaces.
		if flag != nil || word == "" {
			flag = nil
			continue
		}
		if i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			node = node.Children[i]
		}
		for _, f := range flagsOf(node) {
			if word == "--"+f.Name && !f.IsBool() {
				flag = f
			}
		}
	}
	switch {
	case flag != nil:
		next = flag.EnumSlice()
	case strings.HasPrefix(last, "-"):
		for _, f := range flagsOf(node) {
			next = append(next, "--"+f.Name)
		}
	default:
		for _, n := range node.Children {
			if !n.Hidden {
				next = append(next, n.Name)
			}
		}
		for _, p := range node.Positional {
			next = append(next, p.EnumSlice()...)
		}
	}
	return slices.DeleteFunc(next, func(word string) bool { return !strings.HasPrefix(word, last) })
}

// flagsOf returns the flags that count at a command, those of the commands above it included.
func flagsOf(node *kong.Node) []*kong.Flag {
	return slices.DeleteFunc(slices.Concat(node.AllFlags(true)...), func(f *kong.Flag) bool { return f.Hidden })
}
