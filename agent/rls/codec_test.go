package rls

import (
	"slices"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

func entries(pairs ...string) *commonpb.RateLimitDescriptor {
	d := &commonpb.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonpb.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// plainRequests are read by hand.
var plainRequests = []*rlspb.RateLimitRequest{
	{}, {Domain: "web", Descriptors: []*commonpb.RateLimitDescriptor{entries("org", "acme")}},
	{Domain: "wéb", HitsAddend: 1 << 31, Descriptors: []*commonpb.RateLimitDescriptor{{}, entries("org", "", "", "ann"), entries("a", "b", "c", "d")}},
}

// FuzzReadRequest: every message is read as gRPC's own codec reads it: to the same request, or to
// an error too.
func FuzzReadRequest(f *testing.F) {
	special := entries("org", "acme")
	special.HitsAddend, special.Limit = wrapperspb.UInt64(3), &commonpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5}
	for _, r := range append(plainRequests, &rlspb.RateLimitRequest{Domain: "web", Descriptors: []*commonpb.RateLimitDescriptor{special}}) {
		text, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		for _, more := range []string{"", "\x7a\x01x" /* a field that nobody knows */, "\x0a\x01\xff", "\x0a\x01b\x18\xff\xff\xff\xff\xff\x0f" /* the last one counts */, "\x12"} {
			f.Add(append(slices.Clone(text), more...))
		}
	}
	ours := newCodec()
	f.Fuzz(func(t *testing.T, text []byte) {
		data := func() mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(text)} }
		got, want := &rlspb.RateLimitRequest{}, &rlspb.RateLimitRequest{}
		gotErr, wantErr := ours.Unmarshal(data(), got), ours.CodecV2.Unmarshal(data(), want)
		if (gotErr == nil) != (wantErr == nil) || wantErr == nil && !proto.Equal(got, want) {
			t.Fatalf("%x: %v, %v; want %v, %v", text, got, gotErr, want, wantErr)
		}
	})
}

func TestOrdinaryRequestsAreReadByHand(t *testing.T) {
	t.Parallel()
	for _, r := range plainRequests {
		text, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got := &rlspb.RateLimitRequest{}
		if !readRequest(text, got) || !proto.Equal(got, r) {
			t.Errorf("%v: read %v", r, got)
		}
	}
}

// anyResponse draws responses that are ordinary, and now and then one that is not.
func anyResponse(t *rapid.T) (r *rlspb.RateLimitResponse, ordinary bool) {
	seldom := func(what string) bool {
		odd := rapid.IntRange(0, 19).Draw(t, what) == 19
		ordinary = ordinary && !odd
		return odd
	}
	ordinary = true
	text := rapid.StringN(0, 20, 40)
	r = &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_Code(rapid.Int32().Draw(t, "code"))}
	for range rapid.IntRange(0, 3).Draw(t, "statuses") {
		s := &rlspb.RateLimitResponse_DescriptorStatus{Code: rlspb.RateLimitResponse_Code(rapid.Int32Range(0, 2).Draw(t, "status")), LimitRemaining: rapid.Uint32().Draw(t, "left")}
		if rapid.Bool().Draw(t, "limited") {
			s.CurrentLimit = &rlspb.RateLimitResponse_RateLimit{RequestsPerUnit: rapid.Uint32().Draw(t, "limit"), Name: text.Draw(t, "name"),
				Unit: rlspb.RateLimitResponse_RateLimit_Unit(rapid.Int32Range(0, 7).Draw(t, "unit"))}
			if seldom("multiplied") {
				s.CurrentLimit.UnitMultiplier = wrapperspb.UInt32(2)
			}
		}
		if rapid.Bool().Draw(t, "ends") {
			s.DurationUntilReset = &durationpb.Duration{Seconds: rapid.Int64().Draw(t, "seconds"), Nanos: rapid.Int32().Draw(t, "nanos")}
		}
		r.Statuses = append(r.Statuses, s)
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		h := &corepb.HeaderValue{Key: text.Draw(t, "key"), Value: text.Draw(t, "value")}
		if seldom("raw") {
			h.RawValue = []byte{0xff}
		}
		if seldom("long") {
			h.Value = rapid.StringN(100, 300, -1).Draw(t, "long value")
		}
		r.ResponseHeadersToAdd = append(r.ResponseHeadersToAdd, h)
	}
	if seldom("denied") {
		r.RawBody = []byte("{}")
	}
	if seldom("told") {
		r.DynamicMetadata = &structpb.Struct{}
	}
	if seldom("other headers") {
		r.RequestHeadersToAdd = []*corepb.HeaderValue{{Key: "a"}}
	}
	return r, ordinary
}

// Every response is written so that it is read as what it was, and ordinary ones by hand.
func TestResponsesAreWrittenAlike(t *testing.T) {
	t.Parallel()
	ours := newCodec()
	rapid.Check(t, func(t *rapid.T) {
		r, ordinary := anyResponse(t)
		data, err := ours.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got := &rlspb.RateLimitResponse{}
		if err := proto.Unmarshal(data.Materialize(), got); err != nil || !proto.Equal(got, r) {
			t.Fatalf("%v is written as %v, %v", r, got, err)
		}
		if _, byHand := appendResponse(nil, r); byHand != ordinary {
			t.Errorf("%v is written by hand: %v", r, byHand)
		}
	})
}

// What gRPC's own codec would not write is not written.
func TestTextThatIsNoTextIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, r := range []*rlspb.RateLimitResponse{
		{ResponseHeadersToAdd: []*corepb.HeaderValue{{Value: "\xff"}}},
		{Statuses: []*rlspb.RateLimitResponse_DescriptorStatus{{CurrentLimit: &rlspb.RateLimitResponse_RateLimit{Name: "\xff"}}}},
	} {
		if _, err := newCodec().Marshal(r); err == nil {
			t.Errorf("%v is written", r)
		}
	}
	for _, r := range []*rlspb.RateLimitResponse{{Statuses: []*rlspb.RateLimitResponse_DescriptorStatus{nil}}, {ResponseHeadersToAdd: []*corepb.HeaderValue{nil}}} {
		if data, err := newCodec().Marshal(r); err != nil || data.Len() == 0 {
			t.Errorf("%v: %d bytes, %v", r, data.Len(), err)
		}
	}
}
