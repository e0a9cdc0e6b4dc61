package structure_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/weftserve/weft/runtime/tensor"
)

// recipe makes random statements: of one of its forms, a template of an expression that makes so many values.
type recipe struct {
	weight  float64
	of      string // the value that it is made of, see generator.value; "-": none
	outputs int
	forms   []*template.Template
}

// errNone is the error of a form for which the graph has no value, or another operator set.
var errNone = errors.New("it does not fit here")

// readRecipes reads testdata/recipes.txt.
func (g *generator) readRecipes(t testing.TB) {
	t.Helper()
	raw, err := os.ReadFile("testdata/recipes.txt")
	if err != nil {
		t.Fatal(err)
	}
	base := template.New("").Delims("«", "»").Funcs(g.functions())
	for line := range strings.Lines(string(raw)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			var r recipe
			if _, err := fmt.Sscan(line, &r.weight, &r.of, &r.outputs); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			g.recipes = append(g.recipes, r)
		default:
			r := &g.recipes[len(g.recipes)-1]
			form, err := template.Must(base.Clone()).Parse(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			r.forms = append(r.forms, form)
		}
	}
}

// statement tries one recipe.
func (g *generator) statement() bool {
	total := 0.0
	for _, r := range g.recipes {
		total += r.weight
	}
	at, i := g.rng.Float64()*total, 0
	for ; at >= g.recipes[i].weight; i++ {
		at -= g.recipes[i].weight
	}
	r := g.recipes[i]
	var of genValue
	var err error
	if r.of != "-" {
		of, err = g.value(r.of)
	}
	var text strings.Builder
	if err == nil {
		err = r.forms[g.rng.IntN(len(r.forms))].Execute(&text, of)
	}
	if err != nil && !errors.Is(err, errNone) {
		panic(err)
	}
	return err == nil && g.add(text.String(), r.outputs)
}

// functions are those of templates.
func (g *generator) functions() template.FuncMap {
	return template.FuncMap{
		"value": g.value, "int": g.int, "one": g.one, "axis": g.axis, "at": at, "axes": g.axes, "parts": g.parts,
		"partner": g.partner, "inner": g.inner, "each": g.each, "perm": func(v genValue) string { return joined(g.rng.Perm(v.rank())) },
		"add": func(a, b int) int { return a + b }, "sub": func(a, b int) int { return a - b }, "rank": genValue.rank,
		"since":  func(opset int) (string, error) { return "", fits(g.opset >= opset) },
		"before": func(opset int) (string, error) { return "", fits(g.opset < opset) },
		"ranked": func(types string, v genValue) (genValue, error) { return g.ranked(types, v.rank()) },
		"lower":  func(v genValue) (genValue, error) { return g.ranked("f", v.rank()-1) },
		"less":   func(v genValue) genValue { return genValue{dims: v.dims[1:]} },
		"like":   func(v genValue) (genValue, error) { return g.pick(0, 4, v.dtype) },
		"maybe": func(spec string) any { // a value, or nothing
			if v, err := g.value(spec); err == nil && g.rng.IntN(2) == 0 {
				return v
			}
			return nil
		},
		"first": func(v genValue) int64 { return v.dims[max(0, v.rank()-2)] },
		"from":  func(v genValue, axis int) string { return joined(v.dims[(axis+v.rank())%v.rank():]) },
		"single": func(v genValue) (int, error) {
			i := slices.Index(v.dims, 1)
			return i, fits(i >= 0 && v.dims3[i] == 1)
		},
		"but":     func(n int, base, other string) string { return g.but(slices.Repeat([]string{base}, n), other) },
		"opened":  func(v genValue) string { return g.but(strings.Split(joined(v.dims), ","), "-1") },
		"spatial": func(v genValue, sizes string) string { return g.each(v.rank()-2, sizes) },
		"wider": func(v genValue) string { // a shape to which it can be expanded
			dims := slices.Clone(v.dims)
			for i := range dims {
				if g.rng.IntN(2) == 0 || dims[i] != v.dims3[i] {
					dims[i] = 1
				}
			}
			if g.rng.IntN(2) == 0 {
				dims = append(tensor.Shape{int64(g.rng.IntN(3) + 1)}, dims...)
			}
			return joined(dims)
		},
		// The results of casts of NaN and of numbers out of range are not defined.
		"safe": func(v genValue, most string) string {
			return fmt.Sprintf("Where(IsNaN(%v), 0.0, Clip(%v, -%s, %s))", v, v, most, most)
		},
		"reduction": func() string {
			return g.one("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd " +
				"ReduceSum ReduceSumSquare")
		},
		"big":       func() string { return g.one("536870912 1073741823 65536 3 0") },
		"nonzero":   func(n string) string { return strings.Replace(n, "0", "2", 1) },
		"recurrent": g.recurrent,
		"turns": func() string { // whether a loop goes on
			return g.one("Identity(c) Identity(c) Identity(c) Less(ReduceMax{keepdims=0}(s),3.0) Less(i,1)")
		},
		"trips": func() string {
			if n, err := g.value("i0-0"); err == nil && g.rng.IntN(2) == 0 {
				return "Max(Min(" + n.name + ", 4), 1)"
			}
			return g.one("1 2 3")
		},
		"tree": func() string {
			return `nodes_falsenodeids=[2,0,0],nodes_featureids=[0,0,0],nodes_modes=["BRANCH_LEQ","LEAF","LEAF"],` +
				"nodes_nodeids=[0,1,2],nodes_treeids=[0,0,0],nodes_truenodeids=[1,0,0],nodes_values=[0.3,0.0,0.0]," +
				"nodes_hitrates=[1.0,1.0,1.0],"
		},
	}
}

