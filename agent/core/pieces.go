package core

// Piece is one key of a take that spends several at once, without a lock.
type Piece struct {
	Key  *Key
	Cost int64

	Taken Taken
}

// TakePieces takes from every key, or from none. It returns the answer of the key that
// decided and its place: the denier, the first that missed, or, when all passed, the one with
// the least left. Low is set on the pieces that passed a watermark. False says that the core
// has to hear of it (see Core.Settled): callers may wait for what was put back.
func TakePieces(now Instant, pieces []Piece) (t Taken, at int, quiet bool) {
	for i := range pieces {
		p := &pieces[i]
		if p.Taken = p.Key.takeKept(now, p.Cost); p.Taken.Allowed {
			if p.Taken.Limit >= 0 && (pieces[at].Taken.Limit < 0 || p.Taken.Remaining < pieces[at].Taken.Remaining) {
				at = i
			}
			continue
		}
		return p.Taken, i, putPieces(pieces[:i])
	}
	return pieces[at].Taken, at, true
}

// putPieces puts back what was taken, and reports that nobody has to be told.
func putPieces(pieces []Piece) (quiet bool) {
	quiet = true
	for i := range pieces {
		p := &pieces[i]
		if p.Taken.lease.bucket.put(p.Cost) {
			p.Taken.lease = nil
		}
		quiet = quiet && p.Taken.lease == nil && !p.Taken.Low && !p.Key.signs.has(queued)
	}
	return quiet
}

// Settled tells the core of pieces that were taken and put back: a lease that was sealed
// meanwhile gets them as a refund, callers who came meanwhile are served.
func (c *Core) Settled(now Instant, pieces []Piece) {
	for i := range pieces {
		p := &pieces[i]
		if p.Taken.lease != nil {
			c.refundLate(now, p.Key, p.Taken.lease, p.Cost)
			p.Taken.lease = nil
		}
		c.tend(now, p.Key)
	}
}
