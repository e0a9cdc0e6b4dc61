package weftapi

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/shadow"
)

// addPrint adds what a shadow compared of an output to its message, no more than show says. Worst has values of single
// requests, so show has it only for callers that may operate the model.
func addPrint(out *weftv1.ShadowOutput, p *shadow.Print, show shadow.Detail) {
	if show.Fingerprints {
		out.Fingerprint, out.Errors = fingerprintMessage(p), spreadMessage(&p.Errors)
		if p.AuditedRows > 0 {
			out.Noise = spreadMessage(&p.Noise)
		}
	}
	if !show.Worst {
		return
	}
	for i := range p.Worst {
		r := &p.Worst[i]
		out.Worst = append(out.Worst, &weftv1.WorstRequest{
			At: timestamppb.New(r.At), RequestId: r.ID, Absolute: r.Absolute, Relative: r.Relative,
			Row: int64(r.Row), Element: int64(r.Element), First: int64(r.First), Primary: r.Primary, Shadow: r.Shadow,
		})
	}
}

// fingerprintMessage converts how the errors of an output are spread over its elements and over time.
func fingerprintMessage(p *shadow.Print) *weftv1.Fingerprint {
	out := &weftv1.Fingerprint{
		RowElements: int64(p.RowElements), Varying: p.Varying, SliceDuration: durationpb.New(shadow.SliceDuration),
		AuditedRows: p.AuditedRows,
	}
	for i := range p.Elements {
		e := &p.Elements[i]
		out.Elements = append(out.Elements, &weftv1.FingerprintElement{
			First: int64(e.First), Count: int64(e.Count), Name: e.Name, Floor: e.Floor,
			FloorSource: weftv1.FloorSource(e.Source),
		})
	}
	for i := range p.Slices {
		s := &p.Slices[i]
		out.Slices = append(out.Slices, &weftv1.FingerprintSlice{
			Start: timestamppb.New(s.Start), Rows: s.Rows, Errors: s.Errors,
		})
	}
	return out
}

// spreadMessage converts a histogram of relative errors: its bins are of equal width on a logarithmic scale.
func spreadMessage(s *shadow.Spread) *weftv1.ErrorDistribution {
	return &weftv1.ErrorDistribution{
		From: shadow.SpreadFrom, To: shadow.SpreadTo, Equal: s.Equal, Below: s.Below, Bins: s.Bins[:], Above: s.Above,
	}
}
