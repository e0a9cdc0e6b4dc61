package sim

// line is the waiting line of one model and key: a ring, so that taking from the front costs nothing.
type line struct {
	model int
	index int        // among all lines
	buf   []*Request // its length is a power of two, or zero
	first int
	n     int
	rows  int // of all requests in it
}

func (q *line) at(i int) *Request { return q.buf[(q.first+i)&(len(q.buf)-1)] }

func (q *line) head() *Request { return q.buf[q.first] }

// push puts r at the end.
func (q *line) push(r *Request) {
	if q.n == len(q.buf) {
		bigger := make([]*Request, max(16, 2*len(q.buf)))
		for i := range q.n {
			bigger[i] = q.at(i)
		}
		q.buf, q.first = bigger, 0
	}
	q.buf[(q.first+q.n)&(len(q.buf)-1)] = r
	q.n++
	q.rows += r.Rows
}

// insert puts r where its deadline belongs, behind its equals. That is nearly always the end.
func (q *line) insert(r *Request) {
	q.push(r)
	mask := len(q.buf) - 1
	for i := q.n - 1; i > 0 && q.at(i-1).Deadline > r.Deadline; i-- {
		at := (q.first + i) & mask
		q.buf[at], q.buf[(at-1)&mask] = q.buf[(at-1)&mask], r
	}
}

func (q *line) pop() *Request {
	r := q.buf[q.first]
	q.buf[q.first] = nil
	q.first = (q.first + 1) & (len(q.buf) - 1)
	q.n--
	q.rows -= r.Rows
	return r
}

// fill returns how many requests from the skip-th on a batch of at most limit rows takes, at least one, and their rows.
func (q *line) fill(skip, limit int) (count, rows int) {
	for i := skip; i < q.n; i++ {
		r := q.at(i).Rows
		if count > 0 && rows+r > limit {
			break
		}
		count, rows = count+1, rows+r
	}
	return count, rows
}
