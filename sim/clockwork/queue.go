package clockwork

import "time"

// Queue orders events of any kind by time. It is a heap of four branches without boxing: most
// of a simulation's events pass through one.
type Queue[E any] struct {
	list   []planned[E]
	serial uint64
}

type planned[E any] struct {
	at     time.Duration
	serial uint64 // of two at one moment the earlier planned one is first
	event  E
}

func (p *planned[E]) before(q *planned[E]) bool {
	return p.at < q.at || p.at == q.at && p.serial < q.serial
}

// branches is how many children a place has: wider is flatter, and a comparison is cheap.
const branches = 4

// Push plans an event.
func (q *Queue[E]) Push(at time.Duration, e E) {
	q.serial++
	q.list = append(q.list, planned[E]{at, q.serial, e})
	i := len(q.list) - 1
	moving := q.list[i]
	for i > 0 {
		up := (i - 1) / branches
		if !moving.before(&q.list[up]) {
			break
		}
		q.list[i] = q.list[up]
		i = up
	}
	q.list[i] = moving
}

// Next is when the first event is due; false if there is none.
func (q *Queue[E]) Next() (time.Duration, bool) {
	if len(q.list) == 0 {
		return 0, false
	}
	return q.list[0].at, true
}

// First is the event that Pop would return. There has to be one.
func (q *Queue[E]) First() E { return q.list[0].event }

// Pop takes out the first event. There has to be one.
func (q *Queue[E]) Pop() E {
	top, last := q.list[0].event, len(q.list)-1
	moving := q.list[last]
	q.list[last] = planned[E]{}
	q.list = q.list[:last]
	if last > 0 {
		q.sink(moving)
	}
	return top
}

// Move plans the first event anew at a later time.
func (q *Queue[E]) Move(at time.Duration) {
	q.serial++
	q.sink(planned[E]{at, q.serial, q.list[0].event})
}

// sink puts an event in the place of the first and lets it sink to its own.
func (q *Queue[E]) sink(moving planned[E]) {
	i, n := 0, len(q.list)
	for {
		first := branches*i + 1
		if first >= n {
			break
		}
		least := first
		for child := first + 1; child < min(first+branches, n); child++ {
			if q.list[child].before(&q.list[least]) {
				least = child
			}
		}
		if !q.list[least].before(&moving) {
			break
		}
		q.list[i] = q.list[least]
		i = least
	}
	q.list[i] = moving
}

// Len is how many events are planned.
func (q *Queue[E]) Len() int { return len(q.list) }
