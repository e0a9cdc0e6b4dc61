package protect

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/http2"
)

// TestScanner: however the bytes are cut, the scanner finds the frames that another implementation wrote.
func TestScanner(t *testing.T) {
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 0))
		var wire bytes.Buffer
		var want []head
		w := http2.NewFramer(&wire, nil)
		for range draw.IntN(50) {
			h := head{draw.IntN(1 << draw.IntN(16)), byte(draw.IntN(12)), byte(draw.IntN(256)), draw.Uint32() &^ (1 << 31)}
			err := w.WriteRawFrame(http2.FrameType(h.kind), http2.Flags(h.flags), h.stream, make([]byte, h.length))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, h)
		}
		var got []head
		var s scanner
		for wire.Len() > 0 {
			b := wire.Next(1 + draw.IntN(1<<draw.IntN(15)))
			for {
				h, rest, ok := s.next(b)
				if !ok {
					break
				}
				got, b = append(got, h), rest
			}
		}
		if len(got) != len(want) || !s.between() {
			t.Fatalf("seed %d: %d frames, want %d", seed, len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d: frame %d is %+v, want %+v", seed, i, got[i], want[i])
			}
		}
	}
}

// TestGoAway: another implementation reads what connections write.
func TestGoAway(t *testing.T) {
	f, err := http2.NewFramer(nil, bytes.NewReader(goAway(7, enhanceYourCalm, "why"))).ReadFrame()
	if g, is := f.(*http2.GoAwayFrame); err != nil || !is || g.LastStreamID != 7 ||
		g.ErrCode != http2.ErrCodeEnhanceYourCalm || string(g.DebugData()) != "why" {
		t.Errorf("%v, %v", f, err)
	}
}
