package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/weftserve/weft/tools/lab/harness"
)

const (
	envoyName   = "Envoy"
	haproxyName = "HAProxy"
)

// balancer is a process between callers and servers.
type balancer struct {
	address string // where callers find it
	cmd     *exec.Cmd
	ended   chan struct{}
	set     func([]target) error // the servers that it may use
}

// launch starts a balancer, and waits until it takes connections.
func (r *trial) launch(folder string, port int, set func([]target) error, name string, args ...string,
) (*balancer, error) {
	b := &balancer{address: fmt.Sprintf("127.0.0.1:%d", port), ended: make(chan struct{}), set: set}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	b.cmd = exec.CommandContext(r.ctx, name, args...)
	b.cmd.Stdout, b.cmd.Stderr = log, log
	harness.EndWithParent(b.cmd)
	if err := b.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		_ = b.cmd.Wait() // says that it was killed
		_ = log.Close()
		close(b.ended)
	}()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		conn, err := (&net.Dialer{}).DialContext(r.ctx, "tcp", b.address)
		if err == nil {
			return b, conn.Close()
		}
		select {
		case <-b.ended:
		default:
			if time.Now().Before(end) {
				continue
			}
			b.stop()
		}
		return nil, fmt.Errorf("%s does not listen: see %s: %w", name, log.Name(), err)
	}
}

func (b *balancer) stop() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

// freePort returns a port that nothing listens at.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func portOf(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port) // of an address that a server gave
	return n
}

// tree is a part of a file of YAML or JSON.
type tree = map[string]any

