package policy

import (
	"fmt"
	"slices"
	"strings"
)

func (l *Local) parts(path string) part {
	limit := formatRate(l.Rate)
	queue := LocalQueue{}
	if l.Algorithm == concurrency {
		limit, queue = formatUnits(l.Capacity), l.Queue
	}
	return part{path, []fact{
		factOf("algorithm", l.Algorithm), factOf("limit", limit), factOf("capacity", formatUnits(l.Capacity)),
		optional("count_denied", fmt.Sprint(l.CountDenied), "false"),
		optional("queue.count", formatUnits(queue.Count), "0"), optional("queue.bytes", orWord(queue.Bytes, none), none),
		optional("queue.age", lasting(queue.Age), none), factOf("key", listed(l.Key)),
		optional("ipv6_prefix", fmt.Sprint(l.IPv6Prefix), fmt.Sprint(defaultPrefix)), factOf("counts", l.counts()),
		factOf("start", l.start()), factOf("idle", short(l.Idle)), factOf("max_keys", formatUnits(l.MaxKeys)),
	}}
}

func (l *Local) counts() string {
	if l.CountCost {
		return "cost"
	}
	return "requests"
}

func (l *Local) start() string {
	if l.StartFull {
		return "full"
	}
	return "empty"
}

// listed joins names, or says that there are none.
func listed(names []string) string { return orNone(strings.Join(names, ", ")) }

// describe says for people what a local limit lets through.
func (l *Local) describe() string {
	s := l.Algorithm + " of " + formatRate(l.Rate)
	switch l.Algorithm {
	case tokenBucket:
		s += " with burst " + formatUnits(l.Capacity)
	case leakyBucket:
		s += " with a queue of " + formatUnits(l.Capacity)
	case concurrency:
		s = concurrency + " of " + formatUnits(l.Capacity)
		if l.Queue.Count > 0 {
			s += fmt.Sprintf(", and %d may wait for at most %s", l.Queue.Count, short(l.Queue.Age))
		}
	}
	s += ", counts " + l.counts()
	if len(l.Key) > 0 {
		s += " by " + strings.Join(l.Key, ", ")
	}
	return s
}

// explainLocal says which local limits each agent keeps beside a dimension.
func (s *Snapshot) explainLocal(names []string) []string {
	var lines []string
	for _, l := range s.doc.Locals {
		if slices.Contains(names, l.Name) {
			lines = append(lines, "local limit "+l.Name+" of each agent: "+l.describe())
		}
	}
	return lines
}
