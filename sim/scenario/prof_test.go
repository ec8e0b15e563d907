package scenario

import "testing"

func TestProf(t *testing.T) {
	r := run1(t, "hour-1000", Param{"duration", "30s"}).Results[0]
	t.Log(r.RoundTrips, r.Requests)
}
