package weftclient

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
)

// ModelSpec names a model and, if wanted, one of its versions.
type ModelSpec = weftv1.ModelSpec

// Model names a model, and leaves the version to the model's traffic. Without any the newest version that is ready
// answers.
func Model(name string) *ModelSpec { return &ModelSpec{Name: name} }

// Version names one version of a model.
func Version(name string, version int64) *ModelSpec {
	return &ModelSpec{Name: name, VersionChoice: &weftv1.ModelSpec_Version{Version: version}}
}

// Label names the version of a model that has a label, such as "stable".
func Label(name, label string) *ModelSpec {
	return &ModelSpec{Name: name, VersionChoice: &weftv1.ModelSpec_Label{Label: label}}
}

// Priority decides which requests are given up first where not all can be served in time.
type Priority = weftv1.Priority

// The priorities, from the one that is given up first.
const (
	Sheddable     = weftv1.Priority_PRIORITY_SHEDDABLE // runs when nothing else waits
	SheddablePlus = weftv1.Priority_PRIORITY_SHEDDABLE_PLUS
	Critical      = weftv1.Priority_PRIORITY_CRITICAL // the default
	CriticalPlus  = weftv1.Priority_PRIORITY_CRITICAL_PLUS
)

// Request asks a model for outputs. Only Model and Inputs are required.
type Request struct {
	Model  *ModelSpec
	Inputs Tensors
	// Outputs names the outputs that are wanted; nil: all.
	Outputs []string
	// Episode names the game, the robot's run or the session that the request belongs to: all its requests go to one
	// version. BeginEpisode says that it is the first one, for a model whose state the server keeps, and EndOfEpisode
	// that it is the last one.
	Episode                    string
	BeginEpisode, EndOfEpisode bool
	// Step numbers the requests of the episode, ascending from 1, so that one may be sent again: the answer is the same
	// then, and nothing runs twice. 0: it has no number.
	Step uint64
	// ID is the caller's own name of the request, for logs. On a stream it is required, and differs from those of all
	// requests without an answer.
	ID       string
	Priority Priority
	// Target is how soon the answer is wanted. 0: the model's target. It orders requests, and refuses none.
	Target time.Duration
}

// message returns the request as the API has it. It asks for raw outputs, which Values reads. It shares the tensors.
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

// Answer is what a model gave, and how it came about.
type Answer struct {
	Outputs Tensors
	// Model and Version say what ran.
	Model   string
	Version int64
	// ID is that of the request.
	ID string
	// Slot is the entry of the model's traffic that led to the version; "" where the request chose it.
	Slot string
	// Table is a hash of the model's traffic that led to the version: servers that lead episodes alike have the same.
	Table string
	// Execution has the time in the queue and computing, the batch, and more.
	Execution *weftv1.ExecutionInfo
}

// answerOf returns an answer of the API. It shares the tensors.
func answerOf(m *weftv1.PredictResponse) *Answer {
	return &Answer{
		Outputs: m.GetOutputs(), Model: m.GetModel().GetName(), Version: m.GetModel().GetVersion(), ID: m.GetRequestId(),
		Slot: m.GetExecution().GetSlot(), Table: m.GetExecution().GetTable(), Execution: m.GetExecution(),
	}
}
