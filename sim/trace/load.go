package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxEvents is the most that Load holds in memory, at about 64 bytes each.
const MaxEvents = 5_000_000

// Load reads a whole trace and sorts it by time, as a log is written when requests end.
// Events of one instant keep their order. A trace of more than MaxEvents, or of none, is
// an error. The Summary goes as far as the reading did.
func Load(ctx context.Context, r io.Reader, o Options) ([]Event, Summary, error) {
	return load(ctx, r, o, MaxEvents)
}

func load(ctx context.Context, r io.Reader, o Options, most int) ([]Event, Summary, error) {
	t, err := NewReader(&endingReader{ctx: ctx, r: r}, o)
	if err != nil {
		return nil, Summary{}, err
	}
	tenants, dimensions := make(names), make(names)
	summary := func() Summary {
		s := t.Summary()
		s.Tenants, s.Dimensions = len(tenants), len(dimensions)
		return s
	}
	var events []Event
	for {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, summary(), err
		}
		if len(events) == most {
			return nil, summary(), fmt.Errorf("load trace: more than %d events; replay a part of it", most)
		}
		e.Tenant, e.Dimension = tenants.one(e.Tenant), dimensions.one(e.Dimension)
		events = append(events, e)
	}
	s := summary()
	if len(events) == 0 {
		return nil, s, noEvent(s)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.At.Compare(b.At) })
	return events, s, nil
}

// endingReader ends with its context, also in a stream that has no good line at all.
type endingReader struct {
	ctx context.Context
	r   io.Reader
}

func (e *endingReader) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.r.Read(p)
}

func noEvent(s Summary) error {
	if len(s.Problems) == 0 {
		return fmt.Errorf("load trace: no event in %d lines", s.Lines)
	}
	return fmt.Errorf("load trace: no event in %d lines of %s; %s", s.Lines, s.Format, s.Problems[0])
}

// names holds one copy of each name: a name cut from a line would keep the line.
type names map[string]string

func (n names) one(name string) string {
	if have, ok := n[name]; ok {
		return have
	}
	name = strings.Clone(name)
	n[name] = name
	return name
}
