package roster

import (
	"fmt"
	"net"
	"strings"
)

// weighted is the policy that goes by the load reports of the replicas.
const weighted = "type.googleapis.com/envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3." +
	"ClientSideWeightedRoundRobin"

// envoyHead is what a cluster has beside its endpoints. Its requests go to the endpoints that have the model of the
// dynamic metadata envoy.lb, and without such metadata to any.
const envoyHead = `# Written by weft place: a cluster for the cds_config of Envoy.
resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: weft
  type: STRICT_DNS
  connect_timeout: 1s
  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config: {http2_protocol_options: {}}
  health_checks:
  - {timeout: 1s, interval: 2s, unhealthy_threshold: 2, healthy_threshold: 1, grpc_health_check: {}}
  circuit_breakers: {thresholds: [{max_requests: 100000, max_pending_requests: 100000, max_retries: 1000}]}
  load_balancing_policy:
    policies:
    - typed_extension_config:
        name: envoy.load_balancing_policies.subset
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.load_balancing_policies.subset.v3.Subset
          fallback_policy: ANY_ENDPOINT
          subset_selectors: [{keys: [model]}]
          list_as_any: true
          subset_lb_policy:
            policies:
            - typed_extension_config:
                name: envoy.load_balancing_policies.client_side_weighted_round_robin
                typed_config:
                  "@type": ` + weighted + `
                  blackout_period: 1s
  load_assignment:
    cluster_name: weft
    endpoints:
    - lb_endpoints:
`

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
		host, port, err := net.SplitHostPort(at)
		if err != nil || host == "" || port == "" {
			return "", fmt.Errorf("replica %s: expected an address such as NAME.weft:9000, found %q", replica.Name, at)
		}
		fmt.Fprintf(&b, "      - endpoint: {address: {socket_address: {address: %q, port_value: %s}}}\n", host, port)
		fmt.Fprintf(&b, "        metadata: {filter_metadata: {envoy.lb: {model: %s}}}\n", list(t.ModelsOf(r)))
	}
	return b.String(), nil
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
