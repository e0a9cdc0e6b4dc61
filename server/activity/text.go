package activity

import (
	"encoding/hex"
	"slices"
	"strings"
)

// The rings have no pointers, so that the garbage collector does not look through them: what they say in words lies in
// these two.

// words numbers texts that are few: names of models, identities, reasons. They are never forgotten. Number 0 is "".
type words struct {
	texts   []string
	numbers map[string]int32
}

// mostWords are numbered. There are never so many; further ones would all be "".
const mostWords = 1 << 16

// number returns the number of a text, a new one if it has none yet; 0 where there is no room.
func (w *words) number(text string) int32 {
	if text == "" {
		return 0
	}
	n, known := w.numbers[text]
	if known || len(w.texts) >= mostWords {
		return n
	}
	n = int32(len(w.texts))
	w.numbers[text], w.texts = n, append(w.texts, text)
	return n
}

// ids keeps the latest names that callers gave their requests, or texts of errors, up to keptIDBytes: they are short
// and differ, so that they lie one behind the other in a ring of bytes. Data is made with the first name.
type ids struct {
	data  []byte
	added uint64 // bytes, ever
}

const (
	// 64 bytes for each of 65,536 requests
	keptIDBytes = 4 << 20
	// maxIDBytes of a name are remembered: of longer ones the beginning.
	maxIDBytes = 64
)

// id says where a name is, counted in bytes that were ever added, and how long it is. Size 0: the request had no name.
type id struct {
	at   uint64
	size uint8
}

// clip returns the beginning of a name that is remembered. It may end within a character, which idOf replaces.
func clip(text string) string { return text[:min(len(text), maxIDBytes)] }

// short returns what is remembered of the text of an error.
func short(text string) string {
	const most = 200 // as id.size has it
	if len(text) > most {
		return text[:most-len("...")] + "..."
	}
	return text
}

// add keeps a name, or a text. One that would lie across the end of the memory goes to its beginning.
func (i *ids) add(text string) id {
	if text == "" {
		return id{}
	}
	if i.data == nil {
		i.data = make([]byte, keptIDBytes)
	}
	if left := keptIDBytes - i.added%keptIDBytes; left < uint64(len(text)) {
		i.added += left
	}
	at := i.added
	copy(i.data[at%keptIDBytes:], text)
	i.added += uint64(len(text))
	return id{at, uint8(len(text))}
}

// bytes returns a name, nothing where it was none or is no longer kept. They are valid until the next is added. A name
// is kept as long as no more than keptIDBytes were added since its first byte.
func (i *ids) bytes(at id) []byte {
	if at.size == 0 || at.at+keptIDBytes < i.added {
		return nil
	}
	begin := at.at % keptIDBytes
	return i.data[begin : begin+uint64(at.size)]
}

// text returns a name as UTF-8.
func (i *ids) text(at id) string { return strings.ToValidUTF8(string(i.bytes(at)), "\uFFFD") }

// lookup is what the entries of rings refer to by number or place: words, versions and names.
type lookup struct {
	words []string
	all   []*tracked
	ids   *ids
}

// lookupLocked returns that of this moment, valid while mu is held.
func (l *Log) lookupLocked() lookup { return lookup{l.words.texts, l.all, &l.ids} }

// keptLocked returns a copy that stays valid. It lets go of mu after each 64 KiB: names that are forgotten meanwhile
// are not in it.
func (l *Log) keptLocked() lookup {
	data := make([]byte, 0, len(l.ids.data))
	for part := range slices.Chunk(l.ids.data, keptIDBytes/64) {
		data = append(data, part...)
		l.breatheLocked(0)
	}
	return lookup{l.words.texts, slices.Clone(l.all), &ids{data, l.ids.added}} // words are only appended to
}

// version returns the version of an index; nil: none, or it was forgotten.
func (k *lookup) version(index int32) *tracked {
	if index < 0 {
		return nil
	}
	return k.all[index]
}

// idOf returns the name that a caller gave a request, as UTF-8.
func (k *lookup) idOf(at id) string { return k.ids.text(at) }

// told is a request with its texts and its version, for people.
type told struct {
	*request

	id, identity, model, reason, trace string
	of                                 *tracked // nil: it was not routed to a version, or that was forgotten
}

// tell looks up the texts of a request. Reasons, models and identities are words; the name may be forgotten already.
func (k *lookup) tell(r *request) told {
	t := told{
		request: r, id: k.idOf(r.id), identity: k.words[r.identity], model: k.words[r.model], reason: k.words[r.reason],
		of: k.version(r.of),
	}
	if r.trace != [16]byte{} {
		t.trace = hex.EncodeToString(r.trace[:])
	}
	return t
}
