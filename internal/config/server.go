package config

import (
	"encoding"
	"fmt"
	"math"
	"net"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// Server is the settings of the whole server. The same struct is the flags of the command line (kong reads
// the name, default, help and env tags) and the keys of the settings file (Decode reads the yaml tags); a
// flag and its key have the same name. A flag wins over its environment variable, the variable over the file, and the
// file over the default.
type Server struct {
	// Listen is the address of gRPC, as HOST:PORT, or unix:/PATH for a socket. Port 0 takes a free one. An empty host is
	// every interface. Beyond this machine it needs identities, or Insecure.
	Listen string `yaml:"listen" name:"listen" default:"127.0.0.1:9000" group:"Addresses:" help:"gRPC."`
	// HTTP is the address of predictions over HTTP, metrics and health, as HOST:PORT or unix:/PATH; empty disables it.
	HTTP string `yaml:"http" name:"http" default:"127.0.0.1:9001" group:"Addresses:" help:"Metrics, health, JSON and the page; empty: none."`
	// Pprof serves profiles and all metrics of the Go runtime on the HTTP address, too. Everybody who reaches it can have
	// the server take profiles, which slows it down, and see what it runs.
	Pprof bool `yaml:"pprof" name:"pprof" group:"Addresses:" help:"Serve profiles (/debug/pprof/) on --http, too."`
	// AdminListen is the address of AdminService, as HOST:PORT or unix:/PATH; empty disables it. Everybody who may call
	// it can unload models: keep it on this machine.
	AdminListen string `yaml:"admin-listen" name:"admin-listen" default:"127.0.0.1:9002" group:"Addresses:" help:"AdminService, which changes what is served; empty: none."`
	// TLSCert and TLSKey are PEM files of the server's certificate, with those between it and its CA, and of its key.
	// Every address then speaks TLS 1.3 and nothing else. They are read again when they change, and on SIGHUP.
	TLSCert string `yaml:"tls-cert,omitempty" name:"tls-cert" placeholder:"FILE" group:"TLS and access:" help:"PEM file of the certificate; TLS 1.3 everywhere."`
	TLSKey  string `yaml:"tls-key,omitempty" name:"tls-key" placeholder:"FILE" group:"TLS and access:" help:"PEM file of its key."`
	// TLSClientCA is a PEM file of the CAs whose certificates callers must show, or may, as TLSClientAuth says.
	TLSClientCA string `yaml:"tls-client-ca,omitempty" name:"tls-client-ca" placeholder:"FILE" group:"TLS and access:" help:"PEM file of the CAs of callers' certificates."`
	// TLSClientAuth says whether callers must show a certificate where they are asked for one: require or optional. The
	// HTTP address asks, and needs one for everything but health, so that probes work without.
	TLSClientAuth ClientAuth `yaml:"tls-client-auth" name:"tls-client-auth" default:"require" enum:"require,optional" group:"TLS and access:" help:"Of callers with --tls-client-ca: require or optional."`
	// TLSSPIFFESocket is the address of a SPIFFE Workload API, such as unix:///run/spire/agent.sock, which gives the
	// certificate and the CAs, and replaces them in time.
	TLSSPIFFESocket string `yaml:"tls-spiffe-socket,omitempty" name:"tls-spiffe-socket" placeholder:"unix:///PATH" group:"TLS and access:" help:"A SPIFFE Workload API in the place of files."`
	// TLSDev makes certificates for this machine, and keeps them in the state directory of the user, or in StateDir.
	TLSDev bool `yaml:"tls-dev" name:"tls-dev" group:"TLS and access:" help:"Certificates that are made for this machine."`
	// Insecure lets addresses beyond this machine serve anybody who reaches them.
	Insecure bool `yaml:"insecure" name:"insecure" group:"TLS and access:" help:"Listen beyond this machine without identities."`
	// Access is a YAML file that says who may do what, see docs/how-to/access.md; empty: everybody may do everything.
	Access string `yaml:"access,omitempty" name:"access" default:"" placeholder:"FILE" group:"TLS and access:" help:"YAML file that says who may do what."`
	// HTTPHosts are the names, without a port, by which callers reach the HTTP address. On loopback they count beside
	// localhost and its addresses; elsewhere requests to other names are refused if there are any.
	HTTPHosts []string `yaml:"http-hosts,omitempty,flow" name:"http-hosts" placeholder:"NAME" group:"Addresses:" help:"More names by which callers reach --http."`
	// HTTPOrigins are the origins, such as https://grafana.example, whose pages may read the HTTP address in a browser.
	HTTPOrigins []string `yaml:"http-origins,omitempty,flow" name:"http-origins" placeholder:"ORIGIN" group:"Addresses:" help:"Origins whose pages may read --http."`
	// Devices are the devices that models may run on: cpu, cuda (the first GPU) or cuda:N. cpu:N runs N batches at a
	// time on the processor, 1 to 999; without N as many as there are processors. Too few leave processors
	// idle; more than there are make each batch slower, and keep gRPC waiting.
	Devices []string `yaml:"devices,flow" name:"devices" default:"cpu" group:"Execution:" help:"cpu, cpu:N (N batches at a time), cuda, cuda:N (GPU number N)."`
	// Isolation says where models run: device, in a process for each device, so that a model that crashes or hangs ends
	// that process and not the server; model, in a process for each version on each device; none, in the server.
	Isolation Isolation `yaml:"isolation" name:"isolation" default:"device" enum:"device,model,none" group:"Execution:" help:"A process for each device, for each version (model), or none."`
	// Sandbox says whether the processes of models are confined: to libraries, without a network, and without a way to
	// programs and other processes: auto as far as the kernel can, off not at all.
	Sandbox Sandbox `yaml:"sandbox" name:"sandbox" default:"auto" enum:"auto,off" group:"Execution:" help:"Confine these processes: auto (as far as the kernel can) or off."`
	// WorkerMemory bounds the memory of each process that runs models, besides the memory of batches and of the files
	// that it shares; auto: three quarters of the memory that the server may use, of the machine or of its control
	// group. A run that takes more ends with that process, and its requests are run once more, each by itself. 0
	// disables the limit. Too low refuses models and requests that there is memory for; too high risks that the system
	// kills a process of its own choice for memory.
	WorkerMemory Bound `yaml:"worker-memory" name:"worker-memory" default:"auto" group:"Limits:" help:"Memory of each process that runs models; auto: 3/4 of what there is; 0: no limit."`
	// RunTimeout is the longest that one run of a model may take; one whose cost is known may take less: 20 times what is
	// expected, at least 2 s. A run that takes longer is stopped, if need be by ending its process, and its requests
	// are run once more, each by itself. 0: any time. Too low stops the first runs of large models; too high lets a run
	// that hangs hold up its device for so long.
	RunTimeout Duration `yaml:"run-timeout" name:"run-timeout" default:"30s" group:"Execution:" help:"Longest run of a model; 0: no limit."`
	// RequireDigests refuses versions that have no SHA256SUMS, which `weft seal` writes; default false: a version's files
	// are compared with it where there is one.
	RequireDigests bool `yaml:"require-digests" name:"require-digests" group:"Models:" help:"Refuse versions without SHA256SUMS (weft seal)."`
	// GPUTelemetry says whether the server follows the state of the GPUs among the devices, so that estimates of
	// executions know clocks, other processes and memory: auto does where the driver can report it, off never does.
	GPUTelemetry GPUTelemetry `yaml:"gpu-telemetry" name:"gpu-telemetry" default:"auto" enum:"auto,off" group:"Execution:" help:"Read the state of GPUs: auto or off."`
	// DrainTimeout is how long a stopping server lets accepted requests finish; 0 cuts them short at once. Too low
	// breaks off promised work; too high delays a restart in which something hangs.
	DrainTimeout Duration `yaml:"drain-timeout" name:"drain-timeout" default:"30s" group:"Limits:" help:"Time of accepted requests to end at a stop."`
	// LameDuck is how long a server that is told to stop answers as before, while its health says that it does not serve;
	// auto: 5s, at most half of DrainTimeout, and 0 where the log goes to a terminal. It is a part of DrainTimeout. Too
	// low fails requests of callers and balancers that have not noticed yet; too high delays restarts.
	LameDuck Period `yaml:"lame-duck" name:"lame-duck" default:"auto" group:"Limits:" help:"Answer on for this long at a stop, while health says no; auto: 5s, 0 at a terminal."`
	// LoadBudget is the device time of waiting requests that counts as much, in what the server reports of its load, as a
	// device that works all the time; auto: as long as the largest full batch takes that runs, within 20ms and 200ms. From
	// 1ms to 10s. Too low has balancers turn away from short bursts; too high has them learn of a queue when it is late.
	LoadBudget Period `yaml:"load-budget" name:"load-budget" default:"auto" group:"Limits:" help:"Waiting device time that is reported as a full load; auto: a full batch."`
	// MaxQueuedBytes bounds the input bytes of all waiting requests together; beyond it requests are refused.
	// Too low refuses bursts that there is memory for; too high risks that the system kills the process for memory.
	MaxQueuedBytes Size `yaml:"max-queued-bytes" name:"max-queued-bytes" default:"1GiB" group:"Limits:" help:"Inputs of all waiting requests."`
	// MaxMessageBytes bounds one message in either direction, at least 1KiB. Too low refuses large inputs; too
	// high lets one client take that much memory per call.
	MaxMessageBytes Size `yaml:"max-message-bytes" name:"max-message-bytes" default:"16MiB" group:"Limits:" help:"Largest message, in either direction."`
	// MaxHeldBytes bounds what is held for all connections together, at least 16MiB: requests that are being received,
	// answers that were not taken yet, 56KiB for each connection and 24KiB for each open call. Near it calls are refused
	// on connections that hold a large part without progress; beyond it the worst connection is ended. Too low ends
	// connections with many calls; too high lets strangers take that much memory.
	MaxHeldBytes Size `yaml:"max-held-bytes" name:"max-held-bytes" default:"256MiB" group:"Limits:" help:"Memory held for all connections."`
	// StateMemory bounds the bytes of the states of all episodes together, which models with `state` keep between
	// requests; beyond it no new episode begins. Too low refuses episodes that there is memory for; too high risks that
	// the system kills the process for memory.
	StateMemory Size `yaml:"state-memory" name:"state-memory" default:"1GiB" group:"Limits:" help:"States of all episodes."`
	// MaxConnectionAge is after how long a connection of gRPC is asked to go, so that its caller connects anew, by other
	// certificates or to another server, a tenth earlier or later; its open calls go on. At least 1m; 0 disables it. Too
	// low has callers connect all the time; too high lets callers stay whose certificates are no longer taken.
	MaxConnectionAge Duration `yaml:"max-connection-age" name:"max-connection-age" default:"24h" group:"Limits:" help:"When a connection is asked to go; 0: never."`
	// MaxConcurrentRequests bounds the requests inside the server; 0 disables the limit, and the queues bound them.
	MaxConcurrentRequests int `yaml:"max-concurrent-requests" name:"max-concurrent-requests" default:"0" group:"Limits:" help:"Requests inside the server; 0: no limit."`
	// TritonStatusCodes has the Open Inference Protocol answer as Triton does where there is no capacity, or no time.
	TritonStatusCodes bool `yaml:"triton-status-codes" name:"triton-status-codes" group:"Compatibility:" help:"Answer overload with UNAVAILABLE, as Triton does."`
	// SharedMemory lets callers of the Open Inference Protocol register regions of POSIX shared memory of this machine,
	// whose parts requests name in the place of elements. Anybody who may register one has the server read and write what
	// is in /dev/shm as its own user.
	SharedMemory bool `yaml:"shared-memory" name:"shared-memory" group:"Compatibility:" help:"Let callers of the Open Inference Protocol register shared memory."`
	// WatchInterval is how often the repositories are scanned, in addition to the file system's notifications, at least
	// 100ms; 0 scans only when the server starts and on SIGHUP. Too low reads the disk for nothing; too high finds
	// changes late on file systems without notifications.
	WatchInterval Duration `yaml:"watch-interval" name:"watch-interval" default:"5s" group:"Models:" help:"How often repositories are scanned; 0: at the start and on SIGHUP."`
	// ModelConfigFile is a model config file of TensorFlow Serving's, whose models are served beside those of the
	// repositories; empty: there is none. It is followed as the repositories are.
	ModelConfigFile string `yaml:"model-config-file,omitempty" name:"model-config-file" default:"" placeholder:"FILE" group:"Models:" help:"Serve the models of this TensorFlow Serving file."`
	// ModelStores are directories outside the repositories that symbolic links of models and versions may lead to, and
	// that must be there. Anybody who may write to a repository can have their files served.
	ModelStores []string `yaml:"model-stores,omitempty,flow" name:"model-stores" placeholder:"DIR" group:"Models:" help:"Where symbolic links in repositories may lead."`
	// Roster names the replicas that divide the models among them: a YAML file, or an environment variable with names
	// between commas; empty: each has every model. The file is read again whenever the repositories are scanned.
	Roster string `yaml:"roster,omitempty" name:"roster" default:"" placeholder:"FILE|ENV" group:"Models:" help:"Replicas that divide the models: a YAML file, or a variable of names."`
	// Self is this server's name on the roster; empty: the name of its host, which in Kubernetes is that of the pod.
	Self string `yaml:"self,omitempty" name:"self" default:"" placeholder:"NAME" group:"Models:" help:"This server's name on the roster; by default its host's."`
	// Copies is on how many replicas of the roster a model is whose settings do not say it, 1 to 1000. Too low leaves a
	// model without a server when one stops, and one server alone with its load; each copy takes the model's memory.
	Copies int `yaml:"copies" name:"copies" default:"2" group:"Models:" help:"Replicas of the roster that have each model."`
	// Cache is a directory for the copies of repositories that lie in buckets and registries; auto: weft in the cache
	// directory of the user. What is there serves a start without a network.
	Cache string `yaml:"cache" name:"cache" default:"auto" placeholder:"DIR" group:"Models:" help:"Copies of repositories in buckets and registries; auto: weft in the user's cache directory."`
	// ModelMemory bounds the estimated memory of all resident models together; 0 disables the limit. Beyond it a
	// version is refused with the figures. Too low refuses versions that would fit; too high risks that the system
	// kills the process for memory.
	ModelMemory Size `yaml:"model-memory" name:"model-memory" default:"0" group:"Limits:" help:"Estimated memory of resident models; 0: no limit."`
	// MaxUploadBytes bounds the files of one version that is uploaded, together; 0 has the server take none. Too low
	// refuses large models; too high lets callers who may operate a model fill the disk.
	MaxUploadBytes Size `yaml:"max-upload-bytes" name:"max-upload-bytes" default:"2GiB" group:"Limits:" help:"Files of an uploaded version (weft push); 0: none are taken."`
	// MaxEpisodes bounds the running episodes whose version the server remembers, at least 1. The episode whose latest
	// request is oldest is forgotten first, and then goes where its id leads. Each takes about 200 bytes.
	MaxEpisodes int `yaml:"max-episodes" name:"max-episodes" default:"100000" group:"Models:" help:"Running episodes that keep their version."`
	// EpisodeTTL is the time without a request after which an episode is over, at least 1s.
	EpisodeTTL Duration `yaml:"episode-ttl" name:"episode-ttl" default:"10m" group:"Models:" help:"An episode ends after this long without a request."`
	// Record is a folder for recordings of requests and answers; empty disables recording.
	Record string `yaml:"record,omitempty" name:"record" default:"" placeholder:"DIR" group:"Recordings and logs:" help:"Record requests and answers in this folder."`
	// RecordSample is the part of the episodes that is recorded, and the part of the requests without an episode;
	// above 0 up to 1.
	RecordSample float64 `yaml:"record-sample" name:"record-sample" default:"1" group:"Recordings and logs:" help:"Part of the episodes that is recorded."`
	// RecordInputs is the recorded form of inputs: full, hash or none. Only full recordings can be replayed.
	RecordInputs RecordInputs `yaml:"record-inputs" name:"record-inputs" default:"full" enum:"full,hash,none" group:"Recordings and logs:" help:"full, hash or none."`
	// RecordLimit bounds the size of all recordings in the folder, those of earlier runs too, at least 64MiB:
	// the oldest are deleted beyond it; 0 disables the limit. Too low keeps too short a time; too high fills the disk.
	RecordLimit Size `yaml:"record-limit" name:"record-limit" default:"10GiB" group:"Recordings and logs:" help:"Size of the folder; the oldest go; 0: no limit."`
	// StateDir is a directory for decisions made at run time: traffic, rollouts, labels, versions loaded by hand. auto
	// is .weft-state in the first repository, where that can be written to. none, or empty: decisions end with the
	// server. Each server needs one of its own.
	StateDir string `yaml:"state-dir" name:"state-dir" default:"auto" placeholder:"DIR" group:"Models:" help:"Where decisions are kept; auto: .weft-state in the first repository; or none."`
	// ShadowLog is a file to which one line is appended for each comparison of a shadow; empty disables it.
	ShadowLog string `yaml:"shadow-log,omitempty" name:"shadow-log" default:"" placeholder:"FILE" group:"Models:" help:"Append a line of JSON for each comparison of a shadow."`
	// ONNXRuntimeLib is the path of the ONNX Runtime shared library; empty searches as package ortlib does.
	ONNXRuntimeLib string `yaml:"onnxruntime-lib" name:"onnxruntime-lib" default:"" env:"WEFT_ONNXRUNTIME_LIB" placeholder:"PATH" group:"Execution:" help:"The ONNX Runtime library; empty: search"`
	// ORTOps are shared libraries of custom operators for ONNX Runtime, which the models of every repository may then use.
	// They are code of the operator's choice, which runs where models do; no model names one.
	ORTOps []string `yaml:"ort-ops,omitempty,flow" name:"ort-ops" placeholder:"PATH" group:"Execution:" help:"Libraries of custom operators that models may use."`
	// SchedTrace is a file for every event and decision of the scheduler, to be decided again later; empty disables
	// it. It grows by some hundred bytes with each request, and holds the shapes of requests and the values of
	// inputs without a batch dimension.
	SchedTrace string `yaml:"sched-trace,omitempty" name:"sched-trace" default:"" placeholder:"FILE" group:"Recordings and logs:" help:"Record the scheduler's events for weft sim --replay."`
	// LogLevel is the least severe level that is logged.
	LogLevel LogLevel `yaml:"log-level" name:"log-level" default:"info" enum:"debug,info,warn,error" group:"Recordings and logs:" help:"debug, info, warn or error."`
	// LogFormat is text for people, json for machines.
	LogFormat LogFormat `yaml:"log-format" name:"log-format" default:"text" enum:"text,json" group:"Recordings and logs:" help:"text or json."`
}

// Isolation is device, model or none.
type Isolation string

// Where models run.
const (
	IsolateDevice Isolation = "device"
	IsolateModel  Isolation = "model"
	IsolateNone   Isolation = "none"
)

// Sandbox is auto or off.
type Sandbox string

// Whether processes of models are confined.
const (
	SandboxAuto Sandbox = "auto"
	SandboxOff  Sandbox = "off"
)

// GPUTelemetry is auto or off.
type GPUTelemetry string

// Gone implements [Outdated], for old files and command lines.
func (Server) Gone() map[string]string {
	return map[string]string{"gpu-telemetry-interval": "clocks and memory of GPUs are read every 150ms: remove it"}
}

// Whether GPUs are followed.
const (
	GPUTelemetryAuto GPUTelemetry = "auto"
	GPUTelemetryOff  GPUTelemetry = "off"
)

// Values of state-dir that are no directory.
const (
	StateDirAuto = "auto"
	StateDirNone = "none"
)

// ClientAuth is require or optional.
type ClientAuth string

// Whether callers must show a certificate.
const (
	ClientAuthRequire  ClientAuth = "require"
	ClientAuthOptional ClientAuth = "optional"
)

// RecordInputs is full, hash or none.
type RecordInputs string

// LogLevel is debug, info, warn or error.
type LogLevel string

// LogFormat is text or json.
type LogFormat string

// DefaultServer returns the settings of a server without flags and file. They equal the default tags of Server, which
// kong reads; a test compares them.
func DefaultServer() Server {
	return Server{
		Listen: "127.0.0.1:9000", HTTP: "127.0.0.1:9001", AdminListen: "127.0.0.1:9002", Devices: []string{"cpu"},
		TLSClientAuth: ClientAuthRequire,
		Isolation:     IsolateDevice, Sandbox: SandboxAuto, WorkerMemory: AutoBound, RunTimeout: Duration(30 * time.Second),
		GPUTelemetry: GPUTelemetryAuto,
		DrainTimeout: Duration(30 * time.Second), LameDuck: AutoPeriod, LoadBudget: AutoPeriod,
		MaxQueuedBytes: GiB, MaxMessageBytes: 16 * MiB, MaxHeldBytes: 256 * MiB, StateMemory: GiB,
		Cache: "auto", MaxUploadBytes: 2 * GiB, MaxConnectionAge: Duration(24 * time.Hour),
		WatchInterval: Duration(5 * time.Second),
		Copies:        2,
		MaxEpisodes:   100_000, EpisodeTTL: Duration(10 * time.Minute),
		RecordSample: 1, RecordInputs: "full", RecordLimit: 10 * GiB,
		StateDir: StateDirAuto,
		LogLevel: "info", LogFormat: "text",
	}
}

// ServerFile reads a settings file over the defaults. It returns what the file sets, by key: text for a single value,
// []any for a list, as a flag parser takes them. Settings are judged one by one here. How they fit together shows only
// when the flags are known too: see [Server.Check].
func ServerFile(file string, data []byte) (map[string]any, error) {
	s := DefaultServer()
	d, err := decode(file, data, &s, s.checkEach)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	settings := reflect.ValueOf(s)
	for _, f := range fieldsOf(settings.Type()) {
		if _, isSet := d.places[f.key]; isSet {
			values[f.key] = flagValue(settings.Field(f.index))
		}
	}
	return values, nil
}

// flagValue returns a setting as text that its flag would read, or a list of such.
func flagValue(v reflect.Value) any {
	if v.Kind() == reflect.Slice {
		list := make([]any, v.Len())
		for i := range list {
			list[i] = v.Index(i).Interface()
		}
		return list
	}
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v.Interface())
}