// envoy starts Envoy with a file of deploy/envoy. The file stays as it is, but for the addresses: those of the servers
// come from another file, which Envoy follows. With a policy, that is the one that Envoy has instead of the file's.
func (r *trial) envoy(file, policy string, targets []target) (*balancer, error) {
	r.started++
	folder := filepath.Join(r.folder, fmt.Sprintf("%03d-envoy", r.started))
	text, err := os.ReadFile(filepath.Join(r.Deploy, "envoy", file))
	if err != nil {
		return nil, err
	}
	port, err := freePort(r.ctx)
	if err != nil {
		return nil, err
	}
	endpoints := filepath.Join(folder, "followed", "endpoints.json") // Envoy hears of each change in its folder
	text, err = rewire(text, endpoints, policy, port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	set := func(targets []target) error {
		data, err := json.Marshal(assignment(targets))
		if err != nil {
			return err
		}
		return errors.Join(harness.Write(endpoints+".next", data), os.Rename(endpoints+".next", endpoints))
	}
	if err := errors.Join(harness.Write(filepath.Join(folder, "envoy.json"), text), set(targets)); err != nil {
		return nil, err
	}
	b, err := r.launch(folder, port, set, r.Envoy, "-c", filepath.Join(folder, "envoy.json"), "--use-dynamic-base-id",
		"--service-node", "lab", "--service-cluster", "lab", "--log-level", "warning")
	if err == nil {
		time.Sleep(2 * time.Second) // for the first health checks
	}
	return b, err
}

// rewire returns a file of Envoy that listens at a port of this machine, and has its servers from another file.
func rewire(text []byte, endpoints, policy string, port int) ([]byte, error) {
	var file tree
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	delete(file, "admin")
	only := func(of string) tree {
		resources, _ := file["static_resources"].(tree)
		all, _ := resources[of].([]any)
		if len(all) != 1 {
			return nil
		}
		one, _ := all[0].(tree)
		return one
	}
	listener, cluster := only("listeners"), only("clusters")
	if listener == nil || cluster == nil {
		return nil, errors.New("expected one listener and one cluster")
	}
	listener["address"] = address("127.0.0.1:" + strconv.Itoa(port))
	delete(cluster, "load_assignment")
	cluster["type"] = "EDS"
	cluster["eds_cluster_config"] = tree{
		"service_name": clusterName,
		"eds_config":   tree{"resource_api_version": "V3", "path_config_source": tree{"path": endpoints}},
	}
	if policy != "" {
		var instead any
		if err := yaml.Unmarshal([]byte(policy), &instead); err != nil {
			return nil, err
		}
		cluster["load_balancing_policy"] = instead
	}
	return json.Marshal(file)
}

const (
	clusterName     = "weft"
	envoyRoundRobin = `{policies: [{typed_extension_config: {name: envoy.load_balancing_policies.round_robin, typed_config: {
		"@type": type.googleapis.com/envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin}}}]}`
)

func address(of string) tree {
	return tree{"socket_address": tree{"address": "127.0.0.1", "port_value": portOf(of)}}
}

// assignment is the servers as Envoy reads them. A ring knows them by their pods.
func assignment(targets []target) tree {
	all := []tree{}
	for _, t := range targets {
		all = append(all, tree{
			"endpoint": tree{"address": address(t.grpc)},
			"metadata": tree{"filter_metadata": tree{"envoy.lb": tree{"hash_key": t.pod}}},
		})
	}
	return tree{"resources": []tree{{
		"@type":        "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
		"cluster_name": clusterName, "endpoints": []tree{{"lb_endpoints": all}},
	}}}
}

// places is how many servers HAProxy has at most.
const places = 16

// haproxy starts HAProxy with the file of deploy/haproxy. It has its servers from its socket for administrators.
func (r *trial) haproxy(targets []target) (*balancer, error) {
	r.started++
	folder := filepath.Join(r.folder, fmt.Sprintf("%03d-haproxy", r.started))
	port, err := freePort(r.ctx)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(folder, "admin")
	text, err := os.ReadFile(filepath.Join(r.Deploy, "haproxy", "haproxy.cfg"))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "haproxy.cfg")
	if err := harness.Write(file, rewireHAProxy(text, socket, port)); err != nil {
		return nil, err
	}
	var at [places]string // the address of the server at each place
	set := func(targets []target) error {
		var lines strings.Builder
		for i, was := range at {
			if was != "" && !slices.ContainsFunc(targets, func(t target) bool { return t.grpc == was }) {
				fmt.Fprintf(&lines, "set server weft/weft%d state maint\n", i+1)
				at[i] = ""
			}
		}
		for _, t := range targets {
			if slices.Contains(at[:], t.grpc) {
				continue
			}
			free := slices.Index(at[:], "")
			if free < 0 {
				return fmt.Errorf("more than %d servers", places)
			}
			at[free] = t.grpc
			fmt.Fprintf(&lines, "set server weft/weft%[1]d addr 127.0.0.1 port %[2]d\n"+
				"set server weft/weft%[1]d check-port %[3]d\nset server weft/weft%[1]d state ready\n",
				free+1, portOf(t.grpc), portOf(t.http))
		}
		return tell(r.ctx, socket, lines.String())
	}
	b, err := r.launch(folder, port, set, r.Haproxy, "-f", file)
	if err == nil {
		err = set(targets)
		time.Sleep(2 * time.Second) // for the first health checks
	}
	return b, err
}

// rewireHAProxy returns a file of HAProxy that listens at a port of this machine, with places for servers that are
// filled by its socket.
func rewireHAProxy(text []byte, socket string, port int) []byte {
	var file strings.Builder
	for line := range strings.Lines(string(text)) {
		switch fields := strings.Fields(line); {
		case len(fields) == 0:
		case fields[0] == "global":
			line += fmt.Sprintf("    stats socket %s mode 600 level admin\n", socket)
		case fields[0] == "bind":
			line = fmt.Sprintf("    bind 127.0.0.1:%d proto h2\n", port)
		case fields[0] == "server-template":
			line = fmt.Sprintf("    server-template weft %d 127.0.0.1:1 disabled\n", places)
		}
		file.WriteString(line)
	}
	return []byte(file.String())
}

// tell sends commands to the socket of HAProxy, each by a connection of its own.
func tell(ctx context.Context, socket, lines string) error {
	for line := range strings.Lines(lines) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte(line))
		var said bytes.Buffer
		_, failed := said.ReadFrom(conn)
		if err := errors.Join(err, failed, conn.Close()); err != nil {
			return err
		}
		if text := strings.TrimSpace(said.String()); strings.Contains(text, "No such") || strings.Contains(text, "Unknown") {
			return fmt.Errorf("haproxy: %s: %s", strings.TrimSpace(line), text)
		}
	}
	return nil
}
