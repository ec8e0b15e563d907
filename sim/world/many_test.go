package world

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestMany(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("SEEDS"))
	bad := map[string]int{}
	fired := map[Kind]int{}
	began := time.Now()
	events := 0
	for seed := uint64(1); seed <= uint64(n); seed++ {
		r := Run(seed, 10000, nil)
		events += r.Events
		for k := range r.Fired { fired[k]++ }
		if r.Fault != nil {
			if bad[string(r.Fault.Promise)]++; bad[string(r.Fault.Promise)] <= 4 {
				t.Errorf("seed %d after %d events %d actions: %v", seed, r.Events, len(r.Script.Actions), r.Fault)
			}
		}
	}
	t.Log(bad, events, time.Since(began)/time.Duration(max(events,1)))
	for _, k := range Trouble() { t.Log(k, fired[k]) }
}
