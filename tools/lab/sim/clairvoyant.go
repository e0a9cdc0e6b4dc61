package sim

// Clairvoyant returns how many of the requests a scheduler that knew all arrivals and the true costs could answer on
// time on one device. The number is that of a beam search over batches (see beam), so at most the optimum, and at least
// that of the best of a few simple rules with the same knowledge. The more states the
// search keeps, width, the better and slower it is; 0 means 64.
//
// Within a model and key it serves in order of arrival, which loses nothing as long as deadlines are in that order and
// each request has one row.
func Clairvoyant(models []Model, reqs []Request, width int) (onTime int) {
	if width <= 0 {
		width = 64
	}
	f := newForesight(models, reqs)
	if len(f.arrivals) == 0 {
		return 0
	}
	rule, best := f.bestRule()
	return max(int(best), newBeam(f, rule, width).run())
}
