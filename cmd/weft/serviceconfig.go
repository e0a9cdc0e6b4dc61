package main

import "fmt"

// serviceCommand is `weft serviceconfig`.
type serviceCommand struct {
	Policy string `arg:"" optional:"" enum:"wrr,ring" default:"wrr" help:"wrr (by load reports) or ring (by episode); default ${default}."`
}

// Help implements kong.HelpProvider: the text below the flags.
func (serviceCommand) Help() string {
	return `Give it to gRPC clients as their default service config, or publish it by DNS. Go clients must import
google.golang.org/grpc/health, and .../balancer/weightedroundrobin or .../balancer/ringhash; without the balancer they
use round robin.`
}

// policies are the balancing of a service config; a client takes the first that it knows.
//
// gRPC's default leaves the weights of the first ten seconds out (blackoutPeriod), in which a slow server is late, and
// follows the reports once a second (weightUpdatePeriod), which overshoots: with two servers, one of half the speed,
// 40 % were late at 1 s, 1 % at 0.2 s and none at 0.1 s, the least that there is. A server that refuses as many
// requests as it answers counts as if its devices worked for one more second each second (errorUtilizationPenalty).
var policies = map[string]string{
	"wrr": `{"weighted_round_robin": {
      "blackoutPeriod": "0.2s", "weightUpdatePeriod": "0.1s", "errorUtilizationPenalty": 1
    }}`,
	"ring": `{"ring_hash_experimental": {"requestHashHeader": "weft-episode"}}`,
}

// serviceConfig is the rest. An entry for a method takes the place of that for its service: gRPC does not send requests
// of a stream again, because it cannot know the ones that had an effect.
const serviceConfig = `{
  "loadBalancingConfig": [
    %s,
    {"round_robin": {}}
  ],
  "healthCheckConfig": {"serviceName": ""},
  "methodConfig": [
    {
      "name": [
        {"service": "weft.v1.PredictionService"}, {"service": "weft.v1.ModelService"},
        {"service": "inference.GRPCInferenceService"},
        {"service": "tensorflow.serving.PredictionService"}, {"service": "tensorflow.serving.ModelService"}
      ],
      "retryPolicy": {
        "maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.2s", "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE"]
      }
    },
    {
      "name": [
        {"service": "weft.v1.PredictionService", "method": "PredictStream"},
        {"service": "inference.GRPCInferenceService", "method": "ModelStreamInfer"}
      ]
    }
  ]
}
`

// Run prints the service config.
func (c *serviceCommand) Run(s streams) error {
	_, err := fmt.Fprintf(s.out, serviceConfig, policies[c.Policy])
	return err
}
