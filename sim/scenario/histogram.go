package scenario

import (
	"math/bits"
	"time"
)

// histogram counts durations in steps of 3 %, in constant memory.
type histogram struct {
	counts []int64
	total  int64
	most   time.Duration
}

const steps = 32 // of one doubling

func (h *histogram) add(d time.Duration) {
	i := place(d)
	if i >= len(h.counts) {
		h.counts = append(h.counts, make([]int64, i+1-len(h.counts))...)
	}
	h.counts[i]++
	h.total++
	h.most = max(h.most, d)
}

// place is the step of a duration: exact up to 32 us, then 32 steps a doubling.
func place(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us < steps {
		return int(us)
	}
	shift := bits.Len64(us) - 6 // us>>shift is from 32 to 63
	return (shift+1)*steps + int(us>>shift) - steps
}

// upper is the longest duration of a step.
func upper(i int) time.Duration {
	if i < steps {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/steps - 1
	return time.Duration((uint64(i%steps+steps+1)<<shift)-1) * time.Microsecond
}

// quantile is the duration that a share of all does not exceed, within 3 %.
func (h *histogram) quantile(share float64) time.Duration {
	need := int64(share*float64(h.total) + 0.999999)
	for i, n := range h.counts {
		if need -= n; need <= 0 && n > 0 {
			return min(upper(i), h.most)
		}
	}
	return 0
}
