package clockwork

import (
	"encoding/binary"
	"math/rand/v2"
)

// Stream is a source of random bytes that numbers decide. It never fails.
type Stream struct{ *rand.ChaCha8 }

// NewStream returns the stream of some numbers, at most four.
func NewStream(numbers ...uint64) *Stream {
	s := &Stream{}
	s.Reseed(numbers...)
	return s
}

// Reseed makes it the stream of other numbers.
func (s *Stream) Reseed(numbers ...uint64) {
	var seed [32]byte
	for i, n := range numbers {
		binary.LittleEndian.PutUint64(seed[8*i:], n)
	}
	s.ChaCha8 = rand.NewChaCha8(seed)
}
