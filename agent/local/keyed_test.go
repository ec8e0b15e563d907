package local

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quotalease/quotalease/ledger/quota"
	pb "github.com/quotalease/quotalease/proto/quotalease/v1"
)

// wire is a limit as the control plane tells it.
func wire(name, algorithm string, units int64, per time.Duration, change ...func(*pb.LocalLimit)) *pb.LocalLimit {
	m := &pb.LocalLimit{Name: name, Algorithm: algorithm, Rate: &pb.Rate{Units: units, PerUs: per.Microseconds()}, Capacity: units,
		Ipv6Prefix: 64, StartFull: true, IdleUs: time.Minute.Microseconds(), MaxKeys: 1000}
	for _, c := range change {
		c(m)
	}
	return m
}

func by(attributes ...string) func(*pb.LocalLimit) {
	return func(m *pb.LocalLimit) { m.Key = attributes }
}

// d is what requests take from.
var d = quota.Key{Tenant: "acme", Dimension: "d"}

func setOf(t testing.TB, limits ...*pb.LocalLimit) *Set {
	t.Helper()
	s := NewSet()
	apply(t, s, 0, limits...)
	return s
}

// apply makes limits current, all of which the dimension d is under.
func apply(t testing.TB, s *Set, now time.Duration, limits ...*pb.LocalLimit) {
	t.Helper()
	c := &pb.Catalogue{PolicyVersion: 1, LocalLimits: limits, Dimensions: []*pb.Dimension{{Name: "d"}}}
	for _, l := range limits {
		c.Dimensions[0].Local = append(c.Dimensions[0].Local, l.GetName())
	}
	if err := s.Apply(now, c); err != nil {
		t.Fatal(err)
	}
}

// take takes from dimension d, and gives nothing back.
func take(t testing.TB, s *Set, now time.Duration, c Caller) Verdict {
	t.Helper()
	v, err := s.Take(now, &c, s.Plan().Dimension(nil, d, 1, 1), forever)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestR1_6KeysAreIndependent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key         string
		same, other Caller
		of          Caller
	}{
		"route":           {"route", Caller{Route: "/a", Actor: "x"}, Caller{Route: "/b"}, Caller{Route: "/a"}},
		"actor":           {"actor", Caller{Actor: "ann"}, Caller{Actor: "bob"}, Caller{Actor: "ann"}},
		"API key":         {"api_key", Caller{APIKey: "k1"}, Caller{APIKey: "k2"}, Caller{APIKey: "k1"}},
		"IPv4":            {"address", Caller{Address: "::ffff:192.0.2.1"}, Caller{Address: "192.0.2.2"}, Caller{Address: "192.0.2.1"}},
		"an IPv6 network": {"address", Caller{Address: "2001:db8:0:1:ffff::9"}, Caller{Address: "2001:db8:0:2::1"}, Caller{Address: "2001:db8:0:1::1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setOf(t, wire("l", "token_bucket", 1, time.Second, by(tc.key)))
			for i, step := range []struct {
				c    Caller
				want bool
			}{{tc.of, true}, {tc.same, false}, {tc.other, true}, {tc.of, false}} {
				if v := take(t, s, 0, step.c); (v.Denied == nil) != step.want {
					t.Errorf("take %d: %+v, want allowed %v", i, v, step.want)
				}
			}
		})
	}
}

// CASES M3: no two lists of values make one key.
func TestM3ValuesThatLookAlikeWhenJoinedAreTwoKeys(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("l", "token_bucket", 1, time.Second, by("route", "actor")))
	for _, c := range []Caller{{Route: "a_b", Actor: "c"}, {Route: "a", Actor: "b_c"}, {Route: "ab", Actor: "c"}, {Route: "a", Actor: "bc"}, {Route: "a\x01", Actor: "bc"}} {
		if v := take(t, s, 0, c); v.Denied != nil {
			t.Errorf("%q, %q shares a key", c.Route, c.Actor)
		}
	}
}

