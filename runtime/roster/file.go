package roster

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/weftserve/weft/internal/config"
)

// file is a roster in YAML.
type file struct {
	// Replicas are the servers: 1 to 1000.
	Replicas []entry `yaml:"replicas"`
}

type entry struct {
	// Name is what --self says there.
	Name string `yaml:"name"`
	// Memory is what the models of the replica may take, by estimate; 0, the default: what --model-memory says.
	Memory config.Size `yaml:"memory"`
	// Address is where callers reach it, HOST:PORT; by default what `weft place --address` says.
	Address string `yaml:"address"`
}

const maxReplicas = 1000

var validName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// Read reads a roster from an environment variable of that name, with names between commas, or else from a YAML file.
// memory is that of a replica which names none.
func Read(from string, memory int64) ([]Replica, error) {
	if names, is := os.LookupEnv(from); is {
		f := file{}
		for name := range strings.SplitSeq(names, ",") {
			f.Replicas = append(f.Replicas, entry{Name: strings.TrimSpace(name)})
		}
		faults := f.check()
		for i := range faults {
			faults[i].File = "the variable " + from
		}
		return f.read(memory), faults.Err()
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return nil, fmt.Errorf("%w, and no environment variable is called so; name a YAML file such as {replicas: "+
			"[{name: weft-0}, {name: weft-1}]}, or a variable such as weft-0,weft-1", err)
	}
	var f file
	err = config.Decode(from, text, &f, f.check)
	return f.read(memory), err
}

func (f *file) check() (faults config.Faults) {
	if n := len(f.Replicas); n < 1 || n > maxReplicas {
		faults.Addf("replicas", "%d replicas; expected 1 to %d", n, maxReplicas)
	}
	seen := map[string]bool{}
	for i, r := range f.Replicas {
		key := fmt.Sprintf("replicas[%d]", i)
		if !validName.MatchString(r.Name) {
			faults.Addf(key+".name", "expected letters, digits, \".\", \"_\" and \"-\", such as weft-0, found %q", r.Name)
		} else if seen[r.Name] {
			faults.Addf(key+".name", "%s is on the roster already; expected each name once", r.Name)
		}
		seen[r.Name] = true
		config.Between(&faults, key+".memory", r.Memory, 0, 1<<50)
		if _, _, err := splitAddress(r.Address); r.Address != "" && err != nil {
			faults.Addf(key+".address", "expected HOST:PORT, such as 10.0.0.7:9000, found %q", r.Address)
		}
	}
	return faults
}

func (f *file) read(memory int64) (all []Replica) {
	for _, r := range f.Replicas {
		all = append(all, Replica{Name: r.Name, Address: r.Address, Memory: cmp.Or(int64(r.Memory), memory)})
	}
	return all
}
