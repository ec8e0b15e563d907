package explore

import "github.com/quotalease/quotalease/ledger/quota"

// Worlds returns the worlds that are explored, the small ones first. Each isolates what the others
// would multiply: the number of states is about the product of what each budget adds.
func Worlds() []*World {
	hard := World{Agents: 2, Class: quota.Hard, Limit: 3, Overshoot: `"100%"`, CutTo: 1, TTL: 4, Grace: 2, Boundary: 2, Horizon: 4, Patience: 3}
	list := []World{
		hard.with("calm", "nothing goes wrong", func(w *World) {
			w.Boundary, w.Horizon, w.Budget = 3, 6, Budget{Takes: 4}
		}),
		hard.with("next window", "leases for the next window are asked for before it begins; a message is lost", func(w *World) {
			w.TTL, w.Boundary, w.Horizon, w.Budget = 6, 4, 8, Budget{Takes: 2, Losses: 1}
		}),
		hard.with("well ahead", "the next window is asked for two ticks before it begins, and messages are late", func(w *World) {
			w.TTL, w.Boundary, w.Horizon, w.Budget = 12, 5, 7, Budget{Takes: 2, Delays: 2}
		}),
		hard.with("notices", "agents are told what others need and when there is more", func(w *World) {
			w.Notices, w.Boundary, w.Horizon, w.Budget = true, 100, 5, Budget{Takes: 3}
		}),
		hard.with("lost notices", "the same, and a message or a notice is lost", func(w *World) {
			w.Notices, w.Boundary, w.Horizon, w.Budget = true, 100, 5, Budget{Takes: 3, Losses: 1}
		}),
		hard.with("drained", "agents are told that the last unit went; a message or a notice is lost", func(w *World) {
			w.Notices, w.Limit, w.TTL, w.Boundary, w.Horizon, w.Budget = true, 2, 3, 100, 6, Budget{Takes: 2, Losses: 1}
		}),
		hard.with("renewal", "the window is long: leases are replaced before they end, with messages late", func(w *World) {
			w.Boundary, w.Horizon, w.Budget = 100, 6, Budget{Takes: 2, Losses: 1, Delays: 1}
		}),
		hard.with("slow clock", "the clock of one agent stands still for a tick while it holds a lease", func(w *World) {
			w.Still, w.Boundary, w.Horizon, w.Slow, w.Budget = 1, 100, 6, []int{0, 3}, Budget{Takes: 2, Delays: 1}
		}),
		hard.with("setback", "the ledger's clock goes back by a tick, and the replica's is behind it", func(w *World) {
			w.Lagging, w.Budget = 1, Budget{Takes: 2, Losses: 1, Setbacks: 1}
		}),
		hard.with("crash", "an agent dies with what it holds", func(w *World) {
			w.Boundary, w.Budget = 100, Budget{Takes: 2, Crashes: 1}
		}),
		hard.with("repeat", "a message arrives again, at any later time", func(w *World) {
			w.Budget = Budget{Takes: 2, Repeats: 1}
		}),
		hard.with("unknown commit", "commits of unknown outcome, and messages lost", func(w *World) {
			w.Budget = Budget{Takes: 3, Losses: 1, Unknowns: 1}
		}),
		hard.with("stale replica", "the limit is cut, and a replica has yet to hear of it", func(w *World) {
			w.Budget = Budget{Takes: 3, Lates: 1, Cuts: 1}
		}),
		hard.with("exact", "every unit is spent by itself; messages lost and late, a crash", func(w *World) {
			w.Class, w.Budget = quota.Exact, Budget{Takes: 2, Losses: 1, Lates: 1, Crashes: 1}
		}),
		hard.with("bounded", "held units may be given back within a budget", func(w *World) {
			w.Class, w.Overshoot, w.TTL, w.Grace, w.Boundary, w.Horizon = quota.Bounded, `"67%"`, 3, 1, 100, 6
			w.Budget = Budget{Takes: 3, Crashes: 1}
		}),
		hard.with("three agents", "an agent crashes, another one's message arrives twice", func(w *World) {
			w.Agents, w.Budget = 3, Budget{Takes: 2, Repeats: 1, Crashes: 1}
		}),
		hard.with("late after a crash", "requests arrive when their senders have given them up, or are gone", func(w *World) {
			w.Budget = Budget{Takes: 2, Repeats: 1, Lates: 1, Crashes: 1}
		}),
		hard.with("all at once", "a crash, a lost message, a repeated one and a limit cut, around a window's end", func(w *World) {
			w.Budget = Budget{Takes: 2, Losses: 1, Repeats: 1, Crashes: 1, Cuts: 1}
		}),
	}
	worlds := make([]*World, len(list))
	for i := range list {
		worlds[i] = &list[i]
	}
	return worlds
}

// with is a world like w, but for some changes.
func (w World) with(name, about string, change func(*World)) World {
	w.Name, w.About = name, about
	change(&w)
	return w
}
