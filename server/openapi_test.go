package server

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-limiter/sluice/metrics/hot"
)

// An answer is what a call of the admin API brought.
type answer struct {
	status int
	header http.Header
	body   string
}

// call asks the admin listener; headers are "Name: value". Every answer is held
// against the description.
func (r *running) call(method, path, body string, headers ...string) answer {
	r.t.Helper()
	addr := strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(r.Addr("admin"))
	q, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			q.Host = value
		} else {
			q.Header.Set(name, value)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{res.StatusCode, res.Header, string(data)}
	for _, problem := range described(r.t).check(method, path, a) {
		r.t.Errorf("%s %s: %s: %.300s", method, path, problem, a.body)
	}
	return a
}

// A document is as much of an OpenAPI document as describes this API.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	Parameters []struct {
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Headers map[string]any `json:"headers"`
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional json.RawMessage    `json:"additionalProperties"`
	Items      *schema            `json:"items"`
	Enum       []string           `json:"enum"`
}

func described(t testing.TB) *document {
	t.Helper()
	d := &document{}
	if err := json.Unmarshal(openAPIDocument, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// operation returns the path of the document that a path is an instance of, and
// what is there.
func (d *document) operation(method, path string) (template string, op operation, ok bool) {
	path, _, _ = strings.Cut(path, "?")
	if dir, id, found := strings.Cut(path, "/v1/rules/"); found && dir == "" && id != "" {
		path = "/v1/rules/{id}"
	}
	op, ok = d.Paths[path][strings.ToLower(method)]
	return path, op, ok
}

// check returns what an answer has that the document does not.
func (d *document) check(method, path string, a answer) (problems []string) {
	_, op, ok := d.operation(method, path)
	if !ok {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			problems = append(problems, "there is no such operation")
		}
		return problems
	}
	response, ok := op.Responses[fmt.Sprint(a.status)]
	if !ok {
		return []string{fmt.Sprintf("status %d is not described", a.status)}
	}
	for _, name := range []string{"ETag", "Location", "WWW-Authenticate"} {
		if _, ok := response.Headers[name]; a.header.Get(name) != "" && !ok {
			problems = append(problems, "header "+name+" is not described")
		}
	}
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, ok := response.Content[kind]
	if !ok {
		return append(problems, fmt.Sprintf("content of type %q is not described", kind))
	}
	if kind != "application/json" {
		return problems
	}
	var value any
	if err := json.Unmarshal([]byte(a.body), &value); err != nil {
		return append(problems, err.Error())
	}
	return append(problems, d.validate(content.Schema, value, "body")...)
}

func (d *document) resolve(s *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.Components.Schemas[name]
	}
	return s
}

// validate returns where a value differs from a schema.
func (d *document) validate(s *schema, value any, at string) (problems []string) {
	if s = d.resolve(s); s == nil {
		return []string{at + ": the schema is not there"}
	}
	fail := func(format string, args ...any) { problems = append(problems, at+": "+fmt.Sprintf(format, args...)) }
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" {
			fail("an object, want %s", s.Type)
		}
		problems = append(problems, d.validateObject(s, v, at)...)
	case []any:
		if s.Type != "array" {
			fail("a list, want %s", s.Type)
			return problems
		}
		for i, item := range v {
			problems = append(problems, d.validate(s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		if s.Type != "string" || len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			fail("text %q, want %s %q", v, s.Type, s.Enum)
		}
	case float64:
		if s.Type != "integer" || v != float64(int64(v)) {
			fail("%v, want %s", v, s.Type)
		}
	case bool:
		if s.Type != "boolean" {
			fail("%v, want %s", v, s.Type)
		}
	default:
		fail("%v, want %s", v, s.Type)
	}
	return problems
}

func (d *document) validateObject(s *schema, v map[string]any, at string) (problems []string) {
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			problems = append(problems, at+": "+name+" is missing")
		}
	}
	for name, field := range v {
		property := s.Properties[name]
		if property == nil && s.Additional != nil && string(s.Additional) != "false" {
			property = &schema{}
			if err := json.Unmarshal(s.Additional, property); err != nil {
				return append(problems, err.Error())
			}
		}
		switch {
		case property != nil:
			problems = append(problems, d.validate(property, field, at+"."+name)...)
		case s.Properties != nil || s.Additional != nil: // an object of which anything is known
			problems = append(problems, at+": "+name+" is not described")
		}
	}
	return problems
}

