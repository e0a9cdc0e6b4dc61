package sim

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weftserve/weft/sharedsched"
)

var (
	_ = time.Second
	_ sharedsched.Config
)

func TestDev(t *testing.T) {
	want := os.Getenv("DEV")
	if want == "" {
		t.Skip()
	}
	ms := []Maker{Core("weft", CoreOptions{})}
	for _, w := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, time.Hour} {
		ms = append(ms, Core(fmt.Sprintf("weft-w%d", w/time.Millisecond), CoreOptions{Config: func(c *sharedsched.Config) { c.FairnessWindow = w }}))
	}
	ms = append(ms, Core("weftx", CoreOptions{Config: func(c *sharedsched.Config) { c.FairnessWindow = time.Hour }, Settings: func(_ *Model, s *sharedsched.Settings) { s.Adaptive = false }}))
	ms = append(ms, Core("weft-fixed", CoreOptions{Settings: func(_ *Model, s *sharedsched.Settings) { s.Adaptive = false }}))
	for _, ms_ := range []int{25, 31, 37, 45, 60, 80, 120} {
		ms = append(ms, Core(fmt.Sprintf("cap%d", ms_), CoreOptions{Settings: func(_ *Model, s *sharedsched.Settings) {
			s.Adaptive = false
			s.MaxBatchCost = time.Duration(ms_) * time.Millisecond
		}}))
	}
	ms = append(ms, Baselines()...)
	vary := func(name string, f func(*sharedsched.Variant)) {
		ms = append(ms, Core("v-"+name, CoreOptions{Config: func(c *sharedsched.Config) { f(&c.Variant) }}))
	}
	vary("leastslack", func(v *sharedsched.Variant) { v.LeastSlack = true })
	vary("noconflict", func(v *sharedsched.Variant) { v.NoConflictRule = true })
	vary("alldemand", func(v *sharedsched.Variant) { v.AllDemand = true })
	vary("nowindowdrop", func(v *sharedsched.Variant) { v.NoWindowDrop = true })
	vary("noadmission", func(v *sharedsched.Variant) { v.NoAdmission = true })
	suite := Suite()
	e := Effort{Span: 20 * time.Second, Seeds: 1, Precision: 0.01}
	fmt.Printf("%-22s", "")
	for _, w := range suite {
		fmt.Printf(" %9s", w.Name)
	}
	fmt.Println()
	var base []float64
	for i := range ms {
		m := &ms[i]
		ok := false
		for _, p := range strings.Split(want, ",") {
			if strings.HasPrefix(m.Name, p) {
				ok = true
			}
		}
		if !ok {
			continue
		}
		gs := make([]float64, len(suite))
		var wg sync.WaitGroup
		sem := make(chan int, 2)
		for j := range suite {
			wg.Go(func() {
				sem <- 1
				g, err := G99(&suite[j], m, e)
				if err != nil {
					t.Error(err)
				}
				gs[j] = g
				<-sem
			})
		}
		wg.Wait()
		if base == nil {
			base = gs
		}
		geo := 0.0
		fmt.Printf("%-22s", m.Name)
		for j, g := range gs {
			fmt.Printf(" %9.3f", g)
			geo += math.Log(base[j] / max(g, 0.01))
		}
		fmt.Printf("  ours/it %.3f |", math.Exp(geo/float64(len(gs))))
		if os.Getenv("SCENES") != "" {
			for _, sc := range Scenes() {
				r, err := sc.Workload.Play(m, sc.Load, 10*time.Second, 1, false)
				if err != nil {
					t.Fatal(err)
				}
				all, in := r.Total(), r.Of(InShare(sc.Workload.Models, r))
				if sc.Group == Change || sc.Name[:4] == "vers" || sc.Name[:4] == "cold" {
					continue
				}
				fmt.Printf(" %s %.2f/%.3f/%.2f", sc.Name[:min(3, len(sc.Name))], all.Share(), in.Share(), r.Worst())
			}
		}
		fmt.Println()
	}
}

func TestFlows(t *testing.T) {
	name := os.Getenv("FLOWS")
	if name == "" {
		t.Skip()
	}
	load, _ := strconv.ParseFloat(os.Getenv("LOAD"), 64)
	suite := Suite()
	w, _ := Find(suite, name)
	for _, win := range []time.Duration{0, 20, 50, 1000} {
		m := Core(fmt.Sprintf("w%d", win), CoreOptions{Config: func(c *sharedsched.Config) { c.FairnessWindow = win * time.Millisecond }})
		r, err := w.Play(&m, load, 10*time.Second, 1, false)
		if err != nil {
			t.Fatal(err)
		}
		tt := r.Total()
		fmt.Printf("%s share %.4f\n", m.Name, tt.Share())
		for i := range r.Flows {
			f := &r.Flows[i]
			fmt.Printf("   %-8s slo %v %.4f %+v\n", w.Models[i].Name, w.Models[i].SLO, f.Share(), *f)
		}
	}
}

