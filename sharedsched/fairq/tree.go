package fairq

// tree holds demanding flows in the order in which they are due, and knows the least start tag of every subtree. That
// answers the questions of the pick in O(log n): which flow is due first, and which is furthest behind among flows that
// are due before some time. (The eligible-first tree of EEVDF, Stoica and Abdel-Wahab 1995, answers the same kind of
// question with the keys the other way round.)
//
// It is a treap (Seidel and Aragon 1996) whose priorities are a fixed function of the flow, so that equal histories
// give equal trees. Nodes live in a slice by flow: nothing is allocated once the highest flow was seen. They know their
// parents, so that a tag changes from the bottom up, and no further than it matters.
type tree struct {
	nodes []node // by flow
	root  int32  // none when empty
	size  int
}

type node struct {
	due                 int64
	tag, least          Tag // start tag: own, and the least of the subtree
	left, right, parent int32
	priority            uint32
	member              bool
}

const none int32 = -1

func (t *tree) has(id int32) bool { return int(id) < len(t.nodes) && t.nodes[id].member }

// set makes id a member, or moves it.
func (t *tree) set(id int32, due int64, tag Tag) {
	for int(id) >= len(t.nodes) {
		t.nodes = append(t.nodes, node{})
	}
	n := &t.nodes[id]
	if n.member {
		if n.due == due {
			t.retag(id, tag)
			return
		}
		t.remove(id)
	}
	*n = node{
		due: due, tag: tag, least: tag, left: none, right: none, parent: none, priority: scramble(uint32(id)),
		member: true,
	}
	t.insert(id)
}

// retag gives a member another tag.
func (t *tree) retag(id int32, tag Tag) {
	t.nodes[id].tag = tag
	t.update(id)
}

// insert puts a node, as a leaf, where its order wants it, and lifts it to where its priority wants it.
func (t *tree) insert(id int32) {
	t.size++
	if t.size == 1 {
		t.root = id
		return
	}
	n := &t.nodes[id]
	for at := t.root; ; {
		p := &t.nodes[at]
		p.least = min(p.least, n.tag)
		side := &p.right
		if n.due < p.due || (n.due == p.due && id < at) { // equal ones by flow
			side = &p.left
		}
		if *side == none {
			*side, n.parent = id, at
			break
		}
		at = *side
	}
	for n.parent != none && n.priority > t.nodes[n.parent].priority {
		t.lift(id)
	}
}

// remove takes a member out: it sinks below its children, and leaves as a leaf.
func (t *tree) remove(id int32) {
	if !t.has(id) {
		return
	}
	n := &t.nodes[id]
	for n.left != none || n.right != none {
		up := n.left
		if up == none || n.right != none && t.nodes[n.right].priority > t.nodes[up].priority {
			up = n.right
		}
		t.lift(up)
	}
	t.replace(n.parent, id, none)
	if n.parent != none {
		t.update(n.parent)
	}
	n.member = false
	t.size--
}

// lift rotates a node into the place of its parent.
func (t *tree) lift(id int32) {
	n := &t.nodes[id]
	down := n.parent
	p := &t.nodes[down]
	t.replace(p.parent, down, id)
	n.parent = p.parent
	var moved int32
	if p.left == id {
		moved, n.right = n.right, down
		p.left = moved
	} else {
		moved, n.left = n.left, down
		p.right = moved
	}
	if moved != none {
		t.nodes[moved].parent = down
	}
	p.parent = id
	n.least = p.least // of the same members
	p.least = t.leastOf(p)
}

// replace puts another child in the place of one, or another root.
func (t *tree) replace(parent, child, with int32) {
	switch {
	case parent == none:
		t.root = with
	case t.nodes[parent].left == child:
		t.nodes[parent].left = with
	default:
		t.nodes[parent].right = with
	}
}

func (t *tree) leastOf(n *node) Tag {
	least := n.tag
	if n.left != none {
		least = min(least, t.nodes[n.left].least)
	}
	if n.right != none {
		least = min(least, t.nodes[n.right].least)
	}
	return least
}

// update brings the least tags up to date from a node upwards, to where nothing changes any more.
func (t *tree) update(at int32) {
	for at != none {
		n := &t.nodes[at]
		least := t.leastOf(n)
		if least == n.least {
			return
		}
		n.least = least
		at = n.parent
	}
}

// least returns the least tag of all members. The tree must not be empty.
func (t *tree) least() Tag { return t.nodes[t.root].least }

// first returns the member that is due first. There must be one.
func (t *tree) first() int32 {
	at := t.root
	for t.nodes[at].left != none {
		at = t.nodes[at].left
	}
	return at
}

// behind returns the member with the least tag among members that are due before a time, none if there is none.
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

// shift takes an amount off all tags.
func (t *tree) shift(by Tag) {
	for i := range t.nodes {
		t.nodes[i].tag -= by
		t.nodes[i].least -= by
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