// Check returns everything that is wrong with the settings, one by one and together. It opens no file and no address.
func (s *Server) Check() Faults {
	faults := s.checkEach()
	if s.MaxQueuedBytes < s.MaxMessageBytes {
		faults.Addf("max-queued-bytes", "%v is less than max-message-bytes (%v): the largest message could never "+
			"wait; raise one or lower the other",
			s.MaxQueuedBytes, s.MaxMessageBytes)
	}
	if s.MaxHeldBytes < 2*s.MaxMessageBytes {
		faults.Addf("max-held-bytes", "%v is less than twice max-message-bytes (%v): a large request and its answer would "+
			"end their connection; raise one or lower the other", s.MaxHeldBytes, s.MaxMessageBytes)
	}
	if s.Self != "" && s.Roster == "" {
		faults.Addf("self", "set while roster is empty; name the roster, or leave self out")
	}
	if s.Pprof && s.HTTP == "" {
		faults.Addf("pprof", "set while http is empty, whose address serves the profiles; set http, or leave pprof out")
	}
	if s.LameDuck > 0 && Duration(s.LameDuck) >= s.DrainTimeout {
		faults.Addf("lame-duck", "%v is not less than drain-timeout (%v), which contains it: nothing would be left to "+
			"answer what was accepted; lower it, or raise drain-timeout", s.LameDuck, s.DrainTimeout)
	}
	seen := map[string]string{}
	for _, l := range s.listeners() {
		// Port 0 is a free one each time. Faulty addresses have been reported.
		if _, port, err := net.SplitHostPort(l.address); port == "0" || err != nil && !isSocket(l.address) {
			continue
		}
		if other, taken := seen[l.address]; taken {
			faults.Addf(l.key, "%s is the address of %s already; give each its own", l.address, other)
		}
		seen[l.address] = l.key
	}
	s.checkTLS(&faults)
	s.checkDoors(&faults)
	return faults
}

