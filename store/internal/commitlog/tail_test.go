package commitlog

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// pattern is what the log holds from pos on: a number every eight bytes.
func pattern(pos, n int64) []byte {
	b := make([]byte, n)
	for i := int64(0); i < n; i += 8 {
		binary.BigEndian.PutUint64(b[i:], uint64(pos+i))
	}
	return b
}

// Readers beside a writer get the right bytes or none.
func TestTailConcurrent(t *testing.T) {
	tl := newTail(1 << 30)
	var end, hits atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for seed := range uint64(2) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for {
				select {
				case <-done:
					return
				default:
				}
				n := 8 * (1 + rng.Int64N(4096))
				pos := end.Load() - n - 8*rng.Int64N(3<<20)
				if pos < 0 {
					continue
				}
				dst := make([]byte, n)
				if !tl.read(dst, pos) {
					continue
				}
				hits.Add(1)
				if !bytes.Equal(dst, pattern(pos, n)) {
					t.Errorf("wrong bytes at %d", pos)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 9))
	pos := int64(0)
	for pos < 80<<20 || hits.Load() < 100 {
		n := 8 * (1 + rng.Int64N(20000))
		tl.append(pos, pattern(pos, n))
		pos += n
		end.Store(pos)
		if rng.IntN(100) == 0 {
			pos += 8 * rng.Int64N(1000) // a blank: nobody reads there
			end.Store(pos)
			continue
		}
	}
	close(done)
	wg.Wait()
}

func TestTailGapAndDrop(t *testing.T) {
	tl := newTail(1 << 30)
	tl.append(0, pattern(0, 800))
	tl.append(1600, pattern(1600, 800))
	dst := make([]byte, 800)
	if tl.read(dst, 0) || tl.read(dst, 800) {
		t.Error("bytes before a gap were read")
	}
	if !tl.read(dst, 1600) || !bytes.Equal(dst, pattern(1600, 800)) {
		t.Error("bytes behind a gap are missing")
	}
	tl.append(2400, pattern(2400, chunkBytes*tailChunks))
	if !tl.read(dst, tl.end-800) {
		t.Error("the end of a large piece is missing")
	}
	// A piece of which only the end is kept leaves a hole behind what came before.
	at := tl.end
	tl.append(at, pattern(at, 800))
	tl.append(at+800, pattern(at+800, chunkBytes*(tailChunks/2+1)))
	if tl.read(dst, at+800) && !bytes.Equal(dst, pattern(at+800, 800)) {
		t.Error("bytes that were never copied were read")
	}
	tl.drop()
	if tl.read(dst, 1600) {
		t.Error("bytes after drop")
	}
}