// Every route and every parameter is described, and no other.
func TestDescribedRoutes(t *testing.T) {
	d := described(t)
	var want, got []string
	for _, r := range adminRoutes() {
		want = append(want, fmt.Sprintf("%s %s %q", r.method, r.path, slices.Sorted(slices.Values(r.query))))
	}
	for path, operations := range d.Paths {
		for method, op := range operations {
			query := []string{}
			for _, p := range op.Parameters {
				if p.In == "query" {
					query = append(query, p.Name)
				}
				if p.In == "path" != strings.Contains(path, "{"+p.Name+"}") {
					t.Errorf("%s: parameter %s is in the %s", path, p.Name, p.In)
				}
			}
			slices.Sort(query)
			got = append(got, fmt.Sprintf("%s %s %q", strings.ToUpper(method), path, query))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-code +document):\n%s", diff)
	}
}

// Every route of the API has a place in the guide.
func TestGuideTellsOfRoutes(t *testing.T) {
	guide, err := os.ReadFile("../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range adminRoutes() {
		if name := r.method + " " + r.path; strings.HasPrefix(r.path, "/v1/") && !strings.Contains(string(guide), "`"+name+"`") {
			t.Errorf("docs/admin.md does not tell of %s", name)
		}
	}
}

// Every field of an answer and of a body is described, and no other.
func TestDescribedFields(t *testing.T) {
	d := described(t)
	types := map[string]any{
		"Error": errorAnswer{}, "Health": status{}, "Top": topAnswer{}, "TopLimit": hot.Limit{}, "TopKey": hot.Key{},
		"Rule": ruleAnswer{}, "RuleList": listAnswer{}, "RulePut": ruleBody{}, "RulePutByID": rateBody{}, "RuleWrite": writeAnswer{},
		"Explanation": explainAnswer{}, "ExplainedLimit": explainedLimit{}, "ExplainedRule": explainedRule{},
		"Usage": usageAnswer{}, "UsedLimit": usedLimit{}, "Reset": resetBody{}, "ResetDone": resetAnswer{}, "ResetKey": resetKey{},
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(types)), slices.Sorted(maps.Keys(d.Components.Schemas))); diff != "" {
		t.Errorf("schemas (-code +document):\n%s", diff)
	}
	for name, value := range types {
		s := d.Components.Schemas[name]
		if s == nil {
			continue
		}
		fields, required := jsonFields(reflect.TypeOf(value))
		if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(s.Properties))); diff != "" {
			t.Errorf("%s: fields (-code +document):\n%s", name, diff)
		}
		if isBody := name == "RulePut" || name == "RulePutByID" || name == "Reset"; isBody {
			continue // what may be left out is a matter of the handlers
		}
		if diff := cmp.Diff(required, slices.Sorted(slices.Values(s.Required))); diff != "" {
			t.Errorf("%s: fields always there (-code +document):\n%s", name, diff)
		}
	}
}

// jsonFields returns the fields that a type has in JSON, and those always there.
func jsonFields(t reflect.Type) (all, required []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			inner, always := jsonFields(f.Type)
			all, required = append(all, inner...), append(required, always...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
		if options != "omitempty" {
			required = append(required, name)
		}
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}

// The checker notices what differs.
func TestDescriptionNotices(t *testing.T) {
	d := described(t)
	jsonAnswer := func(status int, body string) answer {
		return answer{status, http.Header{"Content-Type": {"application/json"}}, body}
	}
	for want, a := range map[string]answer{
		"":                            jsonAnswer(200, `{"attributes": {"a": "b"}, "limits": [{"limit": "x", "met": true}]}`),
		"body.limits: text":           jsonAnswer(200, `{"attributes": {}, "limits": "x"}`),
		"body: limits is missing":     jsonAnswer(200, `{"attributes": {}}`),
		"body: other is not":          jsonAnswer(200, `{"attributes": {}, "limits": [], "other": 1}`),
		"body.limits[0]: met is":      jsonAnswer(200, `{"attributes": {}, "limits": [{"limit": "x"}]}`),
		"body.attributes.a: true":     jsonAnswer(200, `{"attributes": {"a": true}, "limits": []}`),
		"status 418 is not described": jsonAnswer(418, `{"error": "x"}`),
		"content of type":             {200, http.Header{"Content-Type": {"text/html"}}, ""},
	} {
		problems := d.check("GET", "/v1/explain?tenant=a", a)
		if want == "" != (len(problems) == 0) || want != "" && !strings.HasPrefix(problems[0], want) {
			t.Errorf("%s: problems %q, want %q", a.body, problems, want)
		}
	}
}
