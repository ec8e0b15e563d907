package core

import "container/heap"

// wakeHeap orders keys by when each must be looked at again. A key is in it at most once.
type wakeHeap struct {
	items []*wake
	of    map[*Key]*wake
}

type wake struct {
	key   *Key
	at    Instant
	index int
}

func (h *wakeHeap) set(k *Key, at Instant) {
	if h.of == nil {
		h.of = map[*Key]*wake{}
	}
	if w, ok := h.of[k]; ok {
		w.at = at
		heap.Fix(h, w.index)
		return
	}
	w := &wake{key: k, at: at}
	h.of[k] = w
	heap.Push(h, w)
}

// sooner has a key looked at by then.
func (h *wakeHeap) sooner(k *Key, at Instant) {
	if w, ok := h.of[k]; !ok || at < w.at {
		h.set(k, at)
	}
}

func (h *wakeHeap) drop(k *Key) {
	if w, ok := h.of[k]; ok {
		heap.Remove(h, w.index)
		delete(h.of, k)
	}
}

// next is the soonest moment, if any.
func (h *wakeHeap) next() (Instant, bool) {
	if len(h.items) == 0 {
		return 0, false
	}
	return h.items[0].at, true
}

// due takes out one key whose moment has come.
func (h *wakeHeap) due(now Instant) (*Key, bool) {
	if len(h.items) == 0 || h.items[0].at > now {
		return nil, false
	}
	w := heap.Pop(h).(*wake)
	delete(h.of, w.key)
	return w.key, true
}

// Len, Less, Swap, Push and Pop are heap.Interface's.
func (h *wakeHeap) Len() int           { return len(h.items) }
func (h *wakeHeap) Less(i, j int) bool { return h.items[i].at < h.items[j].at }
func (h *wakeHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}
func (h *wakeHeap) Push(x any) {
	w := x.(*wake)
	w.index = len(h.items)
	h.items = append(h.items, w)
}
func (h *wakeHeap) Pop() any {
	w := h.items[len(h.items)-1]
	h.items[len(h.items)-1] = nil
	h.items = h.items[:len(h.items)-1]
	return w
}
