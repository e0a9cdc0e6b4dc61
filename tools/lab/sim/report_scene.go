package sim

import "fmt"

func (s Seen) watched() string { return fmt.Sprintf("%.3f", s.Watched) }

func (s Seen) deviceTime() string {
	return fmt.Sprintf("%.2f / %.3f / %.3f", s.Useful, s.Wasted, s.Idle)
}

func (f *Findings) sceneTables(p *page) {
	const shares = "Share on time: of all requests / of the flows within their fair share / of the worst flow."
	for _, t := range []struct {
		group        Group
		title, about string
		cell         func(Seen) string
		explain      bool
	}{
		{Overload, "Overload", shares, Seen.String, true},
		{
			Overload, "Device time in overload",
			"For results on time / for late ones / idle while requests waited, as shares of the time.", Seen.deviceTime,
			false,
		},
		{Adversity, "Adversity", "Share on time of those who should not suffer.", Seen.watched, true},
		{Change, "Change", shares, Seen.String, true},
	} {
		scenes := f.scenes(p, t.title, t.about, "policy", f.Study.Families,
			func(s *Scene) bool { return s.Group == t.group }, t.cell)
		if !t.explain || len(scenes) == 0 {
			continue
		}
		p.printf("\n")
		for _, s := range scenes {
			p.item(s.Name, s.About)
		}
	}
}

// scenes writes a table of one figure in those scenes that are in it, if any, and returns them.
func (f *Findings) scenes(p *page, title, about, first string, families []Family, in func(*Scene) bool,
	cell func(Seen) string,
) []Scene {
	var scenes []Scene
	var names []string
	for _, s := range f.Study.Scenes {
		if in(&s) {
			scenes, names = append(scenes, s), append(names, s.Name)
		}
	}
	if len(scenes) == 0 {
		return nil
	}
	p.section(title, about)
	p.head(right, first, names...)
	for _, family := range families {
		var cells []string
		for _, name := range names {
			cells = append(cells, cell(f.Scenes[Pair{family.Name, name}]))
		}
		p.row(family.Name, cells...)
	}
	return scenes
}
