package core

// wakes orders keys by when each must be looked at again: a heap without pointers, of which the
// garbage collector reads nothing. A key is in it at most once, and knows its place.
type wakes struct {
	at   []Instant
	keys []place // of the table
}

// noWake is the place of a key that is in no line to be looked at.
const noWake = -1

// wakeAt has a key looked at at a moment, and not before.
func (c *Core) wakeAt(k *Key, at Instant) {
	if k.wake == noWake {
		k.wake = int32(len(c.wakes.at))
		c.wakes.at, c.wakes.keys = append(c.wakes.at, at), append(c.wakes.keys, c.keys[k.index])
		c.upWake(k.wake)
		return
	}
	c.wakes.at[k.wake] = at
	c.fixWake(k.wake)
}

// wakeBy has a key looked at by then.
func (c *Core) wakeBy(k *Key, at Instant) {
	if k.wake == noWake || at < c.wakes.at[k.wake] {
		c.wakeAt(k, at)
	}
}

func (c *Core) dropWake(k *Key) {
	if k.wake == noWake {
		return
	}
	i, last := k.wake, int32(len(c.wakes.at)-1)
	k.wake = noWake
	if i != last {
		c.placeWake(i, c.wakes.at[last], c.wakes.keys[last])
	}
	c.wakes.at, c.wakes.keys = c.wakes.at[:last], c.wakes.keys[:last]
	if i != last {
		c.fixWake(i)
	}
}

// nextWake is the soonest moment, if any.
func (c *Core) nextWake() (Instant, bool) {
	if len(c.wakes.at) == 0 {
		return 0, false
	}
	return c.wakes.at[0], true
}

// due takes out one key whose moment has come.
func (c *Core) due(now Instant) (*Key, bool) {
	if len(c.wakes.at) == 0 || c.wakes.at[0] > now {
		return nil, false
	}
	k := c.Table.keys.at(c.wakes.keys[0])
	c.dropWake(k)
	return k, true
}

// wakeOf is the moment of a key, if it has one.
func (c *Core) wakeOf(k *Key) (Instant, bool) {
	if k.wake == noWake {
		return 0, false
	}
	return c.wakes.at[k.wake], true
}

// placeWake puts what is at a moment into a place of the heap.
func (c *Core) placeWake(i int32, at Instant, key place) {
	c.wakes.at[i], c.wakes.keys[i] = at, key
	c.Table.keys.at(key).wake = i
}

func (c *Core) fixWake(i int32) {
	if !c.downWake(i) {
		c.upWake(i)
	}
}

func (c *Core) upWake(i int32) {
	at, key := c.wakes.at[i], c.wakes.keys[i]
	for i > 0 {
		parent := (i - 1) / 2
		if c.wakes.at[parent] <= at {
			break
		}
		c.placeWake(i, c.wakes.at[parent], c.wakes.keys[parent])
		i = parent
	}
	c.placeWake(i, at, key)
}

// downWake reports that it moved.
func (c *Core) downWake(i int32) bool {
	from, n := i, int32(len(c.wakes.at))
	at, key := c.wakes.at[i], c.wakes.keys[i]
	for child := 2*i + 1; child < n; child = 2*i + 1 {
		if child+1 < n && c.wakes.at[child+1] < c.wakes.at[child] {
			child++
		}
		if c.wakes.at[child] >= at {
			break
		}
		c.placeWake(i, c.wakes.at[child], c.wakes.keys[child])
		i = child
	}
	c.placeWake(i, at, key)
	return i > from
}
