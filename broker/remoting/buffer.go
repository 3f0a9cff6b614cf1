package remoting

import "sync"

// burstBytes is the buffer that one read of a connection fills. It holds what a
// client with 64 messages of 1 KiB under way sends at once.
const burstBytes = 128 << 10

// classes are the sizes of pooled buffers in bytes: leftovers, answers, bursts,
// and frames up to MaxFrame. A frame that comes in parts never holds more than four
// times what has come (beyond a burst).
var classes = [...]int{4 << 10, 32 << 10, burstBytes, 512 << 10, 2 << 20, 8 << 20, MaxFrame}

// buffer is a pooled piece of memory. It is passed by pointer so that putting it
// back allocates nothing.
type buffer struct {
	b     []byte // the whole of its class
	n     int    // bytes in use, for answers
	class int    // or unpooled
}

// unpooled is the class of memory that append made when a guess was too small.
const unpooled = -1

var pools [len(classes)]sync.Pool

// classFor is the smallest class that holds n bytes, n <= MaxFrame.
func classFor(n int) int {
	class := 0
	for classes[class] < n {
		class++
	}
	return class
}

// takeBuffer returns an empty buffer of at least n bytes, n <= MaxFrame.
func takeBuffer(n int) *buffer {
	class := classFor(n)
	if b, ok := pools[class].Get().(*buffer); ok {
		b.n = 0
		return b
	}
	return &buffer{b: make([]byte, classes[class]), class: class}
}

// adopt makes p, the buffer's beginning after an append, its content.
func (b *buffer) adopt(p []byte) {
	if cap(p) != cap(b.b) { // append has moved it
		b.b, b.class = p[:cap(p)], unpooled
	}
	b.n = len(p)
}

// release puts b back; nobody may use its bytes any more.
func (b *buffer) release() {
	if b.class != unpooled {
		pools[b.class].Put(b)
	}
}