func TestModels(t *testing.T) {
	suite := Suite()
	w, _ := Find(suite, "het30cv3")
	for _, m := range w.Models {
		fmt.Printf("%s base %v row %v slo %v rate %.1f demand %.3f full %v\n", m.Name, m.Base, m.PerRow, m.SLO, m.Rate, fluidDemand(&m, m.Rate), m.Cost(64))
	}
}

func TestScene(t *testing.T) {
	name := os.Getenv("SCENE")
	if name == "" {
		t.Skip()
	}
	for _, sc := range Scenes() {
		if !strings.HasPrefix(sc.Name, name) {
			continue
		}
		m := Core("weft", CoreOptions{})
		r, err := sc.Workload.Play(&m, sc.Load, 20*time.Second, 1, true)
		if err != nil {
			t.Fatal(err)
		}
		in := InShare(sc.Workload.Models, r)
		for i := range r.Flows {
			f := &r.Flows[i]
			mm := &sc.Workload.Models[i]
			fmt.Printf("   %-10s base %v row %v slo %v in %v %.4f %+v\n", mm.Name, mm.Base, mm.PerRow, mm.SLO, in[i], f.Share(), *f)
		}
		fmt.Printf("mean batch %.2f wasted %v lag %v pred %.3f %.3f\n", r.MeanBatch, r.Total().Wasted, r.Lag, r.PredictionMedian, r.Prediction95)
	}
}

func TestDraws(t *testing.T) {
	if os.Getenv("DRAWS") == "" {
		t.Skip()
	}
	e := Effort{Span: 10 * time.Second, Seeds: 1, Precision: 0.02}
	type job struct {
		name string
		w    Workload
	}
	var jobs []job
	for seed := uint64(100); seed < 105; seed++ {
		jobs = append(jobs, job{fmt.Sprint("het30/", seed), suiteWorkload("x", "", 1, heterogeneous(30, seed))})
		jobs = append(jobs, job{fmt.Sprint("het30cv3/", seed), suiteWorkload("x", "", 3, heterogeneous(30, seed))})
		jobs = append(jobs, job{fmt.Sprint("het100/", seed), suiteWorkload("x", "", 1, heterogeneous(100, seed))})
		jobs = append(jobs, job{fmt.Sprint("het100cv4/", seed), suiteWorkload("x", "", 4, heterogeneous(100, seed))})
	}
	pols := append([]Maker{Core("weft", CoreOptions{})}, Baselines()...)
	vary := func(name string, f func(*sharedsched.Variant)) {
		pols = append(pols, Core("v-"+name, CoreOptions{Config: func(c *sharedsched.Config) { f(&c.Variant) }}))
	}
	vary("leastslack", func(v *sharedsched.Variant) { v.LeastSlack = true })
	vary("noconflict", func(v *sharedsched.Variant) { v.NoConflictRule = true })
	vary("nowindowdrop", func(v *sharedsched.Variant) { v.NoWindowDrop = true })
	vary("noadmission", func(v *sharedsched.Variant) { v.NoAdmission = true })
	pols = append(pols, Core("v-fixed", CoreOptions{Settings: func(_ *Model, s *sharedsched.Settings) { s.Adaptive = false }}))
	pols = append(pols, Core("v-inf", CoreOptions{Config: func(c *sharedsched.Config) { c.FairnessWindow = time.Hour }}))
	var mu sync.Mutex
	var wg sync.WaitGroup
	sem := make(chan int, 2)
	for _, j := range jobs {
		wg.Go(func() {
			sem <- 1
			defer func() { <-sem }()
			line := fmt.Sprintf("%-14s", j.name)
			for i := range pols {
				switch pols[i].Name {
				case "weft", "tfserving-0ms", "tfserving-2ms-expiry", "tfserving-5ms", "clockwork", "nexus", "edf", "v-leastslack","v-noconflict","v-nowindowdrop","v-noadmission","v-fixed","v-inf":
					g, _ := G99(&j.w, &pols[i], e)
					line += fmt.Sprintf(" %s %.2f", pols[i].Name, g)
				}
			}
			mu.Lock()
			fmt.Println(line)
			mu.Unlock()
		})
	}
	wg.Wait()
}