func fits(it bool) error {
	if !it {
		return errNone
	}
	return nil
}

// pick returns a random value of one of the types and so many dimensions; later ones are likelier.
func (g *generator) pick(least, most int, types ...tensor.DType) (genValue, error) {
	var fit []genValue
	for _, v := range g.pool {
		if slices.Contains(types, v.dtype) && v.rank() >= least && v.rank() <= most && extent(v.dims) > 0 {
			fit = append(fit, v)
		}
	}
	if len(fit) == 0 {
		return genValue{}, errNone
	}
	return fit[max(g.rng.IntN(len(fit)), g.rng.IntN(len(fit)))], nil
}

// value picks one by letters of its types and its numbers of dimensions, as "ib0-4". With "f" it is one of floats, or
// rarely of another type: ONNX Runtime refuses what it does not compute.
func (g *generator) value(spec string) (genValue, error) {
	types, ranks := spec[:len(spec)-3], spec[len(spec)-3:]
	return g.typed(types, int(ranks[0]-'0'), int(ranks[2]-'0'))
}

// ranked picks a value of so many dimensions.
func (g *generator) ranked(types string, rank int) (genValue, error) {
	return g.typed(types, rank, rank)
}

func (g *generator) typed(types string, least, most int) (genValue, error) {
	if types == "f" && g.rng.IntN(12) == 0 {
		if v, err := g.typed("sibun", least, most); err == nil {
			return v, nil
		}
	}
	var all []tensor.DType
	for _, letter := range types {
		all = append(all, map[rune]tensor.DType{
			'f': tensor.Float32, 'F': tensor.Float32, 'i': tensor.Int64, 'b': tensor.Bool, 'u': tensor.Uint8, 'n': tensor.Int32,
			's': tensor.String,
		}[letter])
	}
	return g.pick(least, most, all...)
}

func (g *generator) int(n int) (int, error) {
	if n <= 0 {
		return 0, errNone
	}
	return g.rng.IntN(n), nil
}

// one returns one of the words.
func (g *generator) one(words string) string {
	list := strings.Fields(words)
	return list[g.rng.IntN(len(list))]
}

// each returns a list of so many of the words.
func (g *generator) each(n int, words string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = g.one(words)
	}
	return strings.Join(list, ",")
}

// but returns a list with another in the place of one.
func (g *generator) but(list []string, other string) string {
	list[g.rng.IntN(len(list))] = other
	return strings.Join(list, ",")
}

// axis is a random dimension of v, sometimes counted from the end.
func (g *generator) axis(v genValue) int {
	if v.rank() == 0 {
		return 0
	}
	a := g.rng.IntN(v.rank())
	if g.rng.IntN(3) == 0 {
		a -= v.rank()
	}
	return a
}

// at is the size of a dimension with 2 rows.
func at(v genValue, axis int) int { return int(v.dims[(axis+v.rank())%v.rank()]) }

func joined[T any](list []T) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}

// axes writes axes as an attribute or an input, as the operator set has it.
func (g *generator) axes(op string, since int, list any, more string, v genValue) string {
	if g.opset < since {
		return fmt.Sprintf("%s{axes=[%v]%s}(%v)", op, list, more, v)
	}
	return fmt.Sprintf("%s{%s}(%v, [%v])", op, strings.TrimPrefix(more, ","), v, list)
}

// partner is a second operand: another value, a scalar, or weights that fit.
func (g *generator) partner(v genValue) string {
	switch w, err := g.value("f0-6"); {
	case err == nil && g.rng.IntN(5) < 3:
		return w.name
	case g.rng.IntN(2) == 0 || v.rank() == 0:
		return g.one("2.0 -0.5 0.0")
	default:
		dims := slices.Clone(v.dims[g.rng.IntN(v.rank()):])
		for i := range dims {
			if g.rng.IntN(3) == 0 {
				dims[i] = 1
			}
		}
		return "<" + joined(dims) + ">"
	}
}

// parts computes a shape of the dimensions of a value one by one, in some order.
func (g *generator) parts(w genValue) string {
	var parts []string
	order := g.rng.Perm(w.rank())
	if g.rng.IntN(2) == 0 {
		slices.Sort(order)
	}
	for i := 0; i < len(order); i++ {
		part := fmt.Sprintf("Gather(Shape(%v), [%d])", w, order[i])
		size, fixed := w.dims[order[i]], w.dims[order[i]] == w.dims3[order[i]]
		switch kind := g.rng.IntN(6); {
		case kind == 0 && i+1 < len(order):
			i++
			part = fmt.Sprintf("Mul(%s, Gather(Shape(%v), [%d]))", part, w, order[i])
		case kind == 1:
			parts = append(parts, "[1]")
		case kind == 2 && size == 4 && fixed:
			part = "[2,2]"
		case kind == 3 && fixed:
			part = "[" + strconv.FormatInt(size, 10) + "]"
		}
		parts = append(parts, part)
	}
	if g.rng.IntN(4) == 0 {
		parts[g.rng.IntN(len(parts))] = "[-1]"
	}
	return strings.Join(parts, ", ")
}

// recurrent is a network whose weights have so many rows for each direction.
func (g *generator) recurrent(op string, rows int, v genValue) string {
	direction, d := "forward", 1
	if g.rng.IntN(3) == 0 {
		direction, d = "bidirectional", 2
	}
	lengths, state := "_", "_"
	if l, err := g.value("n1-1"); err == nil && g.rng.IntN(2) == 0 {
		lengths = fmt.Sprintf("Cast{to=6}(Equal(%v, %v))", l, l)
	}
	if s, err := g.value("f3-3"); err == nil && g.rng.IntN(3) == 0 {
		state = s.name
	}
	return fmt.Sprintf("%s{hidden_size=2,direction=%q}(%v, <%d,%d,%d>, <%d,%d,2>, _, %s, %s)", op, direction, v, d, rows,
		v.dims[2], d, rows, lengths, state)
}

// inner is something done, within a graph of its own, to a value of as many dimensions as v.
func (g *generator) inner(of any, v genValue) string {
	name := fmt.Sprint(of)
	axis := g.rng.IntN(max(1, v.rank()))
	other := name
	if w, err := g.ranked("f", v.rank()); err == nil {
		other = w.name
	}
	forms := strings.Split("Relu($)|Neg($)|Softmax{axis=@}($)|Add($, &)|Mul(&, $)|CumSum($, @)|Concat{axis=@}($, &)|"+
		"Transpose($)|Add($, ReduceMean{axes=[@]}($))|Slice($, [0], [1], [@])", "|")
	return strings.NewReplacer("$", name, "&", other, "@", strconv.Itoa(axis)).Replace(forms[g.rng.IntN(len(forms))])
}
