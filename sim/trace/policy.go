package trace

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/quotalease/quotalease/ledger/quota"
)

// The parts of a policy document that a replay needs.
type (
	policyDoc struct {
		Dimensions []policyDimension `yaml:"dimensions"`
	}
	policyDimension struct {
		Name      string       `yaml:"name"`
		Kind      string       `yaml:"kind"`
		Limit     quota.Units  `yaml:"limit"`
		Period    policyPeriod `yaml:"period,flow"`
		Class     string       `yaml:"class"`
		Overshoot string       `yaml:"overshoot"`
		Lease     policyLease  `yaml:"lease,flow"`
		Outage    policyOutage `yaml:"outage,flow"`
		Cold      policyCold   `yaml:"cold,flow"`
	}
	policyPeriod struct {
		Every string `yaml:"every"`
	}
	policyLease struct {
		TTL   string `yaml:"ttl"`
		Grace string `yaml:"grace"`
	}
	policyOutage struct {
		Mode  string `yaml:"mode"`
		After string `yaml:"after"`
	}
	policyCold struct {
		Wait string `yaml:"wait"`
		Then string `yaml:"then"`
	}
)

// PolicyYAML writes the derived limits as one policy document: hard quotas in a window that
// holds the whole run. Leases are short, so that a replay of minutes sees many of them and
// notices an outage within a second; callers wait for a first lease, because in a trace of
// many tenants most keys are new.
func PolicyYAML(derived []Derived) ([]byte, error) {
	doc := policyDoc{Dimensions: make([]policyDimension, 0, len(derived))}
	for _, d := range derived {
		doc.Dimensions = append(doc.Dimensions, policyDimension{
			Name: d.Dimension, Kind: quota.Period.String(), Limit: d.Limit,
			Period: policyPeriod{Every: "year"}, Class: quota.Hard.String(), Overshoot: "10%",
			Lease:  policyLease{TTL: "2s", Grace: "500ms"},
			Outage: policyOutage{Mode: "closed", After: "1s"},
			Cold:   policyCold{Wait: "500ms", Then: "deny"},
		})
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write policy of trace: %w", err)
	}
	return text, nil
}
