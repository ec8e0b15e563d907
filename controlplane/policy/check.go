package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// crossCheck looks at what only all files together can show.
func (b *builder) crossCheck() {
	if len(b.files) == 0 {
		b.faults = append(b.faults, ranked{Fault: Fault{File: "policy", Problem: "no policy file is given", Allowed: "one or more"}})
		return
	}
	if len(b.doc.Dimensions) == 0 && len(b.faults) == 0 {
		// An empty or cut-off file must not pass for a policy that takes everything away.
		b.faults = append(b.faults, ranked{Fault: Fault{File: b.files[0].Name, Field: "dimensions",
			Problem: "no dimension is defined", Allowed: "one or more in all files"}})
	}
	b.checkLocals()
	b.checkPlans()
	b.checkListed()
	b.checkOperations()
	b.checkDescriptors()
}

// checkPlans refuses plans that no dimension gives a limit: a typo there would silently give
// a tenant the default.
func (b *builder) checkPlans() {
	allowed := ""
	for _, ref := range b.planRefs {
		if b.plans[ref.node.Value] {
			continue
		}
		if allowed == "" {
			allowed = "a plan that some dimension lists (" + few(slices.Sorted(maps.Keys(b.plans))) + ")"
		}
		ref.refuse(fmt.Sprintf("no dimension knows the plan %q", shorten(ref.node.Value)), allowed)
	}
}

// checkListed looks at overrides of tenants that the tenant list does not have. Where the
// list is closed they could never count.
func (b *builder) checkListed() {
	if !b.doc.DenyUnlisted {
		return
	}
	for _, at := range b.overrides {
		if _, listed := b.first["tenant "+at.node.Value]; !listed {
			at.refuse(fmt.Sprintf("tenant %q has no entry, and unlisted_tenants is deny", shorten(at.node.Value)),
				"a tenant of the tenants list")
		}
	}
}

const fewNames = 20

// few joins the first names of a list, and says how many more there are.
func few(names []string) string {
	switch {
	case len(names) == 0:
		return "there is none"
	case len(names) > fewNames:
		return strings.Join(names[:fewNames], ", ") + fmt.Sprintf(" and %d more", len(names)-fewNames)
	}
	return strings.Join(names, ", ")
}
