package render

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
)

// contract is the compiled form of a kind's CUE definition: what each field may be. CUE reports what is wrong with a
// value in terms of its evaluation, and not all at once; a walk over both trees side by side finds every fault, can
// say what is allowed, and costs a fraction. That it accepts and refuses what CUE does is held by a test.
type contract struct {
	// Of a struct: its fields, and what fields with other names may be (nil: there are none).
	fields map[string]*fieldContract
	rest   *contract
	// Of a list: its elements, and how many at most (0: no limit).
	elem    *contract
	maximum int64
	// Of anything else: what is allowed.
	test test
	// anything says that there is no constraint.
	anything bool
	// want says what is allowed, for people.
	want string
}

type fieldContract struct {
	*contract
	name     string
	required bool
}

// test checks one value.
type test func(v any) bool

// compileContract compiles a definition.
func compileContract(v cue.Value) (*contract, error) {
	switch kind := v.IncompleteKind(); kind {
	case cue.StructKind:
		return compileStruct(v)
	case cue.ListKind:
		return compileList(v)
	case cue.TopKind:
		return &contract{anything: true}, nil
	default:
		return compileScalar(v)
	}
}

func compileStruct(v cue.Value) (*contract, error) {
	c := &contract{fields: map[string]*fieldContract{}, want: "an object"}
	if v.Allows(cue.AnyString) {
		c.rest = &contract{anything: true}
		if p := v.LookupPath(cue.MakePath(cue.AnyString)); p.Exists() {
			rest, err := compileContract(p)
			if err != nil {
				return nil, err
			}
			c.rest = rest
		}
	}
	it, err := v.Fields(cue.Optional(true))
	if err != nil {
		return nil, err
	}
	for it.Next() {
		name := it.Selector().Unquoted()
		field, err := compileContract(it.Value())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if w := it.Value().Attribute("want"); w.NumArgs() > 0 {
			field.want, _ = w.String(0)
		}
		c.fields[name] = &fieldContract{contract: field, name: name, required: it.Selector().ConstraintType() == cue.RequiredConstraint}
	}
	return c, nil
}

func compileList(v cue.Value) (*contract, error) {
	elem, err := compileContract(v.LookupPath(cue.MakePath(cue.AnyIndex)))
	if err != nil {
		return nil, err
	}
	c := &contract{elem: elem, want: "a list"}
	// Evaluated, a list has lost its limits.
	op, args := cue.Dereference(v).Expr()
	if op != cue.AndOp {
		return c, nil
	}
	for _, a := range args {
		if callOp, call := a.Expr(); callOp == cue.CallOp && len(call) == 2 {
			if c.maximum, err = call[1].Int64(); err != nil {
				return nil, fmt.Errorf("list constraint %v: %w", a, err)
			}
		}
	}
	return c, nil
}

// compileScalar understands what schemas are made of: kinds, literals, bounds, patterns, and conjunctions and
// disjunctions of them.
func compileScalar(v cue.Value) (*contract, error) {
	t, want, err := compileTest(cue.Dereference(v).Eval())
	if err != nil {
		return nil, err
	}
	// A definition may say in words what it wants.
	if root, path := v.ReferencePath(); root.Exists() {
		if a := root.LookupPath(path).Attribute("want"); a.NumArgs() > 0 {
			want, err = a.String(0)
		}
	}
	return &contract{test: t, want: want}, err
}

func compileTest(v cue.Value) (test, string, error) {
	op, args := v.Expr()
	switch op {
	case cue.OrOp:
		var tests []test
		var wants []string
		for _, a := range args {
			t, w, err := compileTest(a)
			if err != nil {
				return nil, "", err
			}
			tests, wants = append(tests, t), append(wants, w)
		}
		return func(x any) bool {
			for _, t := range tests {
				if t(x) {
					return true
				}
			}
			return false
		}, join(wants, "or"), nil
	case cue.AndOp:
		return compileAnd(args)
	case cue.RegexMatchOp:
		pattern, err := args[0].String()
		if err != nil {
			return nil, "", err
		}
		// The group keeps Go from making a table of each character's continuation: more than 1 MiB for the letters of all languages.
		re, err := regexp.Compile("(" + pattern + ")")
		if err != nil {
			return nil, "", err
		}
		return func(x any) bool { s, ok := x.(string); return ok && re.MatchString(s) }, "text like " + pattern, nil
	case cue.GreaterThanEqualOp, cue.LessThanEqualOp:
		n, err := args[0].Int64()
		if err != nil {
			return nil, "", err
		}
		if op == cue.GreaterThanEqualOp {
			return func(x any) bool { i, ok := x.(int64); return ok && i >= n }, fmt.Sprintf("at least %d", n), nil
		}
		return func(x any) bool { i, ok := x.(int64); return ok && i <= n }, fmt.Sprintf("at most %d", n), nil
	case cue.NoOp:
		return compileBasic(v)
	default:
		return nil, "", fmt.Errorf("constraint %v is of a form that contracts do not use", v)
	}
}

// compileAnd joins the tests of a conjunction, and words two bounds as a range.
func compileAnd(args []cue.Value) (test, string, error) {
	var tests []test
	var wants []string
	var low, high *int64
	for _, a := range args {
		t, w, err := compileTest(a)
		if err != nil {
			return nil, "", err
		}
		tests = append(tests, t)
		op, bound := a.Expr()
		switch op {
		case cue.GreaterThanEqualOp:
			n, _ := bound[0].Int64()
			low = &n
		case cue.LessThanEqualOp:
			n, _ := bound[0].Int64()
			high = &n
		case cue.NoOp:
			// A kind beside a bound or a pattern adds nothing for a reader.
		default:
			wants = append(wants, w)
		}
	}
	switch {
	case low != nil && high != nil:
		wants = append(wants, fmt.Sprintf("a whole number from %d to %d", *low, *high))
	case low != nil:
		wants = append(wants, fmt.Sprintf("a whole number of at least %d", *low))
	case high != nil:
		wants = append(wants, fmt.Sprintf("a whole number of at most %d", *high))
	}
	return func(x any) bool {
		for _, t := range tests {
			if !t(x) {
				return false
			}
		}
		return true
	}, strings.Join(wants, ", "), nil
}

func compileBasic(v cue.Value) (test, string, error) {
	if v.IsConcrete() {
		switch v.Kind() {
		case cue.StringKind:
			s, err := v.String()
			return func(x any) bool { return x == s }, strconv.Quote(s), err
		case cue.NullKind:
			return func(x any) bool { return x == nil }, "null", nil
		}
	}
	switch kind := v.IncompleteKind(); kind {
	case cue.StringKind:
		return func(x any) bool { _, ok := x.(string); return ok }, "text", nil
	case cue.BoolKind:
		return func(x any) bool { _, ok := x.(bool); return ok }, "true or false", nil
	case cue.IntKind:
		return func(x any) bool { _, ok := x.(int64); return ok }, "a whole number", nil
	default:
		return nil, "", fmt.Errorf("kind %v is one that contracts do not use", kind)
	}
}

// join writes a list as people do: a, b or c.
func join(words []string, conjunction string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + conjunction + " " + words[len(words)-1]
}