// CASES M4: who lacks what a limit counts by never shares a key with others who do.
func TestM4AMissingAttributeIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"route", "actor", "api_key", "address"} {
		s := setOf(t, wire("first", "fixed_window", 1, time.Second), wire("l", "token_bucket", 1, time.Second, by(a)))
		_, err := s.Take(0, &Caller{}, s.Plan().Dimension(nil, d, 1, 1), forever)
		var field *quota.FieldError
		if !errors.As(err, &field) || field.Field != "caller."+a || !strings.Contains(field.Allowed, "the local limit l ") {
			t.Errorf("without %s: %v", a, err)
		}
		if n := s.Plan().byName["l"].units.count.Load(); n != 0 {
			t.Errorf("without %s there are %d keys", a, n)
		}
		if v, _ := s.Take(0, &Caller{}, s.Plan().Dimension(nil, d, 1, 1)[:1], forever); v.Denied != nil {
			t.Errorf("what the first limit gave did not come back: %+v", v)
		}
	}
}

func TestBadCallersNameTheField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxCallerBytes+1)
	for field, c := range map[string]Caller{
		"caller.route": {Route: long}, "caller.actor": {Actor: "a\x00b"}, "caller.api_key": {APIKey: "\xff"},
		"caller.address": {Address: "192.0.2.1:80"}, "caller.bytes": {Bytes: -1},
	} {
		var got *quota.FieldError
		if err := c.Validate(); !errors.As(err, &got) || got.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, a := range []string{"fe80::1%eth0", "0.0.0.0", "::", "1.2.3", "acme.example"} {
		if c := (Caller{Address: a}); c.Validate() == nil {
			t.Errorf("%s is taken for an address", a)
		}
	}
	if err := (&Caller{Route: "/v1", Actor: "ann", APIKey: "k", Address: "2001:db8::1", Bytes: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestAddressesAndKeysAreNeitherKeptNorPrinted(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("l", "token_bucket", 1, time.Second, by("address", "api_key")))
	c := Caller{Address: "192.0.2.77", APIKey: "secret-key"}
	take(t, s, 0, c)
	shards := &s.Plan().byName["l"].units.shards
	var kept []string
	for i := range shards {
		for key := range shards[i].byKey {
			kept = append(kept, key)
		}
	}
	text := fmt.Sprintf("%v %+v %#v %s %v", c, c, c, kept, c.LogValue())
	if strings.Contains(text, "192.0.2.77") || strings.Contains(text, "secret") || strings.Contains(text, "\xc0\x00\x02\x4d") || len(kept) != 1 || len(kept[0]) != 2*hashed {
		t.Errorf("kept and printed: %q", text)
	}
	if other := setOf(t, wire("l", "token_bucket", 1, time.Second, by("address", "api_key"))); other != nil {
		take(t, other, 0, c)
		for i := range other.Plan().byName["l"].units.shards {
			if _, same := other.Plan().byName["l"].units.shards[i].byKey[kept[0]]; same {
				t.Error("two agents hash an address alike")
			}
		}
	}
}

// R1.13: idle keys go, the number of keys is bounded, and neither refills anybody.
func TestR1_13KeysAreBoundedAndDroppingOneRefillsNobody(t *testing.T) {
	t.Parallel()
	every(t, func(t *testing.T, a Algorithm) {
		few := func(m *pb.LocalLimit) { m.MaxKeys = 3; m.Key = []string{"actor"} }
		s := setOf(t, wire("l", string(a), 1, time.Hour, few, func(m *pb.LocalLimit) {
			if a == LeakyBucket {
				m.Rate.PerUs = (10 * time.Second).Microseconds()
			}
		}))
		per := s.Plan().byName["l"].limit().Rate.Per
		keys := func() int64 { return s.Plan().byName["l"].units.count.Load() }
		actor := func(i int) Caller { return Caller{Actor: fmt.Sprint("a", i)} }
		now := per // the beginning of a window
		for i := range 3 {
			if v := take(t, s, now, actor(i)); v.Denied != nil {
				t.Fatalf("actor %d: %+v", i, v)
			}
		}
		for i := 3; i < 200; i++ { // a newcomer is denied, and costs no one his key
			if v := take(t, s, now, actor(i)); v.Denied == nil || v.Outcome != TooManyKeys {
				t.Fatalf("actor %d in a full table: %+v", i, v)
			}
		}
		s.Sweep(now + per/2)
		for i := range 3 {
			if v := take(t, s, now+per/2, actor(i)); v.Denied == nil || v.Outcome == TooManyKeys {
				t.Errorf("actor %d was refilled by others, or by being idle: %+v", i, v)
			}
		}
		now += 4*per + 5*time.Minute
		s.Sweep(now)
		if keys() != 0 {
			t.Errorf("%d idle keys are kept", keys())
		}
		if v := take(t, s, now, actor(9)); v.Denied != nil {
			t.Errorf("once there is room: %+v", v)
		}
	})
}

// A key at rest makes way for a newcomer before its time.
func TestAKeyAtRestMakesWay(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("l", "token_bucket", 1, time.Second, by("actor"), func(m *pb.LocalLimit) { m.MaxKeys = 1; m.IdleUs = time.Hour.Microseconds() }))
	take(t, s, 0, Caller{Actor: "first"})
	allowed := 0
	for i := range 2000 { // of which some fall into the first one's shard
		if v := take(t, s, 2*time.Second, Caller{Actor: fmt.Sprint(i)}); v.Denied == nil {
			allowed++
		}
	}
	if n := s.Plan().byName["l"].units.count.Load(); allowed != 1 || n != 1 {
		t.Errorf("%d took the place, and there are %d keys", allowed, n)
	}
}

// R1.14 for every key of a table, and for those that come later.
func TestR1_14ANewLimitCarriesOverWhatEveryKeyUsed(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("l", "token_bucket", 10, time.Minute, by("actor")))
	ann := Caller{Actor: "ann"}
	for range 8 {
		take(t, s, 0, ann)
	}
	apply(t, s, 0, wire("l", "token_bucket", 9, time.Minute, by("actor")))
	if v := take(t, s, 0, ann); v.Denied != nil {
		t.Errorf("8 of 9 are used: %+v", v)
	}
	if v := take(t, s, 0, ann); v.Denied == nil {
		t.Error("9 of 9 are used")
	}
	// Counted otherwise, nothing can be carried over: the limit begins with everything used.
	apply(t, s, 0, wire("l", "sliding_log", 9, time.Minute, by("actor")))
	if v := take(t, s, 0, ann); v.Denied == nil || v.Answer.RetryIn != time.Minute {
		t.Errorf("another algorithm refilled it: %+v", v)
	}
	apply(t, s, 0)
	if n := len(s.Plan().Dimension(nil, d, 1, 1)); n != 0 {
		t.Errorf("%d limits are left of none", n)
	}
}

