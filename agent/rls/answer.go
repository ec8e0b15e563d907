package rls

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/answer"
	"github.com/quotalease/quotalease/agent/core"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/ledger/quota"
)

// The codes and units of the protocol.
const (
	codeOK   = rlspb.RateLimitResponse_OK
	codeOver = rlspb.RateLimitResponse_OVER_LIMIT
)

var units = map[quota.Every]rlspb.RateLimitResponse_RateLimit_Unit{
	quota.EverySecond: rlspb.RateLimitResponse_RateLimit_SECOND, quota.EveryMinute: rlspb.RateLimitResponse_RateLimit_MINUTE,
	quota.EveryHour: rlspb.RateLimitResponse_RateLimit_HOUR, quota.EveryDay: rlspb.RateLimitResponse_RateLimit_DAY,
	quota.EveryWeek: rlspb.RateLimitResponse_RateLimit_WEEK, quota.EveryMonth: rlspb.RateLimitResponse_RateLimit_MONTH,
	quota.EveryYear: rlspb.RateLimitResponse_RateLimit_YEAR,
}

// respond writes what was decided.
func respond(rules *core.Descriptors, items []item, v verdict) *rlspb.RateLimitResponse {
	r := &rlspb.RateLimitResponse{OverallCode: codeOK, Statuses: make([]*rlspb.RateLimitResponse_DescriptorStatus, len(items))}
	for i := range items {
		r.Statuses[i] = items[i].status(rules)
	}
	if v.over {
		r.OverallCode = codeOver
		r.RawBody = bodyOf(v)
	}
	r.ResponseHeadersToAdd = headersOf(v)
	r.DynamicMetadata = metadataOf(items, v)
	return r
}

// unavailable is the answer while no policy is known.
func unavailable(n int) *rlspb.RateLimitResponse {
	v := verdict{over: true, reason: quota.Unavailable, decision: agent.Decision{Reason: quota.Unavailable, RetryIn: time.Second}}
	r := respond(nil, make([]item, n), v)
	for _, s := range r.GetStatuses() {
		s.Code = codeOver
	}
	return r
}

// status is what one descriptor is told.
func (it *item) status(rules *core.Descriptors) *rlspb.RateLimitResponse_DescriptorStatus {
	s := &rlspb.RateLimitResponse_DescriptorStatus{Code: codeOK}
	switch {
	case it.rule == nil:
		return s
	case it.rule.Unlimited():
		s.LimitRemaining = math.MaxUint32
		return s
	}
	denied := it.over && it.enforced()
	if denied {
		s.Code = codeOver
	}
	d := it.decision
	if wait := door.More(d); (it.known || denied) && wait > 0 {
		s.DurationUntilReset = durationpb.New(time.Duration(wait) * time.Second)
	}
	switch {
	case !it.known || d.PolicyVersion == 0:
		return s
	case d.Limit.Unlimited:
		s.LimitRemaining = math.MaxUint32
		return s
	case !it.over: // who was denied has none, so that it is the one that a proxy shows
		s.LimitRemaining = short(int64(d.Remaining))
	}
	s.CurrentLimit = it.limit(rules)
	return s
}

// limit describes the limit in the protocol's terms. A burst belongs to no unit of time.
func (it *item) limit(rules *core.Descriptors) *rlspb.RateLimitResponse_RateLimit {
	l := &rlspb.RateLimitResponse_RateLimit{Name: it.rule.Name, RequestsPerUnit: short(int64(it.decision.Limit.Units))}
	decided := it.decision.Dimension // a local limit that the dimension is under, perhaps
	if l.Name == "" {
		l.Name = quota.BaseDimension(decided)
	}
	if o := it.brought; o != nil && decided == it.take.Key.Dimension {
		l.Unit = units[o.Every]
		if o.Times > 1 {
			l.UnitMultiplier = wrapperspb.UInt32(uint32(o.Times))
		}
		return l
	}
	if dim, ok := rules.Dimension(decided); ok {
		l.Unit = units[dim.Calendar.Every()]
	} else {
		l.Unit, l.UnitMultiplier = unitOf(it.decision.Window)
	}
	return l
}

// unitOf writes the window of a local limit. Nothing is said of one that has none, or that is of no
// whole seconds.
func unitOf(window time.Duration) (rlspb.RateLimitResponse_RateLimit_Unit, *wrapperspb.UInt32Value) {
	for _, u := range []struct {
		every quota.Every
		lasts time.Duration
	}{{quota.EveryDay, 24 * time.Hour}, {quota.EveryHour, time.Hour}, {quota.EveryMinute, time.Minute}, {quota.EverySecond, time.Second}} {
		switch n := window / u.lasts; {
		case window <= 0 || window%u.lasts != 0:
		case n == 1:
			return units[u.every], nil
		default:
			return units[u.every], wrapperspb.UInt32(uint32(min(n, math.MaxUint32)))
		}
	}
	return rlspb.RateLimitResponse_RateLimit_UNKNOWN, nil
}

