package rls

import (
	"unicode/utf8"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Codec makes a server read and write the service's messages without reflection, which is a tenth of
// what a decision costs there. Whatever is out of the ordinary, and all other messages, are gRPC's
// own codec's, which would have made the same of them.
func Codec() grpc.ServerOption { return grpc.ForceServerCodecV2(newCodec()) }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*rlspb.RateLimitRequest); ok {
		whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
		done := readRequest(whole.ReadOnlyData(), r)
		whole.Free()
		if done {
			return nil
		}
	}
	return c.CodecV2.Unmarshal(data, v) // which forgets what was read
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*rlspb.RateLimitResponse); ok {
		if text, ok := appendResponse(make([]byte, 0, usualResponse), r); ok {
			return mem.BufferSlice{mem.SliceBuffer(text)}, nil
		}
	}
	return c.CodecV2.Marshal(v)
}

// usualResponse is room for the answer to one descriptor or two.
const usualResponse = 256

// The tags of what is read and written here: the number of a field and its form, in one byte.
const (
	number = iota
	_
	bytes // and text, and messages
)

// readRequest reads a request without limits of its own and such. It is false of any other.
func readRequest(b []byte, r *rlspb.RateLimitRequest) bool {
	for len(b) > 0 {
		tag := b[0]
		if tag == 3<<3|number {
			hits, n := protowire.ConsumeVarint(b[1:])
			if n < 0 {
				return false
			}
			r.HitsAddend, b = uint32(hits), b[1+n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b[1:])
		if n < 0 {
			return false
		}
		b = b[1+n:]
		switch tag {
		case 1<<3 | bytes:
			if !utf8.Valid(v) {
				return false
			}
			r.Domain = string(v)
		case 2<<3 | bytes:
			d := &commonpb.RateLimitDescriptor{}
			if !readDescriptor(v, d) {
				return false
			}
			r.Descriptors = append(r.Descriptors, d)
		default:
			return false
		}
	}
	return true
}

// readDescriptor reads one that has nothing but entries.
func readDescriptor(b []byte, d *commonpb.RateLimitDescriptor) bool {
	for len(b) > 0 {
		v, n := protowire.ConsumeBytes(b[1:])
		e := &commonpb.RateLimitDescriptor_Entry{}
		if b[0] != 1<<3|bytes || n < 0 || !readEntry(v, e) {
			return false
		}
		d.Entries, b = append(d.Entries, e), b[1+n:]
	}
	return true
}

func readEntry(b []byte, e *commonpb.RateLimitDescriptor_Entry) bool {
	for len(b) > 0 {
		v, n := protowire.ConsumeBytes(b[1:])
		if n < 0 || !utf8.Valid(v) {
			return false
		}
		switch b[0] {
		case 1<<3 | bytes:
			e.Key = string(v)
		case 2<<3 | bytes:
			e.Value = string(v)
		default:
			return false
		}
		b = b[1+n:]
	}
	return true
}

// longest is the most that is written here after a length, which then is one byte.
const longest = 127

// appendResponse writes what respond makes of an allowance. It is false of anything else.
func appendResponse(b []byte, r *rlspb.RateLimitResponse) ([]byte, bool) {
	if len(r.GetRawBody()) > 0 || len(r.GetRequestHeadersToAdd()) > 0 || r.GetDynamicMetadata() != nil || r.GetQuota() != nil {
		return nil, false
	}
	b = appendNumber(b, 1, uint64(r.GetOverallCode()))
	for _, s := range r.GetStatuses() {
		b = append(b, 2<<3|bytes, 0)
		from := len(b)
		var ok bool
		if b, ok = appendStatus(b, s); !ok || len(b)-from > longest {
			return nil, false
		}
		b[from-1] = byte(len(b) - from)
	}
	for _, h := range r.GetResponseHeadersToAdd() {
		var ok bool
		if b, ok = appendHeader(b, h); !ok {
			return nil, false
		}
	}
	return b, true
}

func appendStatus(b []byte, s *rlspb.RateLimitResponse_DescriptorStatus) ([]byte, bool) {
	if s == nil || s.GetQuota() != nil {
		return nil, false
	}
	b = appendNumber(b, 1, uint64(s.GetCode()))
	if l := s.GetCurrentLimit(); l != nil {
		if l.GetUnitMultiplier() != nil || !isShort(l.GetName()) {
			return nil, false
		}
		b = append(b, 2<<3|bytes, 0)
		from := len(b)
		b = appendNumber(b, 1, uint64(l.GetRequestsPerUnit()))
		b = appendNumber(b, 2, uint64(l.GetUnit()))
		b = appendText(b, 3, l.GetName())
		b[from-1] = byte(len(b) - from)
	}
	b = appendNumber(b, 3, uint64(s.GetLimitRemaining()))
	if d := s.GetDurationUntilReset(); d != nil {
		b = appendDuration(append(b, 4<<3|bytes), d)
	}
	return b, true
}

func appendDuration(b []byte, d *durationpb.Duration) []byte {
	b = append(b, 0)
	from := len(b)
	b = appendNumber(b, 1, uint64(d.GetSeconds()))
	b = appendNumber(b, 2, uint64(d.GetNanos()))
	b[from-1] = byte(len(b) - from)
	return b
}

func appendHeader(b []byte, h *corepb.HeaderValue) ([]byte, bool) {
	if h == nil || len(h.GetRawValue()) > 0 || !isShort(h.GetKey()) || !isShort(h.GetValue()) {
		return nil, false
	}
	b = append(b, 3<<3|bytes, 0)
	from := len(b)
	b = appendText(appendText(b, 1, h.GetKey()), 2, h.GetValue())
	if len(b)-from > longest {
		return nil, false
	}
	b[from-1] = byte(len(b) - from)
	return b, true
}

// isShort reports text that can be written with a length of one byte, inside of a message that can.
func isShort(s string) bool { return len(s) < 100 && utf8.ValidString(s) }

// appendText writes a field of text, which is left out if it is empty, as all fields are.
func appendText(b []byte, field byte, s string) []byte {
	if s == "" {
		return b
	}
	return append(append(b, field<<3|bytes, byte(len(s))), s...)
}

func appendNumber(b []byte, field byte, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(append(b, field<<3|number), n)
}
