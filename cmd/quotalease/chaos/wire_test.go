//go:build linux

package chaos

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cut is where in a COMMIT a connection ends.
type cut int

const (
	noCut  cut = iota
	before     // all but COMMIT has reached the server
	torn       // half of it has
	after      // all of it has; its answer reaches nobody
)

func (c cut) String() string {
	return [...]string{"no cut", "before COMMIT", "in COMMIT", "after COMMIT"}[c]
}

// ambush waits for COMMITs to cut. Wires share one: it strikes at whichever comes next.
type ambush struct {
	mu    sync.Mutex
	armed []cut
	made  map[cut]int // cuts that took place
}

// arm has one more COMMIT cut.
func (a *ambush) arm(c cut) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed = append(a.armed, c)
}

// next is where to cut the COMMIT that comes now.
func (a *ambush) next() cut {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.armed) == 0 {
		return noCut
	}
	c := a.armed[0]
	a.armed = a.armed[1:]
	if a.made == nil {
		a.made = map[cut]int{}
	}
	a.made[c]++
	return c
}

// happened counts the cuts of a kind.
func (a *ambush) happened(c cut) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made[c]
}

// wire is a TCP proxy on an address that stays while what is behind it comes and goes.
type wire struct {
	listener net.Listener
	target   func() (network, address string) // no address: nobody is there
	ambush   *ambush                          // on what Postgres is told; nil: another protocol
	all      sync.WaitGroup

	mu      sync.Mutex
	open    chan struct{} // closed while bytes pass
	refuses bool
	links   map[*link]bool
}

func newWire(t testing.TB, target func() (string, string), a *ambush) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, target: target, ambush: a, open: make(chan struct{}), links: map[*link]bool{}}
	close(w.open)
	w.all.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return // closed
		}
		w.all.Go(func() { w.join(client) })
	}
}

// join connects a client with what is behind the wire.
func (w *wire) join(client net.Conn) {
	w.mu.Lock()
	refuses := w.refuses
	w.mu.Unlock()
	network, address := w.target()
	if refuses || address == "" {
		_ = client.Close()
		return
	}
	server, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{wire: w, client: client, server: server, gone: make(chan struct{})}
	w.mu.Lock()
	if w.links == nil {
		w.mu.Unlock()
		l.close()
		return
	}
	w.links[l] = true
	w.mu.Unlock()
	var pumps sync.WaitGroup
	pumps.Go(l.up)
	pumps.Go(l.down)
	pumps.Wait()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
}

// cutAll ends every connection.
func (w *wire) cutAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		l.close()
	}
}

// connections counts those that are open.
func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.links)
}

// hang keeps what is sent, in both directions, until pass.
func (w *wire) hang() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = make(chan struct{})
}

func (w *wire) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.open)
}

// refuse ends every connection and takes no new ones until accepted again.
func (w *wire) refuse(refuses bool) {
	w.mu.Lock()
	w.refuses = refuses
	w.mu.Unlock()
	if refuses {
		w.cutAll()
	}
}

func (w *wire) close() {
	_ = w.listener.Close()
	w.cutAll()
	w.mu.Lock()
	w.links = nil
	w.mu.Unlock()
	w.all.Wait()
}

// link is one connection through the wire.
type link struct {
	wire           *wire
	client, server net.Conn
	front          frontend
	mute           atomic.Bool // answers are dropped
	once           sync.Once
	gone           chan struct{}
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// waits returns once bytes may pass; false if the connection has ended.
func (l *link) waits() bool {
	l.wire.mu.Lock()
	open := l.wire.open
	l.wire.mu.Unlock()
	select {
	case <-open:
		return true
	case <-l.gone:
		return false
	}
}

const chunk = 32 << 10

func (l *link) up() {
	out := bufio.NewWriterSize(l.server, chunk)
	buf := make([]byte, chunk)
	for {
		n, err := l.client.Read(buf)
		if err != nil || !l.waits() {
			break
		}
		if l.wire.ambush != nil {
			if !l.forward(out, buf[:n]) {
				return
			}
		} else {
			_, _ = out.Write(buf[:n])
		}
		if out.Flush() != nil {
			break
		}
	}
	l.close()
}

// forward hands messages on; false when it has cut the connection.
func (l *link) forward(out *bufio.Writer, b []byte) bool {
	present := noCut
	for _, m := range l.front.feed(b) {
		if m.commit && present == noCut {
			present = l.wire.ambush.next()
		}
		switch {
		case present == before:
			_ = out.Flush()
			l.close()
			return false
		case present == torn:
			_, _ = out.Write(m.bytes[:len(m.bytes)/2])
			_ = out.Flush()
			l.close()
			return false
		case present == after && m.sync:
			l.deafen(out, m.bytes)
			return false
		}
		_, _ = out.Write(m.bytes) // Flush tells
	}
	return true
}

// deafen hands on the last message and ends the client's side at once. The server's stays
// until it has seen the end of what was sent: it does what it was told.
func (l *link) deafen(out *bufio.Writer, last []byte) {
	l.mute.Store(true)
	_ = l.client.Close()
	_, _ = out.Write(last)
	_ = out.Flush()
	_ = l.server.SetReadDeadline(time.Now().Add(5 * time.Second))
	if half, ok := l.server.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func (l *link) down() {
	defer l.close()
	buf := make([]byte, chunk)
	for {
		n, err := l.server.Read(buf)
		if err != nil || !l.waits() {
			return
		}
		if l.mute.Load() {
			continue
		}
		if _, err := l.client.Write(buf[:n]); err != nil && !l.mute.Load() {
			return
		}
	}
}
