package top

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// percent returns a part of 1 for people: a digit after the point below 10 %, and "0 %" below a twentieth of a percent.
// The bounds are such that rounding never adds a digit.
func percent(part float64) string {
	switch p := part * 100; {
	case p < 0.05:
		return "0 %"
	case p < 9.95:
		return fmt.Sprintf("%.1f %%", p)
	default:
		return fmt.Sprintf("%.0f %%", p)
	}
}

// digits returns a number in few characters: two digits of small numbers, thousands as k and millions as M.
// The bounds are such that rounding never adds a digit.
func digits(x float64) string {
	switch a := math.Abs(x); {
	case a < 0.005:
		return "0"
	case a < 0.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case a < 9.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a < 9999.5:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a < 999_500:
		return strconv.FormatFloat(x/1e3, 'f', 0, 64) + "k"
	default:
		return strconv.FormatFloat(x/1e6, 'f', 1, 64) + "M"
	}
}

// count returns a number of things, which has no decimals even where it is small.
func count(n float64) string {
	if n < 10 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return digits(n)
}

func ms(x float64) string { return digits(x) + " ms" }

// lasted returns a duration as people say it, such as 3m12s.
func lasted(ms float64) string { return time.Duration(ms * 1e6).Truncate(time.Second).String() }

// wrapped breaks a text into lines of so many columns; the last of `most` lines ends in an ellipsis if there is more.
func wrapped(text string, columns, most int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > columns {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	if most > 0 && len(lines) > most {
		// The last line is filled from the first that is left out, or it might end early.
		last := []rune(lines[most-1] + " " + lines[most])
		lines = append(lines[:most-1], string(last[:min(len(last), columns-1)])+"…")
	}
	return lines
}
