package execution

import (
	"slices"
	"sync"

	"github.com/weftserve/weft/runtime/catalog"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/sharedsched"
)

// Job is the payload of one task: a request's tensors on their way through the scheduler. The exported fields are set
// before the task is handed to it, and the tensors stay as they are until it has ended.
type Job struct {
	Unit   *Unit
	Inputs []tensor.Tensor
	Rows   int
	Wanted []int // outputs, by place in the signature; nil: all
	Plan   *Plan // of a job that is to run by itself; nil: the unit's
	Task   sharedsched.Task
	Memory tensor.Memory // of the answer; nil: the garbage collector's
	PerRow bool          // each of its rows stands for a request, whose outputs may take Unit.MaxAnswer

	mu     sync.Mutex     // several executions may answer one job at a time
	pieces []piece        // guarded by mu until the task has ended
	sent   int            // guarded by mu; bytes of the pieces' outputs that have rows
	phases catalog.Phases // guarded by mu until the task has ended
}

// piece is the answer to some rows of a job: the wanted outputs, in memory of their own.
type piece struct {
	first, rows int
	size        int // of the execution, with padding
	outputs     []tensor.Tensor
}

// answer adds the outputs for some of the job's rows. bytes is the size of the outputs that have rows, which counts
// towards Unit.MaxAnswer.
func (j *Job) answer(p piece, bytes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pieces = append(j.pieces, p)
	j.sent += bytes
}

// took adds the phases of an execution that ran some of the job's rows.
func (j *Job) took(p catalog.Phases) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.phases = j.phases.Plus(p)
}

// Phases returns those of the executions of its rows. The task must have ended.
func (j *Job) Phases() catalog.Phases { return j.phases }

// bytes returns how many bytes of outputs with rows were answered so far.
func (j *Job) bytes() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sent
}

// Forget drops the answers so far, so that the job can be handed to the scheduler once more. The task must have ended.
func (j *Job) Forget() { j.pieces, j.sent, j.phases = nil, 0, catalog.Phases{} }

// complete reports whether one execution has answered all rows: parts that come later need no run.
func (j *Job) complete() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.pieces, func(p piece) bool { return p.rows == j.Rows })
}

// SizeOf returns the size of the execution that answered a row. The task must have ended well.
func (j *Job) SizeOf(row int) (size int) {
	for _, p := range j.pieces {
		// An execution of all rows counts before pieces, as in Join.
		if p.rows == j.Rows {
			return p.size
		}
		if p.first <= row && row < p.first+p.rows {
			size = p.size
		}
	}
	return size
}

// Split reports whether the job was answered in several executions. The task must have ended well.
func (j *Job) Split() bool { return len(j.pieces) > 1 }

// Output returns the place in the signature of wanted output i.
func (j *Job) Output(i int) int {
	if j.Wanted == nil {
		return i
	}
	return j.Wanted[i]
}
