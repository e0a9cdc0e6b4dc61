package roster

import (
	_ "embed"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// envoyHead is what a cluster has beside its endpoints. Its requests go to the endpoints that have the model of the
// dynamic metadata envoy.lb, and without such metadata to any. Among these the one with fewer open requests gets the
// next: Envoy 1.40 ends with a segmentation fault where its weighted round robin stands within a subset.
//
//go:embed cluster.yaml
var envoyHead string

// Envoy returns a file for the cds_config of Envoy: a cluster of all replicas, each with its address and its models.
// address is HOST:PORT of a replica whose roster names none, in which NAME stands for its name.
func (t *Table) Envoy(address string) (string, error) {
	var b strings.Builder
	b.WriteString(envoyHead)
	for r, replica := range t.Replicas {
		at := replica.Address
		if at == "" {
			at = strings.ReplaceAll(address, "NAME", replica.Name)
		}
		host, port, err := splitAddress(at)
		if err != nil || host == "" {
			return "", fmt.Errorf("replica %s: expected an address such as NAME.weft:9000, found %q", replica.Name, at)
		}
		fmt.Fprintf(&b, "      - endpoint: {address: {socket_address: {address: %q, port_value: %d}}}\n", host, port)
		fmt.Fprintf(&b, "        metadata: {filter_metadata: {envoy.lb: {model: %s}}}\n", list(t.ModelsOf(r)))
	}
	return b.String(), nil
}

// splitAddress reads HOST:PORT.
func splitAddress(address string) (host string, port uint64, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.ParseUint(text, 10, 16)
	}
	return host, port, err
}

// List returns the models of each replica, as YAML.
func (t *Table) List() string {
	var b strings.Builder
	for r, replica := range t.Replicas {
		fmt.Fprintf(&b, "%q: %s\n", replica.Name, list(t.ModelsOf(r)))
	}
	return b.String()
}

// list is a list of texts in YAML. Names of models need no more escapes than Go has.
func list(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
