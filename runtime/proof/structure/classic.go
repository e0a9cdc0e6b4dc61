package structure

import (
	"slices"

	"github.com/weftserve/weft/proto/gen/onnx"
)

// Operators of classical machine learning: [rows, features].
var classicOperators = tableOf(
	each(classic, operator{apply: featurewise}, "Scaler", "Imputer", "Normalizer"),
	each(classic, operator{apply: unary}, "LabelEncoder", "Binarizer", "CategoryMapper"),
	each(classic, operator{apply: oneHotEncoder}, "OneHotEncoder"),
	each(classic, operator{apply: classifier}, "LinearClassifier", "TreeEnsembleClassifier", "SVMClassifier"),
	each(classic, operator{apply: regressor}, "LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor"),
	each(classic, operator{apply: featureExtractor}, "ArrayFeatureExtractor"),
	each("", operator{apply: regressor}, "TfIdfVectorizer"),
)

// table returns the first input, which must have its rows along dimension 0 of two.
func (c *call) table() *value {
	v := c.data(0)
	c.uniform(1)
	if v.rank() != 2 || v.kind == rows && v.axis != 0 {
		c.no("%s does not have its rows along dimension 0 of two", c.name(0))
	}
	return v
}

func featurewise(c *call) []*value {
	v := c.table()
	return same(v)
}

func oneHotEncoder(c *call) []*value {
	v := c.data(0)
	categories := c.fresh()
	for _, name := range []string{"cats_int64s", "cats_strings"} {
		a := c.attrs[name]
		if n := len(a.GetInts()) + len(a.GetStrings()); n > 0 && a.GetType() != onnx.AttributeProto_UNDEFINED {
			categories = size(int64(n))
		}
	}
	return []*value{like(v, append(slices.Clone(v.dims), categories), v.axis)}
}

func classifier(c *call) []*value {
	v := c.table()
	return []*value{like(v, v.dims[:1], 0), like(v, []dim{v.dims[0], c.fresh()}, 0)}
}

// regressor makes so many numbers of each row.
func regressor(c *call) []*value {
	v := c.table()
	return []*value{like(v, []dim{v.dims[0], c.fresh()}, 0)}
}

func featureExtractor(c *call) []*value {
	v := c.data(0)
	c.uniform(1)
	if v.rank() < 2 || v.holds(v.rank()-1) {
		return c.no("it picks entries of the last dimension, which may hold rows")
	}
	return []*value{v.with(v.rank()-1, c.fresh())}
}
