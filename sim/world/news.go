package world

import (
	"slices"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
	"github.com/quotalease/quotalease/sim/oracle"
)

// news is what a process last heard of an account.
type news struct {
	window, generation int64
	grew               bool // that it grew, and nothing since
}

// hears takes in a generation that an answer or a notice told.
func (n *node) hears(key quota.Key, w *pb.Window, generation int64, grew bool) {
	was := n.news[key]
	switch {
	case w == nil:
	case !grew:
		n.news[key] = news{window: max(was.window, w.GetStartUs()), generation: max(was.generation, generation)}
	case n.core.LedgerTime(n.clock()).UnixMicro() < w.GetStartUs(): // it has not begun, as far as this one knows
	case w.GetStartUs() == was.window && generation > was.generation:
		n.news[key] = news{window: was.window, generation: generation, grew: true}
	}
}

func (n *node) hearsNotice(x *pb.Notice) {
	if x.GetKey() != nil && len(x.GetRevokedGrant()) == 0 && !x.GetWanted() {
		n.hears(keyOf(x.GetKey()), x.GetWindow(), x.GetGeneration(), !x.GetDrained())
	}
}

func (n *node) hearsSync(req *pb.SyncRequest, reply *pb.SyncReply) {
	for i, d := range reply.GetDecisions() {
		if i < len(req.GetAsks()) {
			n.hears(keyOf(req.GetAsks()[i].GetKey()), d.GetWindow(), d.GetGeneration(), false)
		}
	}
	for _, st := range reply.GetKeys() {
		n.hears(keyOf(st.GetKey()), st.GetWindow(), st.GetGeneration(), false)
	}
}

func (n *node) hearsSpend(req *pb.SpendRequest, reply *pb.SpendReply) {
	for i, d := range reply.GetDecisions() {
		n.hears(keyOf(req.GetItems()[i].GetKey()), d.GetWindow(), d.GetGeneration(), false)
	}
	for _, st := range reply.GetKeys() {
		n.hears(keyOf(st.GetKey()), st.GetWindow(), st.GetGeneration(), false)
	}
}

// remembered holds an answer that nobody was asked for to what was heard last.
func (n *node) remembered(key quota.Key, reason quota.Reason) {
	dim := n.dimension(key.Dimension)
	if dim == nil || dim.Kind != quota.Period || !n.news[key].grew {
		return
	}
	if reason == quota.LeasedOut || reason == quota.Exhausted {
		n.world.broken(oracle.Remembered, "%s denies %s as %s from memory, and heard since then that it grew", n.name, key, reason)
	}
}

// hook begins to listen for notices, and tries again until it can.
func (n *node) hook() {
	w := n.world
	if n.dead || n.listens != nil {
		return
	}
	r := w.replicas[n.first%len(w.replicas)]
	if n.awake() && r.cp != nil && w.now >= n.place.deaf && !w.severed(n.place, r, false) && !w.severed(n.place, r, true) {
		listener, err := r.cp.Listen(n.core.Incarnation().Bytes())
		if err == nil {
			n.listens, n.listener = r, listener
			return
		}
		w.broken(oracle.Works, "listen at %s: %v", r, err)
	}
	w.after(200*time.Millisecond, n.hook)
}

// unhook loses the stream of notices.
func (n *node) unhook() {
	if n.listens == nil {
		return
	}
	n.listener.Close()
	n.listens, n.listener = nil, nil
	n.world.after(100*time.Millisecond, n.hook)
}

// hear takes what the stream brings. What is lost on the way is lost for good.
func (n *node) hear() {
	for notices := n.listener.Notices(); len(notices) > 0; notices = n.listener.Notices() {
		i := slices.IndexFunc(n.place.armed, func(a Action) bool { return a.Kind == LoseNotices })
		if i >= 0 {
			n.place.armed = slices.Delete(n.place.armed, i, i+1)
			n.world.fire(LoseNotices)
			continue
		}
		n.deliver(n.place.latency(), func() {
			for _, notice := range notices {
				n.hearsNotice(notice)
				n.core.Notice(n.clock(), notice)
				if n.twin != nil {
					n.twin.core.Notice(n.clock(), notice)
				}
			}
		})
	}
}
