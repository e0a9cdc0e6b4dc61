package structure_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftserve/weft/runtime/tensor"
)

func quantizeRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	safe := fmt.Sprintf("Where(IsNaN(%s), 0.0, Clip(%s, -9.0, 9.0))", v.name, v.name)
	a := g.axis(v)
	n := int(at(v, a))
	scales := strings.TrimSuffix(strings.Repeat("0.5,", n), ",")
	if g.rng.IntN(4) == 0 {
		return "DynamicQuantizeLinear(" + v.name + ")", 3
	}
	domain := g.oneOf("", "ms.")
	return g.oneOf(domain+"QuantizeLinear("+safe+", 0.1, u8(3))",
		fmt.Sprintf("QuantizeLinear{axis=%d}(%s, f[%s])", a, safe, scales)), 1
}

func dequantizeRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 4, tensor.Uint8)
	if !ok {
		return "", 0
	}
	a := g.axis(v)
	scales := strings.TrimSuffix(strings.Repeat("0.5,0.25,0.75,1.5,", int(at(v, a))/4+1), ",")
	scales = strings.Join(strings.Split(scales, ",")[:at(v, a)], ",")
	domain := g.oneOf("", "ms.")
	return g.oneOf(domain+"DequantizeLinear("+v.name+", 0.1, u8(3))",
		fmt.Sprintf("DequantizeLinear{axis=%d}(%s, f[%s])", a, v.name, scales)), 1
}

func quantizedRecipe(g *generator) (string, int) {
	v, ok := g.pick(1, 4, tensor.Uint8)
	if !ok {
		return "", 0
	}
	w, _ := g.pick(1, 4, tensor.Uint8)
	last := v.dims[v.rank()-1]
	k := weights(last, 3)
	list := []string{
		"MatMulInteger(" + v.name + ", i8" + k + ", u8(3))", "MatMulInteger(" + v.name + ", " + w.name + ")",
		"QLinearMatMul(" + v.name + ", 0.1, u8(3), i8" + k + ", 0.1, i8(0), 0.1, u8(9))",
		"QLinearMatMul(" + v.name + ", 0.1, u8(3), " + w.name + ", 0.1, u8(0), 0.1, u8(9))",
		"ms.MatMulIntegerToFloat(" + v.name + ", u8" + k + ", 0.1, 0.2, u8(3), u8(1), <3>)",
		g.oneOf("ms.QLinearAdd", "ms.QLinearMul") + "(" + v.name + ", 0.1, u8(3), " + w.name +
			", 0.1, u8(0), 0.2, u8(9))",
		g.oneOf("ms.QLinearSigmoid", "ms.QLinearLeakyRelu") + "(" + v.name + ", 0.1, u8(3), 0.2, u8(9))",
	}
	if v.rank() >= 3 {
		ones := strings.Repeat(",1", v.rank()-2)
		list = append(list, fmt.Sprintf("ConvInteger(%s, i8<2,%d%s>, u8(3))", v.name, v.dims[1], ones),
			fmt.Sprintf("QLinearConv(%s, 0.1, u8(3), i8<3,%d%s>, 0.1, i8(0), 0.1, u8(9))", v.name, v.dims[1], ones),
			"ms.QLinearGlobalAveragePool("+v.name+", 0.1, u8(3), 0.2, u8(9))")
	}
	return g.oneOf(list...), 1
}

func contribRecipe(g *generator) (string, int) {
	v, ok := g.float(2, 3)
	if !ok {
		return "", 0
	}
	last := weights(v.dims[v.rank()-1])
	w, _ := g.float(v.rank(), v.rank())
	return g.oneOf(fmt.Sprintf("ms.BiasGelu(%s, %s)", v.name, last), fmt.Sprintf("ms.FastGelu(%s, %s)", v.name, last),
		fmt.Sprintf("ms.SkipLayerNormalization(%s, %s, %s)", v.name, w.name, last),
		fmt.Sprintf("ms.SkipSimplifiedLayerNormalization(%s, %s, %s)", v.name, w.name, last)), 1
}

