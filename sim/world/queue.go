package world

import "time"

// event is something that will happen.
type event struct {
	at     time.Duration
	serial uint64 // of two at one moment the earlier planned one is first
	do     func()
}

// queue orders events by time. It is a binary heap of its own, without the boxing of
// container/heap: half of a run's events pass through it.
type queue struct {
	list   []event
	serial uint64
}

func (q *queue) push(at time.Duration, do func()) {
	q.serial++
	q.list = append(q.list, event{at, q.serial, do})
	for i := len(q.list) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.list[i].before(&q.list[up]) {
			return
		}
		q.list[i], q.list[up] = q.list[up], q.list[i]
		i = up
	}
}

func (q *queue) pop() event {
	top, last := q.list[0], len(q.list)-1
	q.list[0] = q.list[last]
	q.list[last] = event{}
	q.list = q.list[:last]
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < last && q.list[down].before(&q.list[least]) {
				least = down
			}
		}
		if least == i {
			return top
		}
		q.list[i], q.list[least] = q.list[least], q.list[i]
		i = least
	}
}

// next is when the first event is due; false if there is none.
func (q *queue) next() (time.Duration, bool) {
	if len(q.list) == 0 {
		return 0, false
	}
	return q.list[0].at, true
}

func (e *event) before(f *event) bool {
	return e.at < f.at || e.at == f.at && e.serial < f.serial
}
