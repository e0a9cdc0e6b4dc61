package fairq

// tree holds demanding flows in the order in which they are due, and knows the least start tag of every subtree. That answers in
// O(log n) what the pick asks: which flow is due first among those not too far ahead, and which is furthest behind among those
// that are due before some time. (The eligible-first tree of EEVDF, Stoica and Abdel-Wahab 1995,
// answers the same kind of question with the keys the other way round.)
//
// It is a treap (Seidel and Aragon 1996) whose priorities are a fixed function of the flow, so that equal histories give equal
// trees. Nodes live in a slice by flow: nothing is allocated once the highest flow was seen.
type tree struct {
	nodes []node // by flow
	root  int32  // none when empty
	size  int
}

type node struct {
	left, right int32
	due         int64
	tag, least  Tag // start tag: own, and the least of the subtree
	priority    uint32
	member      bool
}

const none int32 = -1

func (t *tree) has(id int32) bool { return int(id) < len(t.nodes) && t.nodes[id].member }

// set makes id a member, or moves it.
func (t *tree) set(id int32, due int64, tag Tag) {
	for int(id) >= len(t.nodes) {
		t.nodes = append(t.nodes, node{})
	}
	if n := &t.nodes[id]; n.member {
		if n.due == due && n.tag == tag {
			return
		}
		t.remove(id)
	}
	if t.size == 0 {
		t.root = none
	}
	t.nodes[id] = node{left: none, right: none, due: due, tag: tag, least: tag, priority: scramble(uint32(id)), member: true}
	t.root = t.insert(t.root, id)
	t.size++
}

func (t *tree) remove(id int32) {
	if !t.has(id) {
		return
	}
	t.root = t.delete(t.root, id)
	t.nodes[id].member = false
	t.size--
}

// before orders members by when they are due, equal ones by flow.
func (t *tree) before(a, b int32) bool {
	x, y := &t.nodes[a], &t.nodes[b]
	return x.due < y.due || (x.due == y.due && a < b)
}

func (t *tree) insert(at, id int32) int32 {
	if at == none {
		return id
	}
	if t.nodes[id].priority > t.nodes[at].priority {
		t.nodes[id].left, t.nodes[id].right = t.split(at, id)
		t.update(id)
		return id
	}
	n := &t.nodes[at]
	if t.before(id, at) {
		n.left = t.insert(n.left, id)
	} else {
		n.right = t.insert(n.right, id)
	}
	t.update(at)
	return at
}

// split divides a subtree into the members before id and those after it.
func (t *tree) split(at, id int32) (before, after int32) {
	if at == none {
		return none, none
	}
	n := &t.nodes[at]
	if t.before(at, id) {
		n.right, after = t.split(n.right, id)
		before = at
	} else {
		before, n.left = t.split(n.left, id)
		after = at
	}
	t.update(at)
	return before, after
}

func (t *tree) delete(at, id int32) int32 {
	n := &t.nodes[at]
	switch {
	case at == id:
		return t.join(n.left, n.right)
	case t.before(id, at):
		n.left = t.delete(n.left, id)
	default:
		n.right = t.delete(n.right, id)
	}
	t.update(at)
	return at
}

// join puts two subtrees together, all of a being before all of b.
func (t *tree) join(a, b int32) int32 {
	if a == none {
		return b
	}
	if b == none {
		return a
	}
	if t.nodes[a].priority > t.nodes[b].priority {
		t.nodes[a].right = t.join(t.nodes[a].right, b)
		t.update(a)
		return a
	}
	t.nodes[b].left = t.join(a, t.nodes[b].left)
	t.update(b)
	return b
}

func (t *tree) update(at int32) {
	n := &t.nodes[at]
	n.least = n.tag
	if n.left != none {
		n.least = min(n.least, t.nodes[n.left].least)
	}
	if n.right != none {
		n.least = min(n.least, t.nodes[n.right].least)
	}
}

// least returns the least tag of all members. The tree must not be empty.
func (t *tree) least() Tag { return t.nodes[t.root].least }

// first returns the member that is due first among those whose tag is at most limit. There must be one.
func (t *tree) first(limit Tag) int32 {
	for at := t.root; ; {
		n := &t.nodes[at]
		switch {
		case n.left != none && t.nodes[n.left].least <= limit:
			at = n.left
		case n.tag <= limit:
			return at
		default:
			at = n.right
		}
	}
}

// behind returns the member with the least tag among those that are due before a time, none if there is none.
func (t *tree) behind(before int64) int32 {
	if t.size == 0 {
		return none
	}
	best, subtree := none, false // a node, or a subtree in which the tag is to be found
	least := Tag(0)
	for at := t.root; at != none; {
		n := &t.nodes[at]
		if n.due >= before {
			at = n.left
			continue
		}
		if n.left != none && (best == none || t.nodes[n.left].least < least) {
			best, subtree, least = n.left, true, t.nodes[n.left].least
		}
		if best == none || n.tag < least {
			best, subtree, least = at, false, n.tag
		}
		at = n.right
	}
	if !subtree {
		return best
	}
	for at := best; ; {
		n := &t.nodes[at]
		switch {
		case n.left != none && t.nodes[n.left].least == least:
			at = n.left
		case n.tag == least:
			return at
		default:
			at = n.right
		}
	}
}

// scramble spreads flows over priorities (the finalizer of MurmurHash3).
func scramble(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	return x ^ x>>16
}
