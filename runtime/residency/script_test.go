package residency_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weftserve/weft/runtime/decisions"
	"github.com/weftserve/weft/runtime/residency"
)

// TestScripts plays the histories of testdata. A script has one event a line, and after each event what it leads to:
//
//	> load m/1             an effect that begins, in any order; nothing else may begin
//	! is not resident...   the event was refused, and why
//	~ version_kept by...   the log says so; a step with such a line logs nothing else; "~ nothing": not a word
//	= m/1 ready on gpu0    the state afterwards, see script.ask; only what a script asks for is compared
//
// "..." stands for any text. An event is one of these, see script.event:
//
//	list m 1 2 policy=all | glimpse m 1       models as they were found, see script.models; glimpse: others may be there
//	load m/1 [in m 1 2] | unload m/1 | gaveup m/1 [failed] | withdrawn m/1 | keep m/1
//	divide m 1 2 [shadow=3] [since=7] [rollback=3] [unkept] | label m stable=1 | deciding m | decided m
//	loaded m/1 on gpu0 gpu1 [waiting 5 gpu0] [tried] | failed m/1 cut short | failed m/1 memory 5 free 3
//	drained m/1 | retired gpu0 | discarded gpu0 | reconfigured m/1 [proven] [moved gpu0] | idle m/1 | busy m/1 20s
//	upgraded m/1 to gpu0 | grown m/1 to gpu1 | shrunk m/1 gpu1, or instead: failed TEXT, interrupted, ...
//	lost gpu0 [by m/1] | back gpu0 | crashed m/1 | judged m/1 rows meet | room m/1 gpu0 [full gpu1] | freed 5
//	fared m/1 3 refused=1 used=0.5 spare=1 further | after 5s | closing | closed | restart
//
// The first line may set residency.Config: "config once", "config deaf".
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := newScript().play(string(text)); err != nil {
				t.Errorf("%s:%v", file, err)
			}
		})
	}
}

// TestAScriptIsWatched: a script that disagrees with the machine is found out.
func TestAScriptIsWatched(t *testing.T) {
	const good = "list m 1\n> load m/1\nloaded m/1 on gpu0\n~ nothing\n= m/1 ready on gpu0\nload m/2\n! not found; " +
		"the repository has [1] of the model\nunload m/1\n> drain m/1\ndrained m/1\n~ nothing\n"
	if err := newScript().play(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"list m 1\n", "list m 1\n> load m/2\n", "list m 1\n> load m/1\n> load m/1\n", good + "= m/1 ready on gpu1\n",
		good + "= m/1 failed\n", good + "load m/7\n", good + "list m\n! unknown...\n", good + "list m\n~ version_kept\n",
		"list m 1!\n~ nothing\n", "list m 1!\n~ version_failed\n", good + "load m/7\n! busy\n",
		"list m 1! 2!\n> load m/2\n~ model_files_faulty version=2\n",
	} {
		if newScript().play(bad) == nil {
			t.Errorf("nothing is wrong with %q", bad)
		}
	}
}

type script struct {
	*shell

	config residency.Config
	on     map[residency.ReplicaID]string // devices
	latest map[*residency.Version]int64   // number of the latest resident; -1 for no version
	kept   map[string]decisions.Model     // decisions beyond the life of the process

	// Not mentioned by the script yet.
	began   []string
	said    []string
	refused string
}

func newScript() *script {
	s := &script{kept: map[string]decisions.Model{}}
	s.start(residency.Config{AsksBusy: true})
	return s
}

// start begins with another machine, as another process does.
func (s *script) start(c residency.Config) {
	s.config, s.shell, s.on = c, newShell(c), map[residency.ReplicaID]string{}
	s.latest = map[*residency.Version]int64{nil: -1}
	s.shell.note = s.note
}

// play runs the lines of a script. The error names the line.
func (s *script) play(text string) error {
	listens := false
	for i, line := range append(strings.Split(text, "\n"), "end") {
		var err error
		line = strings.TrimSpace(line)
		kind, rest, _ := strings.Cut(line, " ")
		switch kind {
		case "", "#":
			continue
		case ">":
			err = take(&s.began, func(all string) bool { return like(rest, all) })
		case "~":
			if listens = true; rest != "nothing" {
				event, attrs, _ := strings.Cut(rest, " ")
				err = take(&s.said, func(all string) bool {
					said, with, _ := strings.Cut(all, " ")
					return said == event && like("..."+attrs+"...", with)
				})
			}
		case "!":
			if !like(rest, s.refused) {
				err = fmt.Errorf("it is refused with %q", s.refused)
			}
			s.refused = ""
		case "=":
			if got := s.ask(rest); !like(rest, got) {
				err = errors.New(got)
			}
		default:
			if len(s.began) > 0 || s.refused != "" || listens && len(s.said) > 0 {
				return fmt.Errorf("%d: what the lines above leave out: begun %q, logged %q, refused %q", i+1, s.began, s.said,
					s.refused)
			}
			s.said, listens = nil, false
			if kind != "end" {
				err = s.event(kind, strings.Fields(rest))
			}
		}
		if err != nil {
			return fmt.Errorf("%d: %s: %w", i+1, line, err)
		}
	}
	return nil
}

// take removes the first of the lines that is wanted. The error names them if none is.
func take(all *[]string, wanted func(string) bool) error {
	at := slices.IndexFunc(*all, wanted)
	if at < 0 {
		return fmt.Errorf("there is nothing but %q", *all)
	}
	*all = slices.Delete(*all, at, at+1)
	return nil
}

// like reports whether a text is as wanted; "..." stands for anything.
func like(want, text string) bool {
	parts := strings.Split(want, "...")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^(?s:" + strings.Join(parts, ".*") + ")$").MatchString(text)
}

// note keeps what a step leads to for the lines to come.
func (s *script) note(effects []residency.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case residency.Publish, residency.WakeAt:
		case residency.Log:
			said := []string{fmt.Sprintf("%v level=%v", e.Attrs[1], e.Level)}
			for i := 2; i < len(e.Attrs); i += 2 {
				said = append(said, fmt.Sprintf("%v=%v", e.Attrs[i], e.Attrs[i+1]))
			}
			s.said = append(s.said, strings.Join(said, " "))
		case residency.Keep:
			s.kept[e.Model] = e.After
			s.began = append(s.began, "keep "+e.Model)
		default:
			s.began = append(s.began, s.begun(e))
		}
	}
}

// begun words an effect.
func (s *script) begun(effect residency.Effect) string {
	model, number := about(effect)
	all := []string{
		strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", effect), "residency.")), fmt.Sprint(model, "/", number),
	}
	switch e := effect.(type) {
	case residency.Retire:
		return "retire " + s.on[e.Replica]
	case residency.Abandon:
		return "abandon " + s.on[e.Replica]
	case residency.Load:
		if e.Replicas > 1 {
			all = append(all, fmt.Sprintf("on %d devices", e.Replicas))
		}
		for files, why := range e.Unbatched {
			all = append(all, fmt.Sprintf("unbatched %s: %s", files, why))
		}
	case residency.Upgrade:
		all = append(all, "from", s.on[e.From], "to")
		for _, site := range e.To {
			all = append(all, site.Device)
		}
	}
	return strings.Join(all, " ")
}
