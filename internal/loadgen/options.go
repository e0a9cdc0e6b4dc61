package loadgen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weftserve/weft/internal/certs"
	"github.com/weftserve/weft/internal/config"
)

// Options are the flags of a run.
type Options struct {
	Target   string   `default:"127.0.0.1:9000" aliases:"address,server" help:"The server, or unix:/PATH." placeholder:"HOST:PORT"`
	Protocol Protocol `default:"weft" enum:"weft,open-inference" help:"weft (weft.v1), or open-inference for Triton and KServe servers."`
	Streams  string   `help:"A YAML file with several streams, in place of the flags of one." type:"path" placeholder:"FILE"`
	Stream   `embed:"" group:"One stream"`

	Objective `embed:"" group:"Search"`

	certs.Client `embed:"" group:"TLS"`

	// What is sent, how, and where the figures go.
	Duration    config.Duration `default:"10s" help:"Duration of the measurement."`
	Warmup      config.Duration `default:"2s" help:"Time before the measurement that is not counted."`
	OverStreams bool            `name:"stream" help:"Send requests over PredictStream, one at a time on each stream."`
	Connections int             `default:"4" help:"Number of connections."`
	JSON        string          `name:"json" help:"Write the report as JSON; - means standard output." type:"path" placeholder:"FILE"`
	HTML        string          `name:"html" help:"Write the report with plots as one HTML page." type:"path" placeholder:"FILE"`
	ServerPID   int             `name:"server-pid" help:"Report the CPU time per request of this process and its children (Linux)." placeholder:"PID"`
}

// usualCallers is how many callers there are where nothing says how requests come: two for each of the usual
// connections.
const usualCallers = 8

// streams returns the checked streams of the file, or of the flags. A file beside flags of one stream is an error: it
// would not be clear which of the two holds.
func (o *Options) streams() ([]Stream, error) {
	var faults config.Faults
	if o.Duration <= 0 {
		faults.Addf("--duration", "expected a duration above 0, found %v", o.Duration)
	}
	config.Between(&faults, "--connections", o.Connections, 1, 1024)
	faults = append(faults, o.Objective.check()...)
	if o.OverStreams && o.Protocol == openInference {
		faults.Addf("--stream", "beside --protocol %s; expected --protocol weft, whose streams these are", o.Protocol)
	}
	if o.Streams == "" {
		s := o.Stream
		switch nothing := s.Callers == 0 && s.Rate == 0 && s.Trace == ""; {
		case nothing && o.Find: // a search may begin anywhere
			s.Rate = firstRate
		case nothing:
			s.Callers = usualCallers
		}
		s.Name = s.Model
		flag := func(name string) string { return "--" + strings.ReplaceAll(name, "_", "-") }
		faults = append(faults, s.check(flag)...)
		return []Stream{s}, faults.Err()
	}
	var defaults Stream
	// Streams are compared as a whole: a flag that is given its default is taken as not given.
	if defaults.SetDefaults(); o.Stream != defaults {
		faults.Addf("--streams", "beside flags of one stream, such as --model or --rate; expected all streams in the file")
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return readStreams(o.Streams)
}

// readStreams reads a file of streams. Relative paths in it are relative to the file's directory, not to the working
// one. Names must differ, since the report tells streams apart by them.
func readStreams(path string) ([]Stream, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--streams: %w", err)
	}
	var file struct {
		Streams []Stream `yaml:"streams"`
	}
	err = config.Decode(path, text, &file, func() config.Faults {
		var faults config.Faults
		if len(file.Streams) == 0 {
			faults.Addf("streams", "there are none; expected a list of at least one, such as [{model: policy, rate: 100}]")
		}
		names := map[string]bool{}
		for i := range file.Streams {
			s := &file.Streams[i]
			at := fmt.Sprintf("streams[%d]", i)
			faults = append(faults, s.check(func(name string) string { return at + "." + name })...)
			// Two streams of one model need names, or the report could not tell them apart.
			if s.Name == "" {
				s.Name = s.Model
			}
			if names[s.Name] {
				faults.Addf(at, "a stream before it is named %q, too; expected another name", s.Name)
			}
			names[s.Name] = true
			for _, named := range []*string{&s.Trace, &s.Request} {
				if *named != "" && !filepath.IsAbs(*named) {
					*named = filepath.Join(filepath.Dir(path), *named)
				}
			}
		}
		return faults
	})
	return file.Streams, err
}
