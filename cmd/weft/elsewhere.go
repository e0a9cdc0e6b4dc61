package main

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/config/pbtxt"
	tfserving "github.com/weftserve/weft/proto/gen/tensorflow/serving"
)

//go:embed elsewhere.txt
var elsewhereText string

// elsewhere says what to write here in the place of flags that other servers have. VALUE stands for the flag's value.
var elsewhere = sync.OnceValue(func() map[string]string {
	table := map[string]string{}
	for line := range strings.Lines(elsewhereText) {
		if name, instead, is := strings.Cut(strings.TrimSpace(line), ": "); is && name[0] != '#' {
			table[name] = instead
		}
	}
	return table
})

// elsewhereFiles are the flags of TensorFlow Serving whose files are answered field by field.
var elsewhereFiles = map[string]func(file string, data []byte) (string, error){
	"batching_parameters_file": batchingParameters, "monitoring_config_file": monitoring,
}

// addressFlags are the names of the flag by which commands find a server.
var addressFlags = []string{"address", "admin", "target"}

// advise says what to write in the place of what the parser refused, where that is known, or returns its error. node is
// the command, nil if there is none, and serve is `weft serve`. kong knows nothing of flags that are gone, of other
// commands and of other servers. Its error is text.
func advise(err error, serve, node *kong.Node, args []string) error {
	flag, isFlag := strings.CutPrefix(err.Error(), "unknown flag --")
	flag, _, _ = strings.Cut(flag, ",")
	number, isNumber := strings.CutPrefix(err.Error(), "<version>: expected a valid 64 bit int but got ")
	gone := (config.Server{}).Gone()[flag]
	switch {
	case node == nil:
		return adviseCommand(err, namesOf(serve), args)
	case isNumber:
		return fmt.Errorf("VERSION: expected a number, such as 2, found %s", number)
	case !isFlag:
		return err
	case gone != "":
		return fmt.Errorf("--%s is gone: %s", flag, gone)
	case node.Name == "serve" || node.Name == "check":
		if answer := translate(args, namesOf(node)); answer != "" {
			return errors.New(answer)
		}
	case slices.Contains(addressFlags, flag):
		for _, f := range flagsOf(node) {
			if slices.Contains(addressFlags, f.Name) {
				return fmt.Errorf("--%s: this command finds its server by --%s HOST:PORT (%s)", flag, f.Name, f.Default)
			}
		}
	}
	return err
}

// adviseCommand says what to write where a command line has no command, but looks as if it were to serve.
func adviseCommand(err error, serve map[string]bool, args []string) error {
	answer := translate(args, serve)
	fault, _, _ := strings.Cut(err.Error(), ", did you mean") // it means a command
	word, isWord := strings.CutPrefix(fault, "unexpected argument ")
	flag, isFlag := strings.CutPrefix(fault, "unknown flag --")
	path := "REPOSITORY"
	switch _, missing := os.Stat(word); {
	case isWord && (missing == nil || strings.HasSuffix(word, ".onnx") || strings.Contains(word, "/")):
		path = word
	case answer == "" && !slices.Contains([]string{"run", "start", "server", "up"}, word) && !(isFlag && serve[flag]):
		return err
	}
	if answer != "" {
		answer = "\n" + answer
	}
	return fmt.Errorf("%s; models are served by `weft serve %s`%s", fault, path, answer)
}

// namesOf returns the names of a command's flags.
func namesOf(node *kong.Node) map[string]bool {
	names := map[string]bool{}
	for _, f := range flagsOf(node) {
		names[f.Name] = true
		for _, alias := range f.Aliases {
			names[alias] = true
		}
	}
	return names
}

