package trace

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quotalease/quotalease/ledger/quota"
)

// Columns say where the parts of an event stand in a CSV trace. Each is a column's name;
// upper and lower case are told apart only where the header does. Tenant, Dimension and
// Cost may be a constant instead (=acme), and Cost may be a sum
// (ContextTokens+GeneratedTokens).
//
// An empty one means the column timestamp, tenant, dimension or cost. Where the header has
// ContextTokens and GeneratedTokens, as published traces of LLM requests do, the parts
// that still miss are tenant "trace", dimension "tokens" and the sum of these two.
type Columns struct{ Timestamp, Tenant, Dimension, Cost string }

// The flags under which a command line offers Columns; faults are named by them.
const (
	timestampFlag = "--timestamp-column"
	tenantFlag    = "--tenant-column"
	dimensionFlag = "--dimension-column"
	costFlag      = "--cost-column"
)

// part is where a row has one part of an event: in columns that add up, or nowhere, as it
// is the same in every row.
type part struct {
	columns  []int
	constant string
}

// header is the first row.
type header []string

// plan holds the resolved Columns.
type plan struct {
	timestamp, tenant, dimension, cost part
	constantCost                       quota.Units
}

// resolve finds every part in the header, and returns all faults together.
func (c Columns) resolve(h header) (plan, error) {
	llm := h.has("ContextTokens") && h.has("GeneratedTokens")
	or := func(given, name, ofLLM string) string {
		switch {
		case given != "":
			return given
		case h.has(name):
			return name
		case llm:
			return ofLLM
		}
		return ""
	}
	var p plan
	var errs [4]error
	p.timestamp, errs[0] = h.column(timestampFlag, or(c.Timestamp, "timestamp", ""))
	p.tenant, errs[1] = h.columnOrConstant(tenantFlag, or(c.Tenant, "tenant", "=trace"))
	p.dimension, errs[2] = h.columnOrConstant(dimensionFlag, or(c.Dimension, "dimension", "=tokens"))
	p.cost, errs[3] = h.columnOrConstant(costFlag, or(c.Cost, "cost", "ContextTokens+GeneratedTokens"))
	if err := errors.Join(errs[:]...); err != nil {
		return plan{}, err
	}
	return p, p.checkConstants()
}

func (p *plan) checkConstants() error {
	if p.tenant.columns == nil {
		if err := quota.ValidateTenant(p.tenant.constant); err != nil {
			return fmt.Errorf("read %s: %w", tenantFlag, err)
		}
	}
	if p.dimension.columns == nil {
		if err := quota.ValidateDimension(p.dimension.constant); err != nil {
			return fmt.Errorf("read %s: %w", dimensionFlag, err)
		}
	}
	if p.cost.columns == nil {
		n, err := parseCost(p.cost.constant)
		if err != nil {
			return fmt.Errorf("read %s: %w", costFlag, err)
		}
		p.constantCost = n
	}
	return nil
}

// column finds a single column.
func (h header) column(flag, name string) (part, error) {
	if name == "" {
		return part{}, h.fault(flag, fmt.Sprintf("name a column; this file has no %q", defaultNames[flag]))
	}
	i, fault := h.find(name)
	if fault != "" {
		return part{}, h.fault(flag, fault)
	}
	return part{columns: []int{i}}, nil
}

// columnOrConstant also takes =VALUE, and for costs NAME+NAME. A column whose own name has
// a plus is found first.
func (h header) columnOrConstant(flag, name string) (part, error) {
	if name == "" {
		value := "NAME"
		if flag == costFlag {
			value = "1"
		}
		return part{}, h.fault(flag, fmt.Sprintf("name a column, or write %s =%s for the same in every row; this file has no %q",
			flag, value, defaultNames[flag]))
	}
	if constant, found := strings.CutPrefix(name, "="); found {
		return part{constant: constant}, nil
	}
	if flag != costFlag || h.has(name) || !strings.Contains(name, "+") {
		return h.column(flag, name)
	}
	var sum part
	for term := range strings.SplitSeq(name, "+") {
		i, fault := h.find(strings.TrimSpace(term))
		if fault != "" {
			return part{}, h.fault(flag, fault)
		}
		sum.columns = append(sum.columns, i)
	}
	return sum, nil
}

var defaultNames = map[string]string{
	timestampFlag: "timestamp", tenantFlag: "tenant", dimensionFlag: "dimension", costFlag: "cost",
}

func (h header) has(name string) bool {
	return slices.ContainsFunc(h, func(col string) bool { return strings.EqualFold(col, name) })
}

// find prefers the exact spelling, then takes any; two columns that fit equally are none.
func (h header) find(name string) (int, string) {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		found, n := 0, 0
		for i, col := range h {
			if same(col, name) {
				found, n = i, n+1
			}
		}
		switch {
		case n == 1:
			return found, ""
		case n > 1:
			return 0, fmt.Sprintf("%q fits %d columns", name, n)
		}
	}
	return 0, fmt.Sprintf("there is no column %q", name)
}

// fault names the flag, what is wrong, and the columns that there are.
func (h header) fault(flag, what string) error {
	const shown = 20
	cols := make([]string, 0, shown+1)
	for i, col := range h {
		if i == shown {
			cols = append(cols, fmt.Sprintf("and %d more", len(h)-shown))
			break
		}
		cols = append(cols, fmt.Sprintf("%.40q", col))
	}
	return &quota.FieldError{Field: flag, Allowed: what + " (columns: " + strings.Join(cols, ", ") + ")"}
}
