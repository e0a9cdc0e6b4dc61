package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/race"
)

// told is an error with a text for callers.
type told struct{ private, public string }

func (e told) Error() string  { return e.private }
func (e told) Public() string { return e.public }

func TestPublic(t *testing.T) {
	const root = "/srv/my models"
	file := told{
		"model.yaml:3:1: weight: 0 is out of range\n    3 | weight: 0",
		"model.yaml:3:1: weight: expected 0.001 to 1000",
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"plain":      {errors.New("no such operator"), "no such operator"},
		"of its own": {fmt.Errorf("load: %w", file), "load: " + file.public},
		"joined":     {errors.Join(errors.New("one"), fmt.Errorf("two: %w", file)), "one\ntwo: " + file.public},
		"twice":      {fmt.Errorf("%w and %w", file, file), file.public + " and " + file.public},
		"below the root": {
			errors.New("cannot load " + root + "/m/3/model.onnx: empty"),
			"cannot load m/3/model.onnx: empty",
		},
		"the root": {
			errors.New("name the directory above " + root + " as the repository"),
			"name the directory above the repository as the repository",
		},
		"elsewhere": {
			errors.New("/usr/lib/libonnxruntime.so needs libcublas.so.12"),
			".../libonnxruntime.so needs libcublas.so.12",
		},
		"a home":     {errors.New("cannot open /home/alice: denied"), "cannot open ...: denied"},
		"in quotes":  {errors.New(`open file "/tmp/x/weights.bin" failed`), `open file ".../weights.bin" failed`},
		"several":    {errors.New("[/tmp/a/b.bin:/var/c/d.bin]"), "[.../b.bin:.../d.bin]"},
		"a node":     {errors.New("Name:'/encoder/layer.0/MatMul' failed"), "Name:'/encoder/layer.0/MatMul' failed"},
		"an address": {errors.New("see https://onnxruntime.ai/usr/docs"), "see https://onnxruntime.ai/usr/docs"},
		"a fraction": {errors.New("3/4 of 10 ms/row, cuda:0, m/3"), "3/4 of 10 ms/row, cuda:0, m/3"},
		"source": {
			errors.New("Reshape node. Status Message: " +
				"/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:47 " +
				"onnxruntime::ReshapeHelper size was false"),
			"Reshape node. Status Message: onnxruntime::ReshapeHelper size was false",
		},
		"source of another build": {
			errors.New("error: C:/a/_work/1/s/onnxruntime/core/graph/graph.cc:123: Type Error"), "error: C:Type Error",
		},
		"a device": {
			errors.New("CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; hostname=robot7 ; " +
				"file=/onnxruntime_src/cuda_call.cc ; line=132 ; expr=cudaMemcpy()"),
			"CUDA failure 700: an illegal memory access was encountered ; GPU=0; expr=cudaMemcpy()",
		},
		"hidden": {
			&LoadError{
				Model: "m", Version: 3,
				Cause: Hide(fmt.Errorf("%s/m/model.yaml: %w", root, file), root),
			},
			`load model "m" version 3: m/model.yaml: ` + file.public,
		},
		"not text":     {errors.New("a\xffb"), "a�b"},
		"empty within": {fmt.Errorf("x%w", told{"", "leak"}), "x"},
	} {
		if got := Public(c.err, root); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	if got := Public(errors.New("./m, m/3.5"), "."); got != "./m, m/3.5" {
		t.Errorf("a repository that is not absolute: %s", got)
	}
}

// TestNothingOfTheMachineIsTold puts paths of the machine into texts at random: none comes out.
func TestNothingOfTheMachineIsTold(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	work, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	secrets := []string{
		root, root + "/m", home, work, os.TempDir(), "/etc/passwd", "/usr/lib/x86_64-linux-gnu",
		"/onnxruntime_src/onnxruntime/core/graph.cc:12",
	}
	around := []string{
		"", " ", `"`, "'", ": ", "(", ")", "[", "]", ",", ";", "=", "\n", " of ", ": failed ", "<", ">",
		"|", "\t", "{", "}", "`",
	}
	files := []string{"", "/1/model.onnx", "/weights.bin", "/a/b/c", "/", "/x.", "/é/ü.onnx"}
	random := rand.New(rand.NewPCG(7, 11))
	pick := func(all []string) string { return all[random.IntN(len(all))] }
	texts := 20_000
	if race.Enabled {
		texts = 2000 // one goroutine reads them
	}
	for range texts {
		var err error
		for range 1 + random.IntN(3) {
			secret := pick(secrets)
			text := "x" + around[1+random.IntN(len(around)-1)] + secret + pick(files) + pick(around[1:])
			if err == nil {
				err = errors.New(text)
			} else {
				err = fmt.Errorf("%s%w", text, err)
			}
		}
		for _, got := range []string{Public(err), Public(err, root)} {
			for _, secret := range secrets {
				if strings.Contains(got, secret) {
					t.Fatalf("%q is told as %q, with %q", err, got, secret)
				}
			}
		}
	}
}

// TestPublicTextIsThorough: texts that no expression is tried on have nothing that one would match.
func TestPublicTextIsThorough(t *testing.T) {
	pieces := []string{
		"/", "/home/ann/m.onnx", "/tmp", "a/b", "é/tmp/x", " ", "core.cc:12 ", "x/y.hpp:3: ", ".cuh:1", "; file=x", ";line=3",
		"hostname=a", "~", "-", "_/tmp/y", "word", "\"", "(", ":", ".", ".h", "9/tmp", "\n/etc/passwd",
	}
	for seed := range uint64(20_000) {
		draw := rand.New(rand.NewPCG(seed, 0))
		var b strings.Builder
		for range 1 + draw.IntN(6) {
			b.WriteString(pieces[draw.IntN(len(pieces))])
		}
		text := b.String()
		all := sourceWords.ReplaceAllString(sourceLine.ReplaceAllString(text, ""), "")
		if !strings.Contains(text, "/") && !strings.Contains(text, ";") {
			all = text
		}
		if got := PublicText(text); got == text && (all != text || machinePath().MatchString(text)) {
			t.Fatalf("seed %d: %q stays as it is", seed, text)
		}
	}
}