func TestSeveralLimitsAreTakenAllOrNone(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("a", "token_bucket", 5, time.Minute), wire("b", "sliding_log", 3, time.Minute), wire("c", "fixed_window", 1, time.Minute), wire("d", "sliding_counter", 5, time.Minute))
	take(t, s, 0, Caller{})
	for range 10 {
		if v := take(t, s, 0, Caller{}); v.Denied == nil || v.Denied.Name != "c" {
			t.Fatalf("want c to deny: %+v", v)
		}
	}
	for name, want := range map[string]quota.Units{"a": 4, "b": 2, "c": 0, "d": 4} {
		e := s.Plan().byName[name].units.lock(0, nil)
		left := e.state.take(0, 0, forever).Left
		e.shard.mu.Unlock()
		if left != want {
			t.Errorf("%s has %d left, want %d", name, left, want)
		}
	}
}

// A request is one request, whatever it takes; costs add up.
func TestWhatARequestCostsALimit(t *testing.T) {
	t.Parallel()
	s := NewSet()
	byCost := func(m *pb.LocalLimit) { m.CountCost = true }
	err := s.Apply(0, &pb.Catalogue{PolicyVersion: 1,
		LocalLimits: []*pb.LocalLimit{wire("requests", "token_bucket", 100, time.Second), wire("bytes", "token_bucket", 1000, time.Second, byCost)},
		Dimensions:  []*pb.Dimension{{Name: "x", Local: []string{"requests", "bytes"}}, {Name: "y", Local: []string{"requests", "bytes"}}, {Name: "z"}},
		Operations:  []*pb.Operation{{Name: "o", Local: []string{"requests"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Plan()
	charges := p.Operation(nil, "acme", "o", 3)
	charges = p.Dimension(charges, quota.Key{Tenant: "acme", Dimension: "x"}, 30, 3)
	charges = p.Dimension(charges, quota.Key{Tenant: "acme", Dimension: "y"}, 60, 3)
	charges = p.Dimension(charges, quota.Key{Tenant: "acme", Dimension: "z"}, 9, 3)
	got := map[string]int64{}
	for _, c := range charges {
		got[c.limiter.name] = c.cost
	}
	if len(charges) != 2 || got["requests"] != 3 || got["bytes"] != 90 {
		t.Errorf("three times o, which takes 30 and 60: %v", got)
	}
}

// A request for several tenants is counted with each of them where a limit counts by tenant, and
// once where it does not.
func TestARequestForSeveralTenants(t *testing.T) {
	t.Parallel()
	s := setOf(t, wire("all", "token_bucket", 2, time.Hour), wire("each", "token_bucket", 1, time.Hour, by("tenant")))
	ask := func(tenants ...string) string {
		var charges []Charge
		for _, tenant := range tenants {
			charges = s.Plan().Dimension(charges, quota.Key{Tenant: tenant, Dimension: "d"}, 1, 1)
		}
		v, err := s.Take(0, &Caller{}, charges, forever)
		if err != nil || v.Denied == nil {
			return fmt.Sprint("allowed ", err)
		}
		return v.Denied.Name
	}
	for i, step := range []struct {
		want    string
		tenants []string
	}{{"allowed <nil>", []string{"a", "b"}}, {"each", []string{"c", "a"}}, {"allowed <nil>", []string{"c"}}, {"all", []string{"d"}}} {
		if got := ask(step.tenants...); got != step.want {
			t.Errorf("request %d, of %v: %s, want %s", i, step.tenants, got, step.want)
		}
	}
}

func TestACatalogueThatIsNotUnderstoodIsRefusedWhole(t *testing.T) {
	t.Parallel()
	good := wire("l", "token_bucket", 1, time.Second)
	for name, c := range map[string]*pb.Catalogue{
		"a new algorithm": {LocalLimits: []*pb.LocalLimit{good, wire("m", "token_pail", 1, time.Second)}},
		"a new attribute": {LocalLimits: []*pb.LocalLimit{wire("m", "token_bucket", 1, time.Second, by("shoe_size"))}},
		"a name twice":    {LocalLimits: []*pb.LocalLimit{good, good}},
		"a name of none":  {Dimensions: []*pb.Dimension{{Name: "d", Local: []string{"l"}}}},
		"of an operation": {Operations: []*pb.Operation{{Name: "o", Local: []string{"l"}}}},
		"no time":         {LocalLimits: []*pb.LocalLimit{wire("m", "token_bucket", 1, 0)}},
		"a long queue":    {LocalLimits: []*pb.LocalLimit{wire("m", "leaky_bucket", 1, 21*time.Second)}},
		"a large log":     {LocalLimits: []*pb.LocalLimit{wire("m", "sliding_log", 10_001, time.Second)}},
		"a log of many":   {LocalLimits: []*pb.LocalLimit{wire("m", "sliding_log", 10_000, time.Second, func(m *pb.LocalLimit) { m.MaxKeys = 1001 })}},
	} {
		s := setOf(t, good)
		before := s.Plan()
		if err := s.Apply(0, c); err == nil || s.Plan() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many goroutines, many keys, a limit that changes and keys that are dropped: never more passes
// than the limit says.
func TestManyTakersOfManyKeys(t *testing.T) {
	t.Parallel()
	const keys, takers, each, units = 20, 8, 2000, 50
	s := setOf(t, wire("l", "token_bucket", units, time.Hour, by("actor")))
	var passed [keys]atomic.Int64
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			for j := range each {
				k := (i + j) % keys
				c := Caller{Actor: fmt.Sprint(k)}
				charges := s.Plan().Dimension(nil, d, 1, 1)
				if v, err := s.Take(0, &c, charges, forever); err != nil {
					t.Error(err)
				} else if v.Denied == nil && j%3 == 0 {
					s.GiveBack(0, charges)
				} else if v.Denied == nil {
					passed[k].Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			s.Sweep(time.Minute)
			apply(t, s, 0, wire("l", "token_bucket", units, time.Hour, by("actor")))
		}
	})
	wg.Wait()
	for k := range passed {
		if n := passed[k].Load(); n != units {
			t.Errorf("key %d: %d of %d passed", k, n, units)
		}
	}
}
