package host

// Hurry has runs that hang stopped from now on, so that a server that stops can answer those who wait behind them.
func (h *Host) Hurry() {
	h.serving.Hurry()
	h.Review()
}

// Review finds out which versions are stalled, because their runs hang or their processes are being started again, and
// publishes the changes. The host does so by itself when a run begins or ceases to hang; this is for a caller that
// learns that a process died, or that the next one is there. Of several calls at once one does the work of all.
func (h *Host) Review() {
	if h.reviews.Add(1) > 1 {
		return // the other call begins again
	}
	for done := int32(1); ; {
		for _, v := range h.residents() {
			v.Review()
		}
		if h.reviews.CompareAndSwap(done, 0) {
			return
		}
		done = h.reviews.Load()
	}
}
