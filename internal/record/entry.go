package record

import (
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire"
)

// Entry is one request and its end. Times but At are in microseconds.
type Entry struct {
	// At is when the request arrived.
	At time.Time `json:"at"`
	// LimitUs is the time that the caller gave; 0: the caller set no limit.
	LimitUs int64 `json:"limit_us,omitempty"`

	// Code is the name of the gRPC code as its Go package prints it: "OK" if the request was answered, else "Internal"
	// and the like. Message is the error's text.
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`

	// Where it went. Version is 0 if none was chosen. Slot is empty if the request itself named a version or a label.
	Model   string `json:"model"`
	Version int64  `json:"version,omitempty"`
	Slot    string `json:"slot,omitempty"`
	Episode string `json:"episode,omitempty"`
	// State numbers the episode whose state the server kept, and Steps says how many of its steps were answered since it
	// began, with this one; 0: it is a retry. The steps stand in this order. Both are 0 for a request that left no state.
	State int64 `json:"state,omitempty"`
	Steps int64 `json:"steps,omitempty"`

	// How it was executed, as in weft.v1.ExecutionInfo; zero as far as it was not.
	QueueUs       int64  `json:"queue_us,omitempty"`
	ComputeUs     int64  `json:"compute_us,omitempty"`
	DeviceUs      int64  `json:"device_us,omitempty"`
	Device        string `json:"device,omitempty"`
	BatchRequests int32  `json:"batch_requests,omitempty"`
	BatchRows     int32  `json:"batch_rows,omitempty"`
	PaddedRows    int32  `json:"padded_rows,omitempty"`
	Executions    int32  `json:"executions,omitempty"`
	FlushReason   string `json:"flush_reason,omitempty"`

	// InputHash tells equal inputs from others where they are not recorded themselves: SHA-256, in hexadecimal, of a
	// PredictRequest that has nothing but the inputs, marshalled deterministically. The Writer sets it.
	InputHash string `json:"input_hash,omitempty"`
	// Missed counts the entries that could not be recorded since the recording began. The Writer sets it.
	Missed int64 `json:"missed,omitempty"`

	// Request is the request as it came; read back, it has inputs only if they were recorded in full.
	Request *weftv1.PredictRequest `json:"-"`
	// Response is the answer; nil if there was none.
	Response *weftv1.PredictResponse `json:"-"`
}

// complete fills fields that are zero from the messages. The writer's goroutine does it, not the caller of Record.
func (e *Entry) complete() {
	e.At = e.At.UTC()
	if e.Response != nil {
		e.completeFrom(e.Response)
	}
	if e.Model == "" {
		e.Model = e.Request.GetModel().GetName()
	}
	if e.Episode == "" {
		e.Episode = e.Request.GetEpisodeId()
	}
}

// completeFrom fills them from the answer. What the caller has set stays.
func (e *Entry) completeFrom(answer *weftv1.PredictResponse) {
	if e.Code == "" {
		e.Code = "OK"
	}
	if e.Version == 0 {
		e.Version = answer.GetModel().GetVersion()
	}
	x := answer.GetExecution()
	if e.Slot == "" {
		e.Slot = x.GetSlot()
	}
	// An entry that has its execution keeps all of it.
	if x == nil || e.Executions != 0 {
		return
	}
	e.QueueUs, e.ComputeUs, e.DeviceUs, e.Device = x.GetQueueUs(), x.GetComputeUs(), x.GetDeviceUs(), x.GetDevice()
	e.BatchRequests, e.BatchRows, e.PaddedRows = x.GetBatchRequests(), x.GetBatchRows(), x.GetPaddedRows()
	e.Executions, e.FlushReason = x.GetExecutions(), x.GetFlushReason().String()
}

// entryOf returns the entry of a request that was served, for every protocol. A request of weft.v1 is recorded as it
// came and as it was answered; any other as the messages of weft.v1 that ask and answer the same, with raw tensors.
func entryOf(r *predict.Recorded) Entry {
	return Entry{
		At: r.At, LimitUs: r.Limit.Microseconds(), Code: r.Code, Message: r.Message,
		Model: r.Place.Model, Version: r.Place.Version, Slot: r.Place.Slot,
		State: r.Episode, Steps: r.Steps,
		Request: wire.RequestMessage(r), Response: wire.ResponseMessage(r),
	}
}
