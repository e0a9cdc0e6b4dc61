package top

import "hash/fnv"

// palette is that of Okabe and Ito without black, which people of all kinds of sight tell apart.
var palette = [...]color{
	0xe69f00, // orange
	0x56b4e9, // sky blue
	0x009e73, // bluish green
	0xf0e442, // yellow
	0x0072b2, // blue
	0xd55e00, // vermillion
	0xcc79a7, // reddish purple
}

// colorOf returns the color of a version by its label, such as "walk v3": the same on every page and screen of Weft.
func colorOf(label string) color {
	h := fnv.New32a()
	_, _ = h.Write([]byte(label)) // never fails
	return palette[h.Sum32()%uint32(len(palette))]
}

// ink is the color of text on one of the palette.
func ink(on color) color {
	if r, g, b := on>>16&255, on>>8&255, on&255; 299*r+587*g+114*b > 110_000 {
		return 0x000000
	}
	return 0xffffff
}

// letters name versions where colors do not.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// nameless is the letter of versions beyond those.
const nameless = '*'
