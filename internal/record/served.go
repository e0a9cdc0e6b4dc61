package record

import (
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/wire"
)

// entryOf returns the entry of a request that was served, for every protocol. A request of weft.v1 is recorded as it
// came and as it was answered; any other as the messages of weft.v1 that ask and answer the same, with raw tensors.
func entryOf(r *predict.Recorded) Entry {
	return Entry{
		At: r.At, LimitUs: r.Limit.Microseconds(), Code: r.Code, Message: r.Message,
		Model: r.Place.Model, Version: r.Place.Version, Slot: r.Place.Slot,
		Request: wire.RequestMessage(r), Response: wire.ResponseMessage(r),
	}
}
