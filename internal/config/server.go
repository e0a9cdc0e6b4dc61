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
	// Listen is the address of gRPC: HOST:PORT, or unix:/PATH for a socket. Port 0 takes a free port, and an empty host
	// listens on every interface. Addresses that other machines can reach require identities, or Insecure.
	Listen string `yaml:"listen" name:"listen" default:"127.0.0.1:9000" group:"Addresses:" help:"gRPC."`
	// HTTP is the address of the HTTP protocols, the page, metrics and health: HOST:PORT or unix:/PATH. Empty disables
	// it.
	HTTP string `yaml:"http" name:"http" default:"127.0.0.1:9001" group:"Addresses:" help:"Metrics, health, JSON and the page; empty: none."`
	// Pprof serves Go profiles (/debug/pprof/) and all Go runtime metrics on the HTTP address. Without Access, everyone
	// who reaches it can slow the server down and see what it runs.
	Pprof bool `yaml:"pprof" name:"pprof" group:"Addresses:" help:"Serve profiles (/debug/pprof/) on --http, too."`
	// AdminListen is the address of AdminService: HOST:PORT or unix:/PATH. Empty disables it. Without Access, everyone
	// who reaches it can unload models, so keep it on this machine.
	AdminListen string `yaml:"admin-listen" name:"admin-listen" default:"127.0.0.1:9002" group:"Addresses:" help:"AdminService; empty: none."`
	// TLSCert and TLSKey are PEM files: the server's certificate with its intermediate certificates, and its key. Every
	// address then speaks TLS 1.3 only. The server reads them again when they change, and on SIGHUP.
	TLSCert string `yaml:"tls-cert,omitempty" name:"tls-cert" placeholder:"FILE" group:"TLS and access:" help:"PEM certificate; TLS 1.3 everywhere."`
	TLSKey  string `yaml:"tls-key,omitempty" name:"tls-key" placeholder:"FILE" group:"TLS and access:" help:"PEM file of its key."`
	// TLSClientCA is a PEM file of the CAs that sign callers' certificates. TLSClientAuth says whether callers must show
	// one.
	TLSClientCA string `yaml:"tls-client-ca,omitempty" name:"tls-client-ca" placeholder:"FILE" group:"TLS and access:" help:"PEM CAs of callers' certificates."`
	// TLSClientAuth (require or optional) is whether callers must show a certificate. With require, the HTTP address
	// still answers /healthz and /readyz without a certificate, so that probes work; with an access file, that file
	// decides on the HTTP address.
	TLSClientAuth ClientAuth `yaml:"tls-client-auth" name:"tls-client-auth" default:"require" enum:"require,optional" group:"TLS and access:" help:"require or optional."`
	// TLSSPIFFESocket is the address of a SPIFFE Workload API, such as unix:///run/spire/agent.sock. It supplies and
	// rotates the certificate and the CAs, in place of files.
	TLSSPIFFESocket string `yaml:"tls-spiffe-socket,omitempty" name:"tls-spiffe-socket" placeholder:"unix:///PATH" group:"TLS and access:" help:"SPIFFE Workload API."`
	// TLSDev makes certificates for this machine and keeps them in the user's state directory, or in StateDir.
	TLSDev bool `yaml:"tls-dev" name:"tls-dev" group:"TLS and access:" help:"Make certificates for this machine."`
	// Insecure allows addresses that other machines can reach to serve callers without an identity.
	Insecure bool `yaml:"insecure" name:"insecure" group:"TLS and access:" help:"Allow open addresses without identities."`
	// Access is a YAML file that says who may do what and how much (docs/how-to/access.md). Without it every caller
	// that TLS, if set, accepts may do everything.
	Access string `yaml:"access,omitempty" name:"access" default:"" placeholder:"FILE" group:"TLS and access:" help:"YAML file that says who may do what."`
	// HTTPHosts are host names, without a port, by which callers reach the HTTP address. On loopback they are accepted
	// besides localhost and loopback addresses. On other addresses a non-empty list refuses requests to any other name or
	// address.
	HTTPHosts []string `yaml:"http-hosts,omitempty,flow" name:"http-hosts" placeholder:"NAME" group:"Addresses:" help:"More names by which callers reach --http."`
	// HTTPOrigins are origins, such as https://grafana.example, whose pages may read the HTTP address in a browser.
	HTTPOrigins []string `yaml:"http-origins,omitempty,flow" name:"http-origins" placeholder:"ORIGIN" group:"Addresses:" help:"Origins whose pages may read --http."`
	// Devices are the devices that models may use: cpu, cuda (the first GPU) or cuda:N. cpu:N runs N batches at a time, 1
	// to 999; without N, as many as GOMAXPROCS says, by default one for each CPU that the server may use. Too few leave
	// CPUs idle. More than there are CPUs slow each batch and delay gRPC.
	Devices []string `yaml:"devices,flow" name:"devices" default:"cpu" group:"Execution:" help:"cpu, cpu:N (N batches at a time), cuda, cuda:N."`
	// Isolation (device, model or none) is where models run. `device`: each device has a process, so a model that
	// crashes or hangs does not end the server. `model`: each version has a process on each device. `none`, and on
	// systems other than Linux: models run in the server, as synthetic models do.
	Isolation Isolation `yaml:"isolation" name:"isolation" default:"device" enum:"device,model,none" group:"Execution:" help:"A process for each device or model, or none."`
	// Sandbox (auto or off) is whether those processes are confined, without network and without access to other programs
	// and processes. With auto, they are as far as the kernel supports it.
	Sandbox Sandbox `yaml:"sandbox" name:"sandbox" default:"auto" enum:"auto,off" group:"Execution:" help:"Confine these processes: auto or off."`
	// WorkerMemory bounds the memory of each process that runs models, not counting batches and shared files. With auto
	// it is three quarters of the memory of the machine or of the control group; 0 disables the bound. A run that needs
	// more ends its process, and Weft runs each of its requests once more, alone.
	WorkerMemory Bound `yaml:"worker-memory" name:"worker-memory" default:"auto" group:"Limits:" help:"Memory of each model process; 0: no bound."`
	// RunTimeout is the hard limit of one run. Once the cost is known, the limit of a batch is lower: the largest of 20
	// times the expected cost of a full batch, twice the longest run so far, and 2 s. 0 keeps only that lower limit.
	// Weft ends a run that takes longer, except with isolation `none`, and runs each of its requests once more, alone.
	// Too low stops the first runs of large models.
	RunTimeout Duration `yaml:"run-timeout" name:"run-timeout" default:"30s" group:"Execution:" help:"Longest run of a model; 0: by its cost only."`
	// RequireDigests refuses versions that have no SHA256SUMS file (weft seal writes it). By default Weft verifies a
	// version's files only where that file exists.
	RequireDigests bool `yaml:"require-digests" name:"require-digests" group:"Models:" help:"Refuse versions without SHA256SUMS."`
	// GPUTelemetry is whether the server reads the state of GPUs, so that cost estimates include clocks, other
	// processes and memory. `auto`: where the driver reports it.
	GPUTelemetry GPUTelemetry `yaml:"gpu-telemetry" name:"gpu-telemetry" default:"auto" enum:"auto,off" group:"Execution:" help:"Read the state of GPUs: auto or off."`
	// DrainTimeout is how long a stopping server waits for accepted requests to finish; 0 ends them at once. Too high
	// delays a restart when something hangs.
	DrainTimeout Duration `yaml:"drain-timeout" name:"drain-timeout" default:"30s" group:"Limits:" help:"Time for accepted requests at a stop."`
	// LameDuck is how long a stopping server answers as before while its health checks already say that it does not
	// serve. It is part of DrainTimeout. With auto it is 5 s, at most half of DrainTimeout, and 0 when the log goes to a
	// terminal. Too low fails requests of callers and balancers that have not noticed the stop.
	LameDuck Period `yaml:"lame-duck" name:"lame-duck" default:"auto" group:"Limits:" help:"Time of answers at a stop after health says no."`
	// LoadBudget (1ms to 10s) is the waiting device time that load reports count as a fully busy device. With auto it is
	// the duration of the largest full batch that runs, between 20 and 200 ms. Too low makes balancers avoid servers with
	// short bursts. Too high makes them notice a queue late.
	LoadBudget Period `yaml:"load-budget" name:"load-budget" default:"auto" group:"Limits:" help:"Waiting device time that counts as full load."`
	// MaxQueuedBytes bounds the input bytes of all waiting requests together. Requests beyond it are refused. Too high
	// lets the system kill the process when memory runs out.
	MaxQueuedBytes Size `yaml:"max-queued-bytes" name:"max-queued-bytes" default:"1GiB" group:"Limits:" help:"Inputs of all waiting requests."`
	// MaxMessageBytes (at least 1KiB) bounds one message in either direction. Each call of a client may take that much
	// memory.
	MaxMessageBytes Size `yaml:"max-message-bytes" name:"max-message-bytes" default:"16MiB" group:"Limits:" help:"Largest message, in either direction."`
	// MaxHeldBytes (at least 16MiB) bounds the memory held for all connections together: requests being received, answers
	// not yet read by callers, 56 KiB for each connection and 24 KiB for each open call. Connections that hold much of it
	// get no new calls; beyond it, and beyond half of the process's file descriptors, Weft closes the worst connection.
	MaxHeldBytes Size `yaml:"max-held-bytes" name:"max-held-bytes" default:"256MiB" group:"Limits:" help:"Memory held for all connections."`
	// StateMemory bounds the bytes of the states of all episodes, which models with state keep between requests. Beyond
	// it no new episode can begin, and no state can grow.
	StateMemory Size `yaml:"state-memory" name:"state-memory" default:"1GiB" group:"Limits:" help:"States of all episodes."`
	// MaxConnectionAge (at least 1m, or 0) is the age at which a gRPC connection is asked to close, give or take a tenth,
	// so that its caller reconnects with newer certificates or to another server. Open calls continue. 0 disables it,
	// which keeps callers whose certificates are no longer valid.
	MaxConnectionAge Duration `yaml:"max-connection-age" name:"max-connection-age" default:"24h" group:"Limits:" help:"Age at which connections close; 0: never."`
	// MaxConcurrentRequests bounds the predictions inside the server. With 0 only the queues bound them.
	MaxConcurrentRequests int `yaml:"max-concurrent-requests" name:"max-concurrent-requests" default:"0" group:"Limits:" help:"Requests inside the server; 0: no bound."`
	// TritonStatusCodes makes the Open Inference Protocol answer missed deadlines, and overload that may be retried, with
	// UNAVAILABLE, as Triton does.
	TritonStatusCodes bool `yaml:"triton-status-codes" name:"triton-status-codes" group:"Compatibility:" help:"Answer overload with UNAVAILABLE, as Triton does."`
	// SharedMemory lets callers of the Open Inference Protocol register regions of POSIX shared memory on this machine
	// for tensors. A caller who may register a region can make the server read and write files in /dev/shm as its own
	// user.
	SharedMemory bool `yaml:"shared-memory" name:"shared-memory" group:"Compatibility:" help:"Allow shared memory in Open Inference."`
	// WatchInterval (at least 100ms, or 0) is how often the server scans repositories, besides reacting to file system
	// notifications. With 0 it scans only at the start, on SIGHUP, for uploads and loads by hand, and when a model file
	// that the command line names changes. Too high delays changes on file systems without notifications.
	WatchInterval Duration `yaml:"watch-interval" name:"watch-interval" default:"5s" group:"Models:" help:"Time between scans; 0: only on SIGHUP."`
	// ModelConfigFile is a model config file of TensorFlow Serving. The server serves its models besides those of the
	// repositories, and follows its changes.
	ModelConfigFile string `yaml:"model-config-file,omitempty" name:"model-config-file" default:"" placeholder:"FILE" group:"Models:" help:"TensorFlow Serving model config."`
	// ModelStores are existing directories outside the repositories to which symbolic links of models and versions may
	// lead. A user who may write to a repository can have files of these directories served.
	ModelStores []string `yaml:"model-stores,omitempty,flow" name:"model-stores" placeholder:"DIR" group:"Models:" help:"Where symbolic links in repositories may lead."`
	// Roster lists the replicas that divide the models among them: a YAML file, or an environment variable that holds
	// comma-separated names. The server reads the file again at each scan. Empty means that each replica has every
	// model.
	Roster string `yaml:"roster,omitempty" name:"roster" default:"" placeholder:"FILE|ENV" group:"Models:" help:"Replicas, by a YAML file or a variable."`
	// Self is this server's name on the roster. The default is the host name, which in Kubernetes is the pod's name.
	Self string `yaml:"self,omitempty" name:"self" default:"" placeholder:"NAME" group:"Models:" help:"Name on the roster; default: host name."`
	// Copies (1 to 1000) is the number of replicas of the roster that have each model; copies in model.yaml overrides it.
	// Too low leaves a model without a server when one stops. Each copy takes the model's memory.
	Copies int `yaml:"copies" name:"copies" default:"2" group:"Models:" help:"Replicas of the roster that have each model."`
	// Cache is a directory for copies of repositories in buckets and registries. With auto it is weft in the user's
	// cache directory. Once it is filled, a server can start from it without a network.
	Cache string `yaml:"cache" name:"cache" default:"auto" placeholder:"DIR" group:"Models:" help:"Directory for copies of remote repositories."`
	// ModelMemory bounds the estimated memory of all loaded models; 0 disables the bound. A version beyond it is refused,
	// with the figures.
	ModelMemory Size `yaml:"model-memory" name:"model-memory" default:"0" group:"Limits:" help:"Memory of loaded models; 0: no bound."`
	// MaxUploadBytes bounds the total size of the files of one uploaded version; 0 refuses uploads. Too high lets callers
	// who may operate a model fill the disk.
	MaxUploadBytes Size `yaml:"max-upload-bytes" name:"max-upload-bytes" default:"2GiB" group:"Limits:" help:"Size of an uploaded version; 0: no uploads."`
	// MaxEpisodes (at least 1) is the number of running episodes whose version the server remembers. Beyond it the server
	// forgets ended episodes and then those without a request for longest; the next request of a forgotten episode is
	// assigned again by its id. Each takes about 300 bytes.
	MaxEpisodes int `yaml:"max-episodes" name:"max-episodes" default:"100000" group:"Models:" help:"Running episodes that keep their version."`
	// EpisodeTTL (at least 1s) is the time without a request after which the server forgets the version of an episode.
	EpisodeTTL Duration `yaml:"episode-ttl" name:"episode-ttl" default:"10m" group:"Models:" help:"An episode ends after this long without a request."`
	// Record is a directory for recordings of requests and answers.
	Record string `yaml:"record,omitempty" name:"record" default:"" placeholder:"DIR" group:"Recordings and logs:" help:"Record requests and answers in this folder."`
	// RecordSample (above 0, at most 1) is the fraction of episodes, and of requests without an episode, that is
	// recorded.
	RecordSample float64 `yaml:"record-sample" name:"record-sample" default:"1" group:"Recordings and logs:" help:"Part of the episodes that is recorded."`
	// RecordInputs (full, hash or none) is what recordings hold of the inputs. Only full recordings can be replayed.
	RecordInputs RecordInputs `yaml:"record-inputs" name:"record-inputs" default:"full" enum:"full,hash,none" group:"Recordings and logs:" help:"full, hash or none."`
	// RecordLimit (at least 64MiB, or 0) bounds the size of all recordings in the directory, including those of earlier
	// runs; 0 is no bound. The oldest are deleted first.
	RecordLimit Size `yaml:"record-limit" name:"record-limit" default:"10GiB" group:"Recordings and logs:" help:"Size of the folder; the oldest go; 0: no limit."`
	// StateDir is a directory for decisions made at run time: traffic, rollouts, labels, versions loaded or unloaded by
	// hand, and findings about batching. With auto it is .weft-state in the first repository, or beside
	// model-config-file if no repository is named, where that is writable. Otherwise, and with none, decisions end with
	// the server. Each server needs a directory of its own.
	StateDir string `yaml:"state-dir" name:"state-dir" default:"auto" placeholder:"DIR" group:"Models:" help:"Directory for decisions; auto, or none."`
	// ShadowLog is a file to which the server appends one JSON line for each comparison of a shadow, as long as the
	// disk keeps up.
	ShadowLog string `yaml:"shadow-log,omitempty" name:"shadow-log" default:"" placeholder:"FILE" group:"Models:" help:"Log each comparison of a shadow as JSON."`
	// ONNXRuntimeLib is the path of the ONNX Runtime shared library. Empty searches beside the program, in a clone, and
	// where weft setup puts it.
	ONNXRuntimeLib string `yaml:"onnxruntime-lib" name:"onnxruntime-lib" default:"" env:"WEFT_ONNXRUNTIME_LIB" placeholder:"PATH" group:"Execution:" help:"ONNX Runtime library"`
	// ORTOps are shared libraries with custom ONNX Runtime operators, which models of every repository may use. Their
	// code runs where models run.
	ORTOps []string `yaml:"ort-ops,omitempty,flow" name:"ort-ops" placeholder:"PATH" group:"Execution:" help:"Libraries with custom operators."`
	// SchedTrace is a file that records the events and decisions of the scheduler for weft sim --replay, as long as the
	// disk keeps up. It grows by a few hundred bytes for each request, and contains identities of callers, request
	// shapes and the values of inputs without a batch dimension.
	SchedTrace string `yaml:"sched-trace,omitempty" name:"sched-trace" default:"" placeholder:"FILE" group:"Recordings and logs:" help:"Record a trace for weft sim --replay."`
	// LogLevel (debug, info, warn or error) is the least severe level that is logged.
	LogLevel LogLevel `yaml:"log-level" name:"log-level" default:"info" enum:"debug,info,warn,error" group:"Recordings and logs:" help:"debug, info, warn or error."`
	// LogFormat (text or json) is the format of the log. `text`: for people. `json`: for machines.
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