// checkEach returns what is wrong with single settings. Most upper bounds are far beyond sense: they catch a wrong
// unit.
func (s *Server) checkEach() Faults {
	var faults Faults
	checkAddress(&faults, "listen", s.Listen)
	if s.HTTP != "" {
		checkAddress(&faults, "http", s.HTTP)
	}
	if s.AdminListen != "" {
		checkAddress(&faults, "admin-listen", s.AdminListen)
	}
	checkWeb(&faults, s.HTTPHosts, s.HTTPOrigins)
	checkDevices(&faults, s.Devices)
	Between(&faults, "drain-timeout", s.DrainTimeout, 0, Duration(24*time.Hour))
	if s.LoadBudget != AutoPeriod {
		Between(&faults, "load-budget", Duration(s.LoadBudget), Duration(time.Millisecond), Duration(10*time.Second))
	}
	Between(&faults, "max-queued-bytes", s.MaxQueuedBytes, KiB, 1<<40)
	// Protocol buffers hold less than 2 GiB.
	Between(&faults, "max-message-bytes", s.MaxMessageBytes, KiB, 2*GiB-MiB)
	Between(&faults, "max-upload-bytes", s.MaxUploadBytes, 0, 1<<40)
	Between(&faults, "max-held-bytes", s.MaxHeldBytes, 16*MiB, 1<<40)
	Between(&faults, "state-memory", s.StateMemory, 0, 1<<40)
	if s.MaxConnectionAge != 0 {
		Between(&faults, "max-connection-age", s.MaxConnectionAge, Duration(time.Minute), Duration(365*24*time.Hour))
	}
	Between(&faults, "max-concurrent-requests", s.MaxConcurrentRequests, 0, math.MaxInt32)
	if s.WatchInterval != 0 {
		Between(&faults, "watch-interval", s.WatchInterval, Duration(100*time.Millisecond), Duration(24*time.Hour))
	}
	if s.WorkerMemory != AutoBound && s.WorkerMemory != 0 {
		Between(&faults, "worker-memory", Size(s.WorkerMemory), 64*MiB, 1<<50)
	}
	Between(&faults, "model-memory", s.ModelMemory, 0, 1<<50)
	Between(&faults, "copies", s.Copies, 1, 1000)
	Between(&faults, "max-episodes", s.MaxEpisodes, 1, 100_000_000)
	Between(&faults, "episode-ttl", s.EpisodeTTL, Duration(time.Second), Duration(30*24*time.Hour))
	if !(s.RecordSample > 0 && s.RecordSample <= 1) {
		faults.Addf("record-sample", "%v; expected a number above 0 up to 1", s.RecordSample)
	}
	if s.RecordLimit != 0 {
		Between(&faults, "record-limit", s.RecordLimit, 64*MiB, 1<<50)
	}
	return faults
}

// device is a name of --devices. Leading zeros are refused: cuda:01 would pass for another GPU than cuda:1.
var device = regexp.MustCompile(`^(cpu(:[1-9][0-9]{0,2})?|cuda(:(0|[1-9][0-9]{0,2}))?)$`)

// checkDevices refuses names that are no devices, and devices that are listed twice in any of their forms.
func checkDevices(faults *Faults, devices []string) {
	if len(devices) == 0 {
		faults.Addf("devices", "the list is empty; expected at least one of cpu, cpu:N, cuda, cuda:N")
	}
	seen := map[string]bool{}
	for i, name := range devices {
		key := fmt.Sprintf("devices[%d]", i)
		if !device.MatchString(name) {
			faults.Addf(key, "expected cpu, cpu:N (N batches at a time), cuda or cuda:N (GPU number N), found %q", name)
			continue
		}
		if strings.HasPrefix(name, "cpu:") {
			name = "cpu"
		}
		if name == "cuda" {
			name = "cuda:0"
		}
		if seen[name] {
			faults.Addf(key, "%s is listed twice", name)
		}
		seen[name] = true
	}
}
