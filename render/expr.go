package render

import (
	"fmt"
	"strconv"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// expression writes a JSON-like value as a CUE expression, with sorted keys. CUE's own conversion of Go values is no
// choice here: it takes nil for "anything", and a comparison with _|_ of a field of a list's element does not see that
// the field is there (CUE 0.17.1).
func expression(v any) ast.Expr {
	switch v := v.(type) {
	case nil:
		return ast.NewNull()
	case bool:
		return ast.NewBool(v)
	case string:
		return ast.NewString(v)
	case int64:
		return number(strconv.FormatInt(v, 10), token.INT)
	case int:
		return number(strconv.Itoa(v), token.INT)
	case float64:
		return number(strconv.FormatFloat(v, 'e', -1, 64), token.FLOAT)
	case map[string]any:
		fields := make([]ast.Decl, 0, len(v))
		for _, k := range sortedKeys(v) {
			fields = append(fields, &ast.Field{Label: ast.NewString(k), Value: expression(v[k])})
		}
		return &ast.StructLit{Elts: fields}
	case []any:
		elements := make([]ast.Expr, len(v))
		for i, x := range v {
			elements[i] = expression(x)
		}
		return &ast.ListLit{Elts: elements}
	default:
		panic(fmt.Sprintf("expression of a %T, which is nothing that a JSON document holds", v))
	}
}

func number(text string, kind token.Token) ast.Expr {
	if text[0] == '-' {
		return &ast.UnaryExpr{Op: token.SUB, X: ast.NewLit(kind, text[1:])}
	}
	return ast.NewLit(kind, text)
}
