package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// Documents returns the YAML documents of a file's text, each as its root node. A text that is
// too large or no YAML is a Fault. Aliases are not followed, so the result is not larger than
// the text.
func (f File) Documents() ([]*yaml.Node, error) {
	fault := func(line int, problem, allowed string) error {
		return Fault{File: f.Name, Line: line, Problem: problem, Allowed: allowed}
	}
	text := normalise(f.Text)
	if len(text) > MaxFileBytes {
		return nil, fault(0, fmt.Sprintf("is %d bytes long", len(text)), fmt.Sprintf("at most %d", MaxFileBytes))
	}
	if line, problem := unreadable(text); problem != "" {
		return nil, fault(line, problem, "UTF-8 text without control characters and directives")
	}
	var roots []*yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			line, problem := syntaxFault(text, err)
			return roots, fault(line, problem, "YAML")
		}
		roots = append(roots, doc.Content[0])
	}
}
