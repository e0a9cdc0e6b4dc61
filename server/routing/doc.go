// Package routing decides which version of a model answers a request, and which of the model's shadows are shown it.
//
// The decision is a function of an immutable table, of the request, and of two things that are remembered or asked: the
// version that a running episode began on, and whether a version is fit to take new work.
//
// # Where an episode goes
//
// An episode goes to the same version everywhere: this depends on the names of model, slot and episode and on the
// weights, on nothing of the process, the platform or the release. Two replicas agree without talking, a restart
// forgets nothing, and anybody can compute it:
//
//	mix(z)     z ^= z>>30; z *= 0xbf58476d1ce4e5b9; z ^= z>>27; z *= 0x94d049bb133111eb; z ^= z>>31   (mod 2^64)
//	join(a, b) mix(mix(a) xor b)
//	key        join(XXH64(model), XXH64(episode_id))                        XXH64 with seed 0, of the bytes of the name
//	draw(slot) join(key, XXH64(slot))
//	u(draw)    (floor(draw / 2^12) + 1/2) / 2^52
//	score      -ln(u) / (weight / the largest weight of a slot whose version is ready)
//
// The slot with the least score answers: weighted rendezvous hashing. The scores of a slot do not depend on the other
// slots, so a slot that gains weight only takes and one that loses weight only gives: where one slot's weight changes
// while the others keep theirs in proportion, as in each step of a canary, exactly the difference of the shares moves.
// Where several change at once a little more does (60/30/10 to 50/30/20 moves 12.7 % for 10 %), because a slot that
// loses gives to all others. No function of key and weights alone does with the least for every change of three slots:
// of the splits in halves ab, ac and bc each two would have to agree on half of the keys, but the three slots of a key
// agree in one pair at most.
//
// Where that slot's version is not ready, or not fit for new work, the slot with the next score answers. Slots of
// weight 0 have no score that compares with the others': they answer where no other is ready, by their draws alone.
//
// An id that is used again once its episode has ended goes where it went before: what one server remembered, to draw it
// anew by, another one would not know. A comparison counts each id once (server/rollout).
//
// Two things are not of the table, and stay with the server that knows them: a running episode keeps its version when
// the table changes, and another version stands in for one that its breaker takes from new work. Answers tell both.
//
// # The hash of a table
//
// Every answer names the table that led to its version, so that somebody who asked several servers knows whether they
// divide episodes alike. The hash has what decides a draw, and nothing else: of each slot with weight whose version is
// ready, or where there is none of each slot without weight whose version is ready, in the order of the slots' names,
//
//	h          join(join(join(h, XXH64(slot)), version), the bits of the float64 weight / the largest weight of these)
//
// from h = XXH64(model) on, as 16 hexadecimal digits. Revisions, authors, shadows, labels and versions without a part
// are not in it. A running episode keeps the hash of the table that it was drawn by. Where a version stands in for
// another, its number follows, as in 00c0ffee00c0ffee+2.
//
// A request without an episode goes by a number of its own. Its request_id need not be its own: many clients give all
// of their requests the same.
//
// Shadows are drawn from the same key by join(join(key, shadowDomain), version), independent of the split and of each
// other: one is shown the requests whose u is below its sample.
package routing