func attentionRecipe(g *generator) (string, int) {
	if i, ok := g.pick(2, 2, tensor.Int32); ok && g.rng.IntN(2) == 0 {
		return fmt.Sprintf("ms.EmbedLayerNormalization(%s, _, <5,4>, <9,4>, _, <4>, <4>)", i.name), 2
	}
	v, ok := g.float(3, 3)
	if !ok {
		return "", 0
	}
	mask := "_"
	if m, ok := g.pick(1, 3, tensor.Int32); ok {
		mask = m.name
	}
	return fmt.Sprintf("ms.Attention{num_heads=2,unidirectional=%d}(%s, %s, <12>, %s)", g.rng.IntN(2), v.name,
		weights(v.dims[2], 12), mask), 1
}

func classicRecipe(g *generator) (string, int) {
	if i, ok := g.pick(1, 3, tensor.Int64); ok && g.rng.IntN(2) == 0 {
		return g.oneOf("ml.LabelEncoder{keys_int64s=[0,1,2],values_floats=[5.0,6.0,7.0],default_float=0.0}("+i.name+")",
			"ml.OneHotEncoder{cats_int64s=[0,1,2]}("+i.name+")",
			`ml.CategoryMapper{cats_int64s=[0,1],cats_strings=["a","b"],default_string="c"}(`+i.name+")",
			`TfIdfVectorizer{mode="TF",min_gram_length=1,max_gram_length=1,max_skip_count=0,ngram_counts=[0],ngram_indexes=[0,1,2],pool_int64s=[0,1,2]}(`+i.name+")"), 1
	}
	v, ok := g.float(1, 3)
	if !ok {
		return "", 0
	}
	n := int(v.dims[v.rank()-1])
	list := strings.TrimSuffix(strings.Repeat("0.5,", n), ",")
	tree := "nodes_falsenodeids=[2,0,0],nodes_featureids=[0,0,0]," +
		"nodes_modes=[\"BRANCH_LEQ\",\"LEAF\",\"LEAF\"],nodes_nodeids=[0,1,2]," +
		"nodes_treeids=[0,0,0],nodes_truenodeids=[1,0,0],nodes_values=[0.3,0.0,0.0],nodes_hitrates=[1.0,1.0,1.0],"
	switch g.rng.IntN(3) {
	case 0:
		return g.oneOf("ml.LinearClassifier{coefficients=["+list+","+list+
			"],intercepts=[0.1,0.2],classlabels_ints=[0,1],post_transform=\"SOFTMAX\"}("+v.name+")",
			"ml.SVMClassifier{coefficients=["+list+","+list+
				"],kernel_type=\"LINEAR\",kernel_params=[0.0,0.0,3.0],rho=[0.2,0.1],classlabels_ints=[0,1]}("+v.name+
				")",
			"ml.TreeEnsembleClassifier{"+tree+
				"class_ids=[0,1],class_nodeids=[1,2],class_treeids=[0,0],class_weights=[1.0,1.0],classlabels_int64s=[0,1]}("+v.name+")"), 2
	default:
		return g.oneOf("ml.Scaler{offset=["+list+"],scale=["+list+"]}("+v.name+")",
			"ml.Scaler{offset=[0.5],scale=[0.1]}("+v.name+")",
			"ml.Imputer{imputed_value_floats=["+list+"],replaced_value_float=0.0}("+v.name+")",
			`ml.Normalizer{norm="`+g.oneOf("L1", "L2", "MAX")+`"}(`+v.name+")",
			"ml.Binarizer{threshold=0.5}("+v.name+")",
			"ml.LinearRegressor{coefficients=["+list+"],intercepts=[0.1]}("+v.name+")",
			"ml.SVMRegressor{coefficients=["+list+
				"],kernel_type=\"LINEAR\",kernel_params=[0.0,0.0,3.0],n_supports=0,rho=[0.2]}("+v.name+")",
			"ml.TreeEnsembleRegressor{n_targets=1,"+tree+
				"target_ids=[0,0],target_nodeids=[1,2],target_treeids=[0,0],target_weights=[1.5,2.5]}("+v.name+")",
			"ml.ArrayFeatureExtractor("+v.name+", [0])"), 1
	}
}

func compressRecipe(g *generator) (string, int) {
	v, ok := g.float(1, 4)
	if !ok {
		return "", 0
	}
	if slices.Contains([]int{0, 1}, g.rng.IntN(4)) {
		return fmt.Sprintf("Compress{axis=%d}(%s, b[1,0,1])", g.axis(v), v.name), 1
	}
	return g.oneOf("NonZero("+v.name+")", "Unique("+v.name+")", "Compress("+v.name+", b[1,1])", "EyeLike("+v.name+")",
		"RandomNormalLike("+v.name+")"), 1
}
