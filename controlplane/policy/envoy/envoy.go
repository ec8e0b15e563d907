package envoy

import (
	"fmt"

	"github.com/quotalease/quotalease/controlplane/policy"
	"github.com/quotalease/quotalease/ledger/quota"
)

// Options say what rule files do not.
type Options struct {
	Class        quota.Class // of every dimension
	Overshoot    string      // a percentage; empty: what the class has by default
	MergeDomains bool        // several files may add to one domain, as the original's MERGE_DOMAIN_CONFIG
}

// Validate names the option that a policy would not take.
func (o Options) Validate() error {
	if o.Overshoot == "" {
		return nil
	}
	if o.Class == quota.Exact {
		return &quota.FieldError{Field: "overshoot", Allowed: "only with class hard, bounded or best_effort"}
	}
	if _, err := policy.ParsePercent(o.Overshoot); err != nil {
		return &quota.FieldError{Field: "overshoot", Allowed: policy.PercentAllowed}
	}
	return nil
}

// Imported is a policy that means what rule files mean.
type Imported struct {
	Text        []byte // YAML
	Dimensions  int
	Locals      int // local limits, of what is counted by address
	Descriptors int
	Notes       []policy.Fault // what is not carried over, or otherwise
}

// Import reads rule files of Envoy's rate limit service, which together are one
// configuration, as that service does. The error is policy.Faults, and then nothing is
// imported.
func Import(files []policy.File, opt Options) (*Imported, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	r := &reader{files: files, merge: opt.MergeDomains}
	total := 0
	for _, f := range files {
		total += len(f.Text)
	}
	if total > policy.MaxTotalBytes {
		return nil, policy.Faults{{File: files[0].Name, Problem: fmt.Sprintf("all files are %d bytes together", total),
			Allowed: fmt.Sprintf("at most %d", policy.MaxTotalBytes)}}
	}
	for i := range files {
		r.readFile(i)
	}
	if len(r.faults) > 0 {
		return nil, sorted(r.faults)
	}
	im := &Imported{}
	var rules []rule
	for _, d := range r.domains {
		c := carrier{domain: d.name}
		c.level(nil, d.root.below)
		c.named()
		rules = append(rules, c.rules...)
	}
	im.count(rules)
	if len(r.faults) > 0 {
		return nil, sorted(r.faults)
	}
	w := &writer{opt: opt}
	w.document(rules)
	im.Text, im.Notes = []byte(w.String()), sorted(r.notes)
	return im, nil
}

// count counts what is carried over, and refuses more limits than a policy may have.
func (im *Imported) count(rules []rule) {
	im.Descriptors = len(rules)
	for _, rule := range rules {
		if rule.dimension == "" {
			continue
		}
		if rule.address != "" {
			if im.Locals++; im.Locals == policy.MaxLocals+1 {
				rule.limit.at.refuse("too many limits by address", fmt.Sprintf("at most %d in all files", policy.MaxLocals))
			}
			continue
		}
		if im.Dimensions++; im.Dimensions == policy.MaxDimensions+1 {
			rule.limit.at.refuse("too many limits", fmt.Sprintf("at most %d in all files", policy.MaxDimensions))
		}
	}
}