// translate answers every flag of another server in a command line, one a line: the parser would stop at each. With one
// of them, each flag that ours lacks is taken for one, too. It returns "" if there is none.
func translate(args []string, ours map[string]bool) string {
	var lines []string
	known := false
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" || ours[name] {
			continue
		}
		table := elsewhere()[name]
		if table == "" { // Python has underscores in its names, and command lines have hyphens
			table = elsewhere()[strings.ReplaceAll(name, "_", "-")]
		}
		if table == "" && elsewhereFiles[name] == nil {
			line := fmt.Sprintf("--%s has no counterpart here: leave it out", name)
			if near := config.Nearest(name, slices.Sorted(maps.Keys(ours))); near != "" {
				line = fmt.Sprintf("unknown flag --%s, did you mean \"--%s\"?", name, near)
			}
			lines = append(lines, line)
			continue
		}
		known = true
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		instead := "write " + table
		if answer := elsewhereFiles[name]; answer != nil {
			instead = fileElsewhere(value, answer)
		} else if value != "" {
			instead = strings.ReplaceAll(instead, "VALUE", value)
		}
		kind := "a flag of another server"
		if strings.Contains(table, strings.ReplaceAll(name, "-", "_")+":") {
			kind = "a key of model.yaml"
		}
		lines = append(lines, fmt.Sprintf("--%s is %s: %s", name, kind, instead))
	}
	if !known {
		return ""
	}
	return strings.Join(lines, "\n")
}

// fileElsewhere reads a file of another server, and answers its fields.
func fileElsewhere(file string, answer func(file string, data []byte) (string, error)) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Sprintf("name its file, so that this says what each field becomes: %v", err)
	}
	text, err := answer(file, data)
	if err != nil {
		return "its file is faulty, so that this cannot say what each field becomes:\n" + err.Error()
	}
	return text
}

// batchingParameters returns the lines of a model.yaml that do what a batching parameters file does.
func batchingParameters(file string, data []byte) (string, error) {
	var p tfserving.BatchingParameters
	doc, err := pbtxt.Read(file, data, &p)
	if err != nil {
		return "", err
	}
	lines := []string{"write in the model.yaml of each model:", "batching:"}
	line := func(field, format string, args ...any) {
		if doc.Stands(field) {
			lines = append(lines, "  "+fmt.Sprintf(format, args...)+"  # "+field)
		}
	}
	size := int64(1000) // theirs, where the file does not say
	if p.GetMaxBatchSize() != nil {
		size = p.GetMaxBatchSize().GetValue()
	}
	wait := config.Duration(time.Duration(p.GetBatchTimeoutMicros().GetValue()) * time.Microsecond)
	line("max_batch_size", "max_batch_size: %d", size)
	line("max_batch_size", "# larger requests are split; max_request_rows: %d would refuse them, as theirs", size)
	line("batch_timeout_micros", "batch_timeout: %v", wait)
	line("max_enqueued_batches", "max_queue: %d", p.GetMaxEnqueuedBatches().GetValue()*size)
	line("num_batch_threads", "# nothing, or --devices cpu:%d: as many batches run at a time as there are processors",
		p.GetNumBatchThreads().GetValue())
	line("thread_pool_name", "# nothing: there are no pools to name")
	line("allowed_batch_sizes", "allowed_batch_sizes: %s",
		strings.ReplaceAll(fmt.Sprint(p.GetAllowedBatchSizes()), " ", ", "))
	line("pad_variable_length_inputs", "variable_dims: {}  # for each input {INPUT: {axis: 1, buckets: [32, 64]}}")
	return strings.Join(lines, "\n"), nil
}

// monitoring says what becomes of a monitoring config file.
func monitoring(file string, data []byte) (string, error) {
	var m tfserving.MonitoringConfig
	doc, err := pbtxt.Read(file, data, &m)
	if err != nil {
		return "", err
	}
	lines := []string{"leave it out:"}
	if doc.Stands("prometheus_config.enable") {
		lines = append(lines, fmt.Sprintf("  prometheus_config.enable: %v: --http has metrics; --http= serves none",
			m.GetPrometheusConfig().GetEnable()))
	}
	if path := m.GetPrometheusConfig().GetPath(); path != "" {
		lines = append(lines, fmt.Sprintf("  prometheus_config.path: have Prometheus read /metrics in the place of %s", path))
	}
	return strings.Join(lines, "\n"), nil
}
