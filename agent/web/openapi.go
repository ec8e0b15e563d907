package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/quotalease/quotalease/agent/answer"
)

// schema is one of JSON Schema 2020-12, as OpenAPI 3.1 has it. Maps are written with their keys
// in order, so a description is the same text every time.
type schema map[string]any

const schemas = "#/components/schemas/"

// description is the OpenAPI document of the paths: what their handlers read is described by the
// fields that read it, and what they write by the types that they write.
func description(paths []path) []byte {
	d := &describer{schemas: schema{}}
	items := schema{}
	for _, p := range paths {
		items[p.name] = schema{strings.ToLower(p.method): d.operation(p)}
	}
	text, err := json.MarshalIndent(schema{
		"openapi": "3.1.0",
		"info": schema{
			"title": "quotalease agent", "version": "1", "description": aboutDoor,
			"license": schema{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []schema{{"url": "http://127.0.0.1:7611", "description": "an agent on the same machine"}},
		"paths":    items,
		"security": []schema{{}, {"token": []string{}}, {"key": []string{}}, {"certificate": []string{}}},
		"components": schema{"schemas": d.schemas, "headers": headerSchemas(), "securitySchemes": schema{
			"token":       schema{"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
			"key":         schema{"type": "apiKey", "in": "header", "name": "X-Api-Key"},
			"certificate": schema{"type": "mutualTLS"},
		}},
	}, "", "  ")
	if err != nil {
		panic(err) // our own tables
	}
	return append(text, '\n')
}

type describer struct{ schemas schema }

func (d *describer) operation(p path) schema {
	op := schema{"operationId": strings.Trim(p.name[strings.LastIndex(p.name, "/")+1:], "/"), "summary": p.does, "responses": d.responses(p)}
	if p.fields != nil {
		body := objectOf(p.fields)
		var groups []schema
		for _, names := range p.needs {
			groups = append(groups, schema{"required": names})
		}
		if len(groups) == 1 {
			body["required"] = p.needs[0]
		} else {
			body["oneOf"] = groups
		}
		d.schemas[p.body] = body
		op["requestBody"] = schema{"required": true, "content": schema{"application/json": schema{"schema": refTo(p.body)}}}
	}
	var parameters []schema
	for _, f := range p.query {
		parameters = append(parameters, schema{"name": f.name, "in": "query", "schema": named(f.name, f.schema())})
	}
	for _, name := range p.headers {
		parameters = append(parameters, schema{"name": name, "in": "header", "description": headerWords[name].words, "schema": headerWords[name].form})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	return op
}

// responses are those of a path by their status.
func (d *describer) responses(p path) schema {
	all := schema{"200": d.response(p, http.StatusOK, p.ok)}
	for status, body := range p.answers {
		all[strconv.Itoa(status)] = d.response(p, status, body)
	}
	return all
}

func (d *describer) response(p path, status int, body any) schema {
	r := schema{"description": statusWords[status]}
	if names := headersOf(p, status); len(names) > 0 {
		headers := schema{}
		for _, name := range names {
			headers[name] = schema{"$ref": "#/components/headers/" + name}
		}
		r["headers"] = headers
	}
	kind := "application/json"
	if status != http.StatusOK {
		kind = "application/problem+json"
	}
	switch b := body.(type) {
	case nil:
		return r
	case string:
		r["content"] = schema{"text/plain": schema{"schema": schema{"type": "string"}}}
	case []any:
		var choices []schema
		for _, one := range b {
			choices = append(choices, d.bodyOf(reflect.TypeOf(one)))
		}
		r["content"] = schema{kind: schema{"schema": schema{"anyOf": choices}}}
	default:
		r["content"] = schema{kind: schema{"schema": d.bodyOf(reflect.TypeOf(b))}}
	}
	return r
}

// bodyOf describes a type once, and refers to it.
func (d *describer) bodyOf(t reflect.Type) schema {
	if t.Name() == "" { // no type of ours: any object
		return schema{"type": "object"}
	}
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, ok := d.schemas[name]; !ok {
		properties, required := schema{}, []string{}
		members(t, properties, &required)
		for member, always := range constants[name] {
			properties[member] = schema{"const": always, "description": memberWords[member].words}
		}
		d.schemas[name] = schema{"type": "object", "properties": properties, "required": required}
	}
	return refTo(name)
}

// members adds what a struct's fields are in JSON, those of embedded structs included.
func members(t reflect.Type, properties schema, required *[]string) {
	for _, f := range reflect.VisibleFields(t) {
		tag := f.Tag.Get("json")
		if tag == "" {
			continue // an embedded struct, whose fields are visible themselves
		}
		name, option, _ := strings.Cut(tag, ",")
		properties[name] = named(name, typeOf(f.Type))
		if option != "omitempty" {
			*required = append(*required, name)
		}
	}
	slices.Sort(*required)
}

// typeOf is the schema of a member by its type alone. No number of the door is negative.
func typeOf(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer", "minimum": 0}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Slice:
		return schema{"type": "array", "items": typeOf(t.Elem())}
	case reflect.Struct:
		properties, required := schema{}, []string{}
		members(t, properties, &required)
		return schema{"type": "object", "properties": properties, "required": required}
	}
	return schema{} // memberWords says more
}

// objectOf is what a body of these fields looks like. It has no others.
func objectOf(fields []field) schema {
	properties := schema{}
	for _, f := range fields {
		properties[f.name] = named(f.name, f.schema())
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}

// named adds to a schema what its name says.
func named(name string, s schema) schema {
	full := maps.Clone(s)
	about := memberWords[name]
	maps.Copy(full, about.form)
	if about.words != "" && full["description"] == nil {
		full["description"] = about.words
	}
	return full
}

func refTo(name string) schema { return schema{"$ref": schemas + name} }

func headerSchemas() schema {
	all := schema{}
	for name, about := range headerWords {
		if about.answers {
			all[name] = schema{"description": about.words, "schema": about.form}
		}
	}
	return all
}

// headersOf are the headers that an answer may have.
func headersOf(p path, status int) []string {
	if p.answers[http.StatusBadRequest] == nil { // a page, not a decision
		return nil
	}
	proxied := p.headers != nil
	nginx := proxied && status == http.StatusForbidden // whatever is not allowed
	ok, denied, outage := status == http.StatusOK, status == http.StatusTooManyRequests || nginx, status == http.StatusServiceUnavailable || nginx
	_, decides := p.answers[http.StatusTooManyRequests]
	names := []string{"Cache-Control"}
	for _, h := range []struct {
		on   bool
		name string
	}{
		{decides && (ok || denied), "RateLimit"}, {decides && (ok || denied), "RateLimit-Policy"},
		{decides && (ok || denied), "X-RateLimit-Limit"}, {decides && (ok || denied), "X-RateLimit-Remaining"},
		{denied, "X-RateLimit-Retry-After"}, {denied || outage, "Retry-After"},
		{proxied && (ok || denied || outage), ReasonHeader}, {nginx, StatusHeader},
		{status == http.StatusUnauthorized, "WWW-Authenticate"},
	} {
		if h.on {
			names = append(names, h.name)
		}
	}
	return names
}

// constants are members that say the same in every answer of a type.
var constants = map[string]schema{
	"Denial":  {"type": answer.QuotaExceeded, "status": http.StatusTooManyRequests, "allowed": false},
	"Outage":  {"type": answer.ReducedCapacity, "status": http.StatusServiceUnavailable, "allowed": false, "reason": "unavailable"},
	"Refusal": {"type": "about:blank"},
}
