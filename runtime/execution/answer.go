package execution

// most returns how many bytes the outputs of an execution may take: as many as an answer for each request, and for the
// rows that fill it up in proportion; 0: any number.
func (x *execution) most(parts []part, size int) int {
	answers, rows := 0, 0
	for i := range parts {
		p := &parts[i]
		rows += p.rows
		if p.job.PerRow {
			answers += p.rows
		} else {
			answers++
		}
	}
	most := x.unit.MaxAnswer * answers
	if size > rows {
		most = int(float64(most) * float64(size) / float64(rows))
	}
	return most
}

// shares reports whether outputs that are too large may be so because of other requests, or of padding. Those of some
// rows of a request by themselves are not.
func (x *execution) shares(parts []part) bool {
	return len(parts) > 1 || x.plan.Batched && parts[0].rows == parts[0].job.Rows
}
