package modelrepo

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/runtime/tensor"
)

// State says which inputs the server keeps from one request of an episode to the next. At load they are compared with
// the model. In files it is a mapping, or none.
type State struct {
	// None: nothing is kept, not even what names and shapes tell, which is what is kept without settings.
	None bool `yaml:"-"`
	// Pairs are inputs that receive the value of an output of the previous request: [{input: h, output: hn}].
	Pairs []StatePair `yaml:"pairs,flow,omitempty"`
	// Windows are inputs that hold the latest values of another input or of an output, as a stack of frames.
	Windows []StateWindow `yaml:"windows,flow,omitempty"`
	// Initial (default 0) gives the value of such an input in the first request of an episode, by the input's name: a
	// number that fills it, or a .json file with one row as nested lists.
	Initial map[string]config.Scalar `yaml:"initial,flow,omitempty"`
	// Start names an input that the server sets, unless the request brings it: to 1 in the first request of an episode
	// that brings no state, and to 0 in the others.
	Start string `yaml:"start,omitempty"`
	// End, Ready and ID name further inputs that the server sets: End to 1 in the last request and 0 in the others, Ready
	// to 1, and ID to the episode's name, which must then fit the input's type.
	End   string `yaml:"end,omitempty"`
	Ready string `yaml:"ready,omitempty"`
	ID    string `yaml:"id,omitempty"`
	// MaxEpisodes (1 to 1000000; default 10000) is the largest number of episodes that a model has at a time, over all
	// its versions. Each takes memory for its state.
	MaxEpisodes int `yaml:"max_episodes"`
	// Idle (1ms to 24h; default 60s) is how long an episode lasts without a request. Too low loses the state of slow
	// callers.
	Idle config.Duration `yaml:"idle"`
	// OnVersionChange (refuse, reset or carry; default refuse) is what happens to an episode when another version is to
	// answer it. `refuse`: the request fails with `EPISODE_LOST`. `reset`: the episode begins again. `carry`: it keeps
	// its state; if names, types or shapes differ, it is lost.
	OnVersionChange OnVersionChange `yaml:"on_version_change" enum:"refuse,reset,carry"`
	// Bind can be `stream`: an episode then ends with the stream on which it began. By default it does not.
	Bind StateBinding `yaml:"bind,omitempty" enum:"stream"`

	// File and Text are the settings file, for the places of what is found wrong at load.
	File string `yaml:"-"`
	Text []byte `yaml:"-"`
	// Dirs are the directories of versions whose files Initial names, by input, where these are steps of a pipeline.
	Dirs map[string]string `yaml:"-"`
}

// StatePair is an input, and the output that it is in the next request.
type StatePair struct {
	Input  string `yaml:"input"`
	Output string `yaml:"output"`
}

// StateWindow is an input that has the values of several requests, one behind the other, the latest last.
type StateWindow struct {
	// Input (required) is the input that holds the values, the latest last.
	Input string `yaml:"input"`
	// Of is an input, whose latest value is that of the present request, or an output, whose latest value is that of the
	// previous request. By default requests bring the latest value as the input itself.
	Of string `yaml:"of,omitempty"`
	// Steps (1 to 65536; required) is the number of values.
	Steps int `yaml:"steps"`
}

// OnVersionChange is refuse, reset or carry.
type OnVersionChange string

// The values of OnVersionChange.
const (
	RefuseOnChange OnVersionChange = "refuse"
	ResetOnChange  OnVersionChange = "reset"
	CarryOnChange  OnVersionChange = "carry"
)

// StateBinding is stream, or nothing.
type StateBinding string

// BindStream ends an episode with its stream.
const BindStream StateBinding = "stream"

// SetDefaults implements config.Defaulter.
func (s *State) SetDefaults() {
	s.MaxEpisodes, s.Idle, s.OnVersionChange = 10_000, config.Duration(time.Minute), RefuseOnChange
}

// UnmarshalText reads the form that keeps nothing: none.
func (s *State) UnmarshalText(text []byte) error {
	if string(text) != stateNone {
		return fmt.Errorf("expected none, or what is kept, such as {pairs: [{input: h, output: hn}]}, found %q", text)
	}
	*s = State{None: true}
	s.SetDefaults()
	return nil
}

// MarshalYAML gives the form that was read.
func (s State) MarshalYAML() (any, error) {
	type mapping State
	if s.keepsNone() {
		return stateNone, nil
	}
	return mapping(s), nil
}

const stateNone = "none"

// keepsNone reports whether they say to keep nothing. Those of model.yaml may follow a config.pbtxt that does.
func (s *State) keepsNone() bool {
	return s.None && len(s.Pairs)+len(s.Windows) == 0 && len(s.Controls()) == 0
}

// StateControl is an input that the server sets, and the setting that names it.
type StateControl struct{ Setting, Input string }

// Controls returns the inputs that tell the model about each request.
func (s *State) Controls() (all []StateControl) {
	for _, c := range []StateControl{
		{"state.start", s.Start}, {"state.end", s.End}, {"state.ready", s.Ready}, {"state.id", s.ID},
	} {
		if c.Input != "" {
			all = append(all, c)
		}
	}
	return all
}

const (
	maxEpisodes  = 1_000_000
	maxWindow    = 1 << 16
	maxStateFile = 256 << 20
)

// stateFile is what the name of a file with an initial value ends in.
const stateFile = ".json"

