package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// series is one set of values: a colour in the chart and a line in its legend. The charts are drawn here because a
// plotting library would bring fonts and rasterizers of several megabytes, for two kinds of chart.
type series struct {
	Name   string
	Values []float64
}

// bars draws a group of bars for each label, in each a bar of every series.
func bars(title, unit string, labels []string, all []series) string {
	c := newChart(title, unit, all)
	c.axis()
	group := c.width / float64(len(labels))
	bar := group * 0.85 / float64(len(all))
	for j, label := range labels {
		left := c.left + float64(j)*group
		c.text(left+group/2, c.bottom()+18, "middle", label)
		for i, s := range all {
			x := left + group*0.075 + float64(i)*bar
			c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s: %.2f</title></rect>`,
				x, c.y(s.Values[j]), bar*0.9, c.bottom()-c.y(s.Values[j]), colour(i), escape(s.Name), escape(label),
				s.Values[j])
		}
	}
	return c.end()
}

// lines draws a line for each series over the same values of x, which ascend.
func lines(title, unit, xUnit string, x []float64, all []series) string {
	c := newChart(title, unit, all)
	c.axis()
	span := x[len(x)-1] - x[0]
	place := func(v float64) float64 { return c.left + c.width*(v-x[0])/span }
	for _, v := range x {
		c.text(place(v), c.bottom()+18, "middle", fmt.Sprintf("%g", v))
	}
	c.text(c.left+c.width/2, c.bottom()+38, "middle", xUnit)
	for i, s := range slices.Backward(all) { // the first on top
		thickness := "1.5"
		if i == 0 {
			thickness = "3"
		}
		var points []string
		for j, v := range s.Values {
			points = append(points, fmt.Sprintf("%.1f,%.1f", place(x[j]), c.y(v)))
		}
		c.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"><title>%s</title></polyline>`,
			strings.Join(points, " "), colour(i), thickness, escape(s.Name))
	}
	return c.end()
}

// colours are told apart by most eyes; the first is for the subject of the chart.
var colours = []string{
	"#d62728", "#1f77b4", "#17becf", "#7f7f7f", "#2ca02c", "#9467bd", "#ff7f0e", "#c49c94", "#8c564b", "#bcbd22",
	"#e377c2", "#aec7e8", "#98df8a", "#ffbb78",
}

func colour(i int) string { return colours[i%len(colours)] }

// chart is a drawing in the making. Lengths are in pixels.
type chart struct {
	out                      strings.Builder
	left, top, width, height float64 // of the area within the axes
	most                     float64 // the value at its top
	all                      []series
}

func newChart(title, unit string, all []series) *chart {
	c := &chart{left: 50, top: 52, width: 900, height: 320, all: all}
	for _, s := range all {
		for _, v := range s.Values {
			c.most = max(c.most, v)
		}
	}
	c.text(c.left-30, 18, "start", title)
	c.text(c.left-30, c.top-14, "start", unit)
	return c
}

func (c *chart) bottom() float64 { return c.top + c.height }

func (c *chart) y(v float64) float64 { return c.bottom() - c.height*v/c.most }

// axis draws the lines of round values.
func (c *chart) axis() {
	step := roundStep(c.most)
	c.most = math.Ceil(c.most/step-1e-9) * step
	for i := 0; float64(i)*step <= c.most+step/2; i++ {
		v := float64(i) * step
		c.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, c.left, c.left+c.width, c.y(v),
			c.y(v))
		c.text(c.left-6, c.y(v)+4, "end", fmt.Sprintf("%.4g", v))
	}
}

// roundStep returns 1, 2 or 5 times a power of ten, such that most is four to ten steps.
func roundStep(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most)))
	for _, f := range []float64{0.1, 0.2, 0.5, 1} {
		if most/(f*power) <= 10 {
			return f * power
		}
	}
	return power
}

func (c *chart) end() string {
	y := c.bottom() + 62
	for i, s := range c.all {
		x := c.left + float64(i%3)*c.width/3
		c.printf(`<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s"/>`, x, y-10, colour(i))
		c.text(x+18, y, "start", s.Name)
		if i%3 == 2 {
			y += 18
		}
	}
	return fmt.Sprintf(
		`<svg xmlns="http://www.w3.org/2000/svg" width="980" height="%.0f" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
%s</svg>
`, y+20, c.out.String())
}

func (c *chart) text(x, y float64, anchor, s string) {
	c.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, escape(s))
}

func (c *chart) printf(format string, args ...any) { fmt.Fprintf(&c.out, format+"\n", args...) }

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace
