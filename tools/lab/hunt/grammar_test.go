//go:build linux

package hunt

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// A template is the sketch of one operator, or of a few, with holes. In the place of a hole comes
//
//	$T $T3   a tensor of the candidate's type, of 3 dimensions
//	$F $I $U $W $B  one of floats, of indices, of bytes, of strings, of booleans; likewise with a number
//	$S $s $b a scalar: int64, float, bool
//	$D       a vector of int64
//	$a $k $n $r $l  an attribute: an axis, a small integer, any, a float, a list of integers
//	$(a|b)   one of them
//
// A number before :: is its operator set.
var hole = regexp.MustCompile(`\$\(([^)]*)\)|\$([TFIUWBSsbDakrln])(\d?)`)

// drawing makes candidates.
type drawing struct {
	rng                    *rand.Rand
	dims                   []int    // to choose sizes from
	wild                   float64  // how often an integer is an extreme one
	kind                   string   // the type of $T
	floats, indices, bytes string   // types of $F, $I, $U
	decls                  []string // of the inputs
	values                 []string
}

var opsets = []string{"11", "13", "17", "18", "21", "23"}

// candidate fills a template. Most sizes are equal, so that tensors fit each other; most values are small, or all would
// be refused.
func (d *drawing) candidate() (c candidate, template string) {
	template = d.oneOf(templates...)
	base := []int{1, 2, 3, 4, 5}[d.rng.IntN(5)]
	d.dims = []int{base, base, base, base, base, base, base, base, 0, 1, 2, 3, 7}
	if d.rng.IntN(3) == 0 {
		d.dims = d.dims[:8]
	} else if d.rng.IntN(4) == 0 {
		d.dims = append(d.dims, 0, 0, 0, 0, 64, 300)
	}
	d.wild = []float64{0, 0.1, 0.5}[d.rng.IntN(3)]
	d.kind = d.oneOf("float", "float", "float", "i64", "i64", "i32", "i32", "u8", "i8", "double", "half", "b", "string",
		"u32", "i16")
	d.floats = d.oneOf("float", "float", "float", "float", "float", "float", "double", "half")
	d.indices, d.bytes = d.oneOf("i64", "i64", "i32"), d.oneOf("u8", "i8")
	d.decls, d.values = nil, nil
	body := hole.ReplaceAllStringFunc(template, func(h string) string { return d.fill(hole.FindStringSubmatch(h)) })
	opset, rest, named := strings.Cut(body, ":: ")
	if named {
		body = rest
	} else {
		opset = d.oneOf(opsets...)
	}
	return candidate{
		fmt.Sprintf("opset %s; %s; %s", opset, strings.Join(d.decls, " "), body), strings.Join(d.values, " "),
	}, template
}

func (d *drawing) oneOf(list ...string) string { return list[d.rng.IntN(len(list))] }

// fill returns what comes in the place of a hole.
func (d *drawing) fill(h []string) string {
	if h[1] != "" || h[2] == "" {
		return d.oneOf(strings.Split(h[1], "|")...)
	}
	rank, _ := strconv.Atoi(h[3])
	if h[3] == "" {
		rank = []int{0, 1, 1, 2, 2, 3, 4, 5}[d.rng.IntN(8)]
	}
	switch h[2] {
	case "T":
		return d.tensor(d.kind, rank)
	case "F":
		return d.tensor(d.floats, rank)
	case "I":
		return d.tensor(d.indices, rank)
	case "U":
		return d.tensor(d.bytes, rank)
	case "W":
		return d.tensor("string", rank)
	case "B":
		return d.tensor("b", rank)
	case "S":
		return d.tensor("i64", 0)
	case "s":
		return d.tensor("float", 0)
	case "b":
		return d.tensor("b", 0)
	case "D":
		return d.tensor("i64", 1)
	case "a":
		return strconv.Itoa(d.rng.IntN(7) - 3)
	case "k":
		if d.rng.Float64() < d.wild {
			return d.integer("i64")
		}
		return strconv.Itoa(d.rng.IntN(5))
	case "n":
		return d.integer("i64")
	case "r":
		return d.float()
	default: // a list
		n := d.rng.IntN(5)
		var list []string
		for range n {
			if d.rng.Float64() < d.wild {
				list = append(list, d.integer("i64"))
			} else {
				list = append(list, strconv.Itoa(d.rng.IntN(4)))
			}
		}
		return "[" + strings.Join(list, ",") + "]"
	}
}

func (d *drawing) float() string {
	return d.oneOf("nan", "inf", "-inf", "3.4e38", "-3.4e38", "1e30", "-1e10", "0.0", "-1.0", "0.5", "1.0", "1e-40",
		"2147483648.0", "9.3e18")
}

func (d *drawing) integer(kind string) string {
	list := []string{
		"0", "1", "-1", "2", "3", "-2", "7", "127", "-128", "255", "65536", "-65536", "2147483647",
		"-2147483648", "1073741824", "4294967296", "1099511627776", "4611686018427387904", "9223372036854775807",
		"-9223372036854775808", "4611686018427387905", "1000000", "100000000",
	}
	if kind == "i32" {
		list = list[:15]
	}
	return list[d.rng.IntN(len(list))]
}

var longText = strings.Repeat("ab ", 50)

// tensor declares an input, or makes a weight, and returns its name.
func (d *drawing) tensor(kind string, rank int) string {
	var shape []string
	n := 1
	for range rank {
		size := d.dims[d.rng.IntN(len(d.dims))]
		if kind == "i64" && rank == 1 && size > 7 {
			size = 2
		}
		if n*size > 200_000 {
			size = 1
		}
		n *= size
		shape = append(shape, strconv.Itoa(size))
	}
	var values []string
	wild := d.wild
	if d.rng.IntN(3) == 0 {
		wild = 0
	}
	for range min(n, 1+d.rng.IntN(12)) {
		v := strconv.Itoa(d.rng.IntN(4))
		if d.rng.Float64() < wild {
			switch kind {
			case "float", "double", "half":
				v = d.float()
			case "string":
				v = `"` + d.oneOf("", "a", "-1", "nan", "99999999999999999999", "é\x00b", "1e400", longText) + `"`
			case "b":
			default:
				v = d.integer(kind)
			}
		} else if kind == "string" {
			v = `"` + d.oneOf("a", "b", "c d", "12", "1.5") + `"`
		} else if kind == "b" {
			v = strconv.Itoa(d.rng.IntN(2))
		}
		values = append(values, v)
	}
	value := fmt.Sprintf("%s<%s>[%s]", kind, strings.Join(shape, ","), strings.Join(values, ","))
	if d.rng.IntN(6) == 0 {
		return value
	}
	name := fmt.Sprintf("x%d", len(d.decls))
	var open []string
	for i, s := range shape {
		if d.rng.IntN(4) > 0 {
			s = fmt.Sprintf("d%d_%d", len(d.decls), i)
		}
		open = append(open, s)
	}
	d.decls = append(d.decls, fmt.Sprintf("%s:%s[%s]", name, kind, strings.Join(open, ",")))
	d.values = append(d.values, name+"="+value)
	return name
}

// templateLines are templates, one a line.
//
//go:embed testdata/templates.txt
var templateLines string

var templates = strings.Split(strings.TrimSpace(templateLines), "\n")
