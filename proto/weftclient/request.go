package weftclient

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// ModelSpec names a model and, optionally, one of its versions.
type ModelSpec = weftv1.ModelSpec

// Model names a model. The model's traffic chooses the version, or else the newest ready version answers.
func Model(name string) *ModelSpec { return &ModelSpec{Name: name} }

// Version names one version of a model.
func Version(name string, version int64) *ModelSpec {
	return &ModelSpec{Name: name, VersionChoice: &weftv1.ModelSpec_Version{Version: version}}
}

// Label names the version of a model that has a label, such as "stable".
func Label(name, label string) *ModelSpec {
	return &ModelSpec{Name: name, VersionChoice: &weftv1.ModelSpec_Label{Label: label}}
}

// Priority decides which requests are dropped first if not all can be served in time.
type Priority = weftv1.Priority

// The priorities, from the least to the most important.
const (
	Sheddable     = weftv1.Priority_PRIORITY_SHEDDABLE // background: runs in padding, or when no foreground request waits
	SheddablePlus = weftv1.Priority_PRIORITY_SHEDDABLE_PLUS
	Critical      = weftv1.Priority_PRIORITY_CRITICAL // the default
	CriticalPlus  = weftv1.Priority_PRIORITY_CRITICAL_PLUS
)

// Request asks a model for outputs. Only Model and Inputs are required.
type Request struct {
	Model  *ModelSpec
	Inputs Tensors
	// Outputs names the outputs to return; nil: all.
	Outputs []string
	// Episode is the name of the game, robot run or session of the request. All its requests go to one version.
	// BeginEpisode marks the first request, for a model whose state the server keeps, and EndOfEpisode the last one.
	Episode                    string
	BeginEpisode, EndOfEpisode bool
	// Step numbers the requests of the episode, ascending from 1; 0: no number. A request that is sent again with the same
	// step gets the same answer, and nothing runs twice.
	Step uint64
	// ID is the caller's name for the request, for logs. On a stream it is required, and must be unique among the
	// unanswered requests.
	ID       string
	Priority Priority
	// Target is the latency target; 0: the model's. It sets the order of requests and never causes a refusal.
	Target time.Duration
}

// message returns the request as a message of the API. It asks for raw outputs, which Values reads. It shares the
// tensors.
func (q *Request) message() *weftv1.PredictRequest {
	m := &weftv1.PredictRequest{
		Model: q.Model, Inputs: q.Inputs, Outputs: q.Outputs, EpisodeId: q.Episode, EndOfEpisode: q.EndOfEpisode,
		BeginEpisode: q.BeginEpisode, Step: q.Step,
		RequestId: q.ID, Priority: q.Priority, OutputEncoding: weftv1.OutputEncoding_OUTPUT_ENCODING_RAW,
	}
	if q.Target != 0 {
		m.TargetLatency = durationpb.New(q.Target)
	}
	return m
}

// Answer has a model's outputs, and how the server computed them.
type Answer struct {
	Outputs Tensors
	// Model and Version are the model and the version that ran.
	Model   string
	Version int64
	// ID is the ID of the request.
	ID string
	// Slot is the traffic slot that led to the version; "" if the request chose the version.
	Slot string
	// Table is a hash of the model's traffic that chose the version. Servers that route episodes alike have the same hash.
	Table string
	// Execution has the times in the queue and in computation, the batch, and more.
	Execution *weftv1.ExecutionInfo
}

// answerOf converts an answer of the API. It shares the tensors.
func answerOf(m *weftv1.PredictResponse) *Answer {
	return &Answer{
		Outputs: m.GetOutputs(), Model: m.GetModel().GetName(), Version: m.GetModel().GetVersion(), ID: m.GetRequestId(),
		Slot: m.GetExecution().GetSlot(), Table: m.GetExecution().GetTable(), Execution: m.GetExecution(),
	}
}
