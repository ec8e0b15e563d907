package demo

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/quotalease/quotalease/ledger/quota"
)

// replaceLimit sets the limit of one dimension in a policy's text and keeps the rest.
func replaceLimit(text []byte, dimension string, limit quota.Units) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	for _, d := range value(doc.Content[0], "dimensions").Content {
		if value(d, "name").Value == dimension {
			value(d, "limit").Value = fmt.Sprint(limit)
			return yaml.Marshal(&doc)
		}
	}
	return nil, fmt.Errorf("set the limit of %s: the policy has no such dimension", dimension)
}

// value is the node under a key of a mapping; an empty node if there is none.
func value(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return &yaml.Node{}
}
