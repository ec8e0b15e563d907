package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quotalease/quotalease/agent"
	"github.com/quotalease/quotalease/agent/door"
	"github.com/quotalease/quotalease/ledger/quota"
)

const maxBody = 64 << 10

// field is one name that a body may have, and what reads its value.
type field struct {
	name   string
	kind   string        // in words
	schema func() schema // of the value, for the description of the door; no request needs it
	read   func(name string, value json.RawMessage) error
}

// readBody reads the one JSON object of a request into what its fields write to.
func readBody(w http.ResponseWriter, r *http.Request, fields []field) error {
	body, err := bodyOf(w, r)
	if err != nil {
		return err
	}
	return readObject(body, "body", "", fields)
}

// bodyOf is all that a request brings.
func bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		return body, nil
	}
	var large *http.MaxBytesError
	allowed := "sent whole, in time"
	if errors.As(err, &large) {
		allowed = "at most " + strconv.Itoa(maxBody) + " bytes"
	}
	return nil, &quota.FieldError{Field: "body", Allowed: allowed}
}

// readObject is stricter than a JSON reader: names are compared exactly and may appear once,
// and text that a reader would mend is refused, because two tenants whose names are mended
// alike would share a quota. whole names the object in a refusal, and prefix its fields.
func readObject(text []byte, whole, prefix string, fields []field) error {
	bad := func() error {
		return &quota.FieldError{Field: whole, Allowed: "one JSON object in UTF-8: " + shape(fields)}
	}
	if !utf8.Valid(text) {
		return bad()
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return bad()
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, isName := token.(string)
		if err != nil || !isName {
			return bad()
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return bad()
		}
		if seen[name] {
			return &quota.FieldError{Field: prefix + clip(name), Allowed: "given once"}
		}
		seen[name] = true
		if err := set(name, prefix, value, fields); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return bad()
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return bad()
	}
	return nil
}

func set(name, prefix string, value json.RawMessage, fields []field) error {
	for _, f := range fields {
		if f.name == name {
			return f.read(prefix+name, value)
		}
	}
	return &quota.FieldError{Field: prefix + clip(name), Allowed: "not a field; fields are " + names(fields)}
}

// shape is what an object looks like, for who sent another.
func shape(fields []field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = strconv.Quote(f.name) + ": " + f.kind
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func names(fields []field) string {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.name
	}
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// text reads into s. Who leaves a field out says the same as who sends an empty one.
func text(name string, s *string) field {
	return field{name, "text", func() schema { return schema{"type": "string"} }, func(name string, value json.RawMessage) error {
		if value[0] != '"' || json.Unmarshal(value, s) != nil || strings.ContainsRune(*s, utf8.RuneError) {
			return &quota.FieldError{Field: name, Allowed: "text, without U+FFFD and unpaired surrogates"}
		}
		return nil
	}}
}

// optionalText reads into what is nil if it is not given.
func optionalText(name string, s **string) field {
	return field{name, "text", func() schema { return schema{"type": "string"} }, func(name string, value json.RawMessage) error {
		*s = new(string)
		return text(name, *s).read(name, value)
	}}
}

// whole reads a number from least to most into what is nil if it is not given.
func whole(name string, n **int64, least, most int64) field {
	form := func() schema { return schema{"type": "integer", "minimum": least, "maximum": most} }
	return field{name, "whole number", form, func(name string, value json.RawMessage) error {
		parsed, ok := readWhole(string(value))
		if !ok || parsed < least || parsed > most {
			return &quota.FieldError{Field: name, Allowed: door.Whole(least, most)}
		}
		*n = &parsed
		return nil
	}}
}

// truth reads true or false.
func truth(name string, b *bool) field {
	return field{name, "true or false", func() schema { return schema{"type": "boolean"} }, func(name string, value json.RawMessage) error {
		switch string(value) {
		case "true", "false":
			*b = value[0] == 't'
			return nil
		}
		return &quota.FieldError{Field: name, Allowed: "true or false"}
	}}
}

// list reads each element by one. It may hold 1 to most of them, each an object of fields.
func list(name, kind string, most int, of []field, one func(name string, value json.RawMessage) error) field {
	many := func() schema {
		return schema{"type": "array", "minItems": 1, "maxItems": most, "items": objectOf(of)}
	}
	return field{name, "list of " + kind, many, func(name string, value json.RawMessage) error {
		bad := &quota.FieldError{Field: name, Allowed: "a list of 1 to " + strconv.Itoa(most) + " " + kind}
		var elements []json.RawMessage
		if value[0] != '[' || json.Unmarshal(value, &elements) != nil || len(elements) < 1 || len(elements) > most {
			return bad
		}
		for i, e := range elements {
			if err := one(name+"["+strconv.Itoa(i)+"]", e); err != nil {
				return err
			}
		}
		return nil
	}}
}

// readWhole accepts digits alone: no sign, no fraction, no exponent.
func readWhole(text string) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}

// readCost reads the cost in a header.
func readCost(text string) (int64, error) {
	n, ok := readWhole(text)
	if !ok {
		n = -1 // no number is refused like one out of range
	}
	return n, agent.ValidateCost(n)
}

// clip keeps a caller's own words in an answer short, and visible.
func clip(name string) string {
	const most = 64
	switch {
	case name == "":
		return `""`
	case len(name) <= most:
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "..."
}
