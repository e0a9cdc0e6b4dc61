package loadgen

import (
	"fmt"
	"math"
	"strings"
)

// The size of a chart and of the room for its plot, in units of the SVG, whose origin is at the top left. The room
// beside and below the plot is for the labels of the axes.
const (
	chartWidth, chartHeight = 640, 240
	plotLeft, plotRight     = 60, 630
	plotTop, plotBottom     = 12, 212
	colours                 = "#1f77b4 #d62728 #2ca02c #ff7f0e #9467bd #8c564b #17becf #7f7f7f"
)

// chart is lines over a common horizontal axis, laid out for the template.
type chart struct {
	// Labels are plain text; the template escapes them.
	Title  string
	Lines  []chartLine
	Across []mark // of the horizontal axis
	Up     []mark // of the vertical axis
}

// mark is a labelled place on an axis.
type mark struct {
	At    float64
	Label string
}

// chartLine is a line of the plot. Points are places of the picture, as the points of a polyline in SVG.
type chartLine struct {
	Label, Colour, Points string
}

// curve is the values of a line, in the units of the axes.
type curve struct {
	label string
	x, y  []float64
}

// newChart lays out curves over a common axis. Without `across` it chooses the marks of the horizontal axis. On a
// logarithmic axis everything below a thousandth is drawn at a thousandth, since zero has no logarithm.
func newChart(title string, logarithmic bool, across []mark, curves ...curve) chart {
	// Only the vertical axis is logarithmic.
	scale := func(v float64) float64 { return v }
	if logarithmic {
		scale = func(v float64) float64 { return math.Log10(max(v, 1e-3)) }
	}
	left, right := math.Inf(1), math.Inf(-1)
	bottom, top := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		for i := range c.x {
			left, right = min(left, c.x[i]), max(right, c.x[i])
			bottom, top = min(bottom, scale(c.y[i])), max(top, scale(c.y[i]))
		}
	}
	if left > right { // there is nothing to draw
		left, bottom, top = 0, 0, 0
	}
	// A single point would divide by a width of zero.
	right = max(right, left+1)
	var up []float64
	if logarithmic {
		// The axis ends at whole powers of ten, the upper one above every value.
		bottom, top = math.Floor(bottom), math.Floor(top)+1
		for v := bottom; v <= top; v++ {
			up = append(up, math.Pow(10, v))
		}
	} else {
		// A linear axis begins at 0 and has about four steps; one that begins elsewhere would exaggerate small differences.
		step := niceStep(top / 4)
		bottom, top = 0, step*max(math.Ceil(top/step), 1)
		for v := 0.0; v <= top+step/2; v += step {
			up = append(up, v)
		}
	}
	x := func(v float64) float64 { return plotLeft + (v-left)/(right-left)*(plotRight-plotLeft) }
	y := func(v float64) float64 { return plotBottom - (scale(v)-bottom)/(top-bottom)*(plotBottom-plotTop) }
	c := chart{Title: title}
	for _, v := range up {
		c.Up = append(c.Up, mark{y(v), fmt.Sprintf("%.6g", v)})
	}
	if across == nil {
		step := niceStep((right - left) / 6)
		for v := math.Ceil(left/step) * step; v <= right; v += step {
			// Six digits keep the noise of repeated addition out of the label.
			across = append(across, mark{v, fmt.Sprintf("%.6g", v)})
		}
	}
	for _, m := range across {
		c.Across = append(c.Across, mark{x(m.At), m.Label})
	}
	palette := strings.Fields(colours)
	// More curves than colours begin with the first colour again.
	for i, of := range curves {
		var points strings.Builder
		for k := range of.x {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(of.x[k]), y(of.y[k]))
		}
		c.Lines = append(c.Lines, chartLine{of.label, palette[i%len(palette)], points.String()})
	}
	return c
}

// niceStep returns 1, 2 or 5 times a power of ten, at least v; 1 for what is not above 0.
func niceStep(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= v {
			return factor * power
		}
	}
	return 10 * power
}