// short is an amount as the protocol can say it.
func short(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// headersOf are the headers that every door sends.
func headersOf(v verdict) []*corepb.HeaderValue {
	var pairs [5][2]string
	all := pairs[:0]
	if policy, left, ok := door.RateLimit(v.decision); ok {
		all = append(all, [2]string{"ratelimit-policy", policy}, [2]string{"ratelimit", left})
	}
	if v.reason != quota.Allowed {
		all = append(all, [2]string{"x-quota-reason", string(v.reason)})
	}
	if v.over {
		if s := v.decision.RetryAfter(); s > 0 {
			all = append(all, [2]string{"retry-after", strconv.FormatInt(s, 10)})
		}
		all = append(all, [2]string{"content-type", "application/problem+json"})
	}
	values, headers := make([]corepb.HeaderValue, len(all)), make([]*corepb.HeaderValue, len(all))
	for i, pair := range all {
		values[i].Key, values[i].Value = pair[0], pair[1]
		headers[i] = &values[i]
	}
	return headers
}

// metadataOf tells a proxy's filters what was decided, and by which limit; of a plain allowance
// there is nothing to tell. It names no tenant.
func metadataOf(items []item, v verdict) *structpb.Struct {
	shadow := wouldDeny(items)
	if v.reason == quota.Allowed && len(shadow) == 0 {
		return nil
	}
	fields := map[string]*structpb.Value{"reason": structpb.NewStringValue(string(v.reason))}
	named(fields, v.decision.Dimension, v.rule)
	if v.decision.PolicyVersion > 0 {
		fields["policy_version"] = structpb.NewNumberValue(float64(v.decision.PolicyVersion))
	}
	if len(shadow) > 0 {
		fields["would_deny"] = structpb.NewListValue(&structpb.ListValue{Values: shadow})
	}
	return &structpb.Struct{Fields: fields}
}

// named says which limit is meant.
func named(fields map[string]*structpb.Value, dimension, rule string) {
	if dimension != "" {
		fields["dimension"] = structpb.NewStringValue(dimension)
	}
	if rule != "" {
		fields["rule"] = structpb.NewStringValue(rule)
	}
}

// wouldDeny lists the limits in shadow that would have denied.
func wouldDeny(items []item) (shadow []*structpb.Value) {
	for i := range items {
		it := &items[i]
		if !it.counted() || !it.rule.Shadow || !it.over {
			continue
		}
		reason := it.decision.Reason
		if it.refused != "" {
			reason = it.refused
		}
		would := map[string]*structpb.Value{"reason": structpb.NewStringValue(string(reason))}
		named(would, it.take.Key.Dimension, it.rule.Name)
		shadow = append(shadow, structpb.NewStructValue(&structpb.Struct{Fields: would}))
	}
	return shadow
}

// problem is the body of a denial (RFC 9457). Proxies answer it with 429 unless they are told
// otherwise, an outage too.
type problem struct {
	Type          string       `json:"type"`
	Title         string       `json:"title"`
	Status        int          `json:"status"`
	Detail        string       `json:"detail"`
	Violated      []string     `json:"violated-policies,omitempty"`
	Allowed       bool         `json:"allowed"`
	Reason        quota.Reason `json:"reason"`
	Dimension     string       `json:"dimension"`
	Limit         *int64       `json:"limit,omitempty"`
	Remaining     *int64       `json:"remaining,omitempty"`
	RetryAfterMs  int64        `json:"retry_after_ms"`
	PolicyVersion int64        `json:"policy_version"`
	ResetMs       int64        `json:"reset_ms"`
	Largest       int64        `json:"largest,omitempty"` // with too_large
}

func bodyOf(v verdict) []byte {
	d := v.decision
	p := problem{
		Type: answer.QuotaExceeded, Title: answer.QuotaExceededTitle, Status: 429,
		Detail: answer.Why(v.reason), Reason: v.reason, Dimension: d.Dimension, Largest: int64(d.Largest),
		RetryAfterMs: agent.RoundUp(d.RetryIn, time.Millisecond), PolicyVersion: d.PolicyVersion, ResetMs: agent.RoundUp(d.Reset, time.Millisecond),
	}
	if v.reason == quota.UnknownTenant && d.PolicyVersion == 0 {
		p.Detail = "a value of the descriptor names nobody"
	}
	switch {
	case v.reason == quota.Unavailable:
		p.Type, p.Title = answer.ReducedCapacity, answer.ReducedCapacityTitle
	case d.Dimension != "":
		p.Violated = []string{d.Dimension}
		p.Detail = d.Dimension + ": " + p.Detail
	}
	if d.PolicyVersion != 0 && !d.Limit.Unlimited {
		limit, left := int64(d.Limit.Units), max(0, int64(d.Remaining))
		p.Limit, p.Remaining = &limit, &left
	}
	text, err := json.Marshal(p)
	if err != nil { // it holds nothing that could fail
		panic(err)
	}
	return text
}
