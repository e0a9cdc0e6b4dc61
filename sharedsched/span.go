package sharedsched

// Task names the task whose rows the span holds. A program that drives Core itself finds its own record of the task by it.
func (s *Span) Task() Handle { return s.task }