// InitialFile returns the file that has the initial value of an input; false: it is a number.
func (s *State) InitialFile(input string) (string, bool) {
	text := string(s.Initial[input])
	return text, strings.HasSuffix(text, stateFile)
}

// At returns faults of these settings with their places in the file; nil: there are none.
func (s *State) At(faults config.Faults) error {
	if len(faults) == 0 || s.Text == nil { // it is of config.pbtxt
		return faults.Err()
	}
	m := Defaults()
	return config.Decode(s.File, s.Text, &m, func() config.Faults { return faults })
}

// Settings returns the settings by themselves, wherever they stand in a file. nil has none.
func (s *State) Settings() State {
	if s == nil {
		return State{}
	}
	own := *s
	own.File, own.Text = "", nil
	return own
}

// Tensors returns the settings that say which inputs are kept. nil keeps none.
func (s *State) Tensors() State {
	if s == nil {
		return State{}
	}
	return State{
		None: s.None, Pairs: s.Pairs, Windows: s.Windows, Initial: s.Initial, Start: s.Start, End: s.End, Ready: s.Ready,
		ID: s.ID,
	}
}

// names reports whether the server fills an input. nil names none.
func (s *State) names(input string) bool {
	return s != nil && (slices.ContainsFunc(s.Controls(), func(c StateControl) bool { return c.Input == input }) ||
		slices.ContainsFunc(s.Pairs, func(p StatePair) bool { return p.Input == input }) ||
		slices.ContainsFunc(s.Windows, func(w StateWindow) bool { return w.Input == input && w.Of != "" }))
}

// check judges the settings by themselves. steps: they are of a pipeline whose steps may have states, too, which the
// caller does not know. Nil is fine.
func (s *State) check(faults *config.Faults, steps bool) {
	if s == nil || s.keepsNone() {
		return
	}
	config.Between(faults, "state.max_episodes", s.MaxEpisodes, 1, maxEpisodes)
	config.Between(faults, "state.idle", s.Idle, config.Duration(time.Millisecond), config.Duration(24*time.Hour))
	if len(s.Pairs)+len(s.Windows) == 0 && !steps {
		faults.Addf("state", "it keeps no input; expected such as pairs: [{input: h, output: hn}], also where weft check "+
			"finds them without settings")
	}
	inputs, outputs := map[string]string{}, map[string]string{} // where each is named
	once := func(named map[string]string, key, name string) {
		switch before := named[name]; {
		case name == "":
			faults.Addf(key, "the name is missing; expected that of one of the model's tensors")
		case before != "":
			faults.Addf(key, "%q is named at %s already; expected each name in one place", name, before)
		default:
			named[name] = key
		}
	}
	for i, p := range s.Pairs {
		key := fmt.Sprintf("state.pairs[%d]", i)
		once(inputs, key+".input", p.Input)
		once(outputs, key+".output", p.Output)
	}
	for i, w := range s.Windows {
		key := fmt.Sprintf("state.windows[%d]", i)
		once(inputs, key+".input", w.Input)
		config.Between(faults, key+".steps", w.Steps, 1, maxWindow)
	}
	kept := sortedKeys(inputs)
	for _, c := range s.Controls() {
		once(inputs, c.Setting, c.Input)
	}
	for i, w := range s.Windows {
		key := fmt.Sprintf("state.windows[%d].of", i)
		if w.Of == "" {
			continue
		}
		if inputs[w.Of] != "" {
			faults.Addf(key, "%q is set by the server, as %s says; expected an input of requests, or an output", w.Of,
				inputs[w.Of])
		} else {
			once(map[string]string{}, key, w.Of)
		}
	}
	for _, name := range sortedKeys(s.Initial) {
		if !steps {
			s.checkInitial(faults, name, kept)
		}
	}
}

func (s *State) checkInitial(faults *config.Faults, name string, kept []string) {
	key, text := "state.initial."+name, string(s.Initial[name])
	if !slices.Contains(kept, name) {
		*faults = append(*faults, config.Fault{
			Key: key, Message: fmt.Sprintf("pairs and windows have no such input, only %s; expected one of theirs", list(kept)),
			Suggestion: config.Nearest(name, kept),
		})
	}
	file, is := s.InitialFile(name)
	_, notBool := tensor.ParseElement(tensor.Bool, text)
	_, notNumber := tensor.ParseElement(tensor.Float64, text)
	switch {
	case is && !filepath.IsLocal(file):
		faults.Addf(key, "expected the name of a file in the directory of the version or of the model, found %q", file)
	case !is && (text == "" || notBool != nil && notNumber != nil):
		faults.Addf(key, "expected a number, or a file of nested lists, such as h0%s, found %q", stateFile, text)
	}
}

// StateFile reads a file that has an initial value: in the version's directory or, if it is not there, in that of the
// model. The error says which file is wrong, and what to do.
func (v Version) StateFile(name string) ([]byte, error) {
	data, err := v.readFile(filepath.Join(filepath.Base(v.Dir), name), maxStateFile)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = v.readFile(name, maxStateFile)
	}
	full := filepath.Join(filepath.Dir(v.Dir), name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; put it there, or into the directory of the version", full)
	case len(data) > maxStateFile:
		return nil, fmt.Errorf("%s is larger than %v; expected one row of the input", name, config.Size(maxStateFile))
	}
	return data, err
}
