package protect

import "time"

// The numbers of all limits. A caller that does what gRPC's own clients do is far from each.
const (
	// A connection, and each running handler, counts as so many bytes: stacks, buffers and maps, as measured, rounded up.
	connectionCost, handlerCost = 56 << 10, 24 << 10

	// Frames that carry nothing: so many at once, so many a second for ever, and so many more for each call that is begun
	// and each frame of data that is sent, as the peer answers with window updates and pings.
	idleBurst, idleRate, idleCredit = 2000, 100, 4
	// settingsCost is how many such frames one of settings counts as: gRPC looks at every open call for it.
	settingsCost = 10
	// tiny is the size, in bytes, below which a frame of data that does not end its stream counts as one.
	tiny = 256
	// Of the headers of a call so many bytes are free. Each further piece counts as a frame, for one byte may stand for a
	// header of many.
	freeHeaders, headerPiece = 8 << 10, 256
	// headerCost is what each header takes besides its text.
	headerCost = 100
	// maxFrame is the largest frame that gRPC takes, in bytes.
	maxFrame = 16 << 10
	// maxContinuations is how many frames may continue the headers of one call.
	maxContinuations = 16

	// Resets of calls that were not answered: so many at once, so many a second for ever, one more for each answer.
	resetBurst, resetRate, resetCredit = 100, 5, 1
	// shortReset is as what part of one a reset counts while this process or a worker is short of time: then calls run out
	// of theirs whatever they do. Honest callers reset some thousands a second together; a flood is more.
	shortReset = 1e-3

	// Calls that were refused, be it for what they are or who makes them, and not for the server's load: so many at once,
	// so many a second for ever, one more for each call that was not. They cost nearly as much as answers do.
	refusalBurst, refusalRate, refusalCredit = 200, 50, 1
	// A peer that goes on has its frames read so late that it does not exceed that rate, but no later than this for
	// frames that came at once.
	latest = time.Second
	// So many bytes are read at once from a connection that goes on, and from one that was answered nothing yet: many
	// calls fit in the largest read, and are begun before what they do is noticed.
	slowRead, firstRead = 512, 2 << 10

	// patience is how long a request or an answer that is under way may stand still; tiny data do not count.
	// On a connection whose other calls go on it is patienceOfMany.
	patience, patienceOfMany = 30 * time.Second, 5 * time.Minute
	// lately is how long ago a call of a connection that makes progress was answered at most.
	lately = 3 * time.Second
	// alike is by how many bytes connections may differ that are taken to hold as much as each other.
	alike = 1 << 20
	// One connection of so many is new, and goes after its equals.
	newest = 8
	// lookEvery is how often connections are looked at for what stands still.
	lookEvery = time.Second

	// pendingHandshakes is how many handshakes may be under way before further connections are let in one by one, one each
	// handshakeStep for each processor: or else a crowd of them would keep them from calls.
	pendingHandshakes, handshakeStep = 8, time.Millisecond
	// While there are callers of small messages, what large ones have beyond largeMessage is read so many bytes at once,
	// and for all together so many a second for each processor. That is about half of what it could: as long as all have
	// something to do, Go looks but every 10 ms at what the network has brought for others.
	largeMessage        = 256 << 10
	bulkBurst, bulkRate = 1 << 20, 200 << 20
	// smallFor is for how long after a small message there are callers of them.
	smallFor = 100 * time.Millisecond
	// retireWithin is how long the open calls of a connection that was asked to go may take.
	retireWithin = 30 * time.Second
	// linger is for how long a closed connection takes what still comes, so that the caller gets to read why.
	linger, lingerBytes = time.Second, 1 << 20
	// overhead is the part by which bytes of requests and answers take more memory than they are: pieces are rounded up,
	// and what was freed waits for the collector.
	overhead = 4
	// relieved is the part of what may be held, and of the connections there may be, that is left once some were ended
	// because there was more.
	relieved = 0.99
	// From this part of Config.MaxHeld on, calls are refused on connections that hold a large part of it and whose calls
	// make no progress; on one that holds half of it they always are.
	crowded, large, half = 0.75, 1.0 / 128, 0.5
)
