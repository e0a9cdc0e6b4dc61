package fetch

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftserve/weft/internal/ortlib"
)

// alone gives the process a home, and an environment with neither npm nor a registry.
func alone(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "PATH": home, "npm_config_registry": "", "NPM_CONFIG_REGISTRY": "",
	} {
		t.Setenv(name, value)
	}
	return home
}

// serve answers for the package's file below a path of its own, and with an error for everything else.
func serve(t *testing.T) (registry string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /some/npm/onnxruntime-node/-/onnxruntime-node-"+ortlib.Version+".tgz",
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the package") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/some/npm"
}

func TestDownloadWithoutNPM(t *testing.T) {
	registry := serve(t)
	for name, set := range map[string]func(t *testing.T, home string){
		"environment":          func(t *testing.T, _ string) { t.Setenv("npm_config_registry", registry) },
		"environment, capital": func(t *testing.T, _ string) { t.Setenv("NPM_CONFIG_REGISTRY", registry+"/") },
		"npmrc": func(t *testing.T, home string) {
			npmrc(t, home, "; mine\n@scope:registry=http://none.invalid\nregistry = \""+registry+"/\"\nloglevel=warn\n")
		},
		"npmrc with a variable": func(t *testing.T, home string) {
			t.Setenv("MY_REGISTRY", registry)
			npmrc(t, home, "registry=${MY_REGISTRY}\n")
		},
		"environment before npmrc": func(t *testing.T, home string) {
			t.Setenv("npm_config_registry", registry)
			npmrc(t, home, "registry=http://none.invalid\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			set(t, alone(t))
			content, err := Download(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer content.Close()
			if sized, is := content.(interface{ Size() int64 }); !is || sized.Size() != int64(len("the package")) {
				t.Errorf("%T does not know how many bytes it has", content)
			}
			if got, err := io.ReadAll(content); err != nil || string(got) != "the package" {
				t.Errorf("content %q, %v; want the package", got, err)
			}
		})
	}
}

func TestDownloadFails(t *testing.T) {
	for _, tt := range []struct{ name, registry, want string }{
		{"no registry", "", "npm is not installed, and neither npm_config_registry nor registry= in ~/.npmrc"},
		{"no URL", "some registry", "no URL of http or https"},
		{"another scheme", "ftp://127.0.0.1", "no URL of http or https"},
		{"no such file", serve(t) + "/else", "404"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			alone(t)
			t.Setenv("npm_config_registry", tt.registry)
			if _, err := Download(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Download() error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestDownloadHidesThePassword(t *testing.T) {
	alone(t)
	t.Setenv("npm_config_registry", strings.Replace(serve(t), "//", "//me:hidden@", 1)+"/else")
	_, err := Download(t.Context(), t.TempDir())
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("Download() error %v, want one without the password", err)
	}
}

// TestDownloadByNPM has an npm on the PATH that fails: the registry is not asked past it.
func TestDownloadByNPM(t *testing.T) {
	home := alone(t)
	t.Setenv("npm_config_registry", serve(t))
	npm := "#!/bin/sh\necho 'npm error code E404' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(home, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Download(t.Context(), t.TempDir()); err == nil || err.Error() != "npm: E404" {
		t.Errorf("Download() error %v, want npm's", err)
	}
}

// TestDownloadedPackageIsChecked gives what the registry has to the place: it is not the package, so nothing appears.
func TestDownloadedPackageIsChecked(t *testing.T) {
	alone(t)
	t.Setenv("npm_config_registry", serve(t))
	path := filepath.Join(t.TempDir(), ortlib.FileName())
	place, err := NewPlace(path)
	if err != nil {
		t.Skip(err)
	}
	err = place.Fetch(t.Context(), Download)
	if err == nil || !strings.Contains(err.Error(), "is neither the npm package") {
		t.Errorf("Download() error %v, want a refusal", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Errorf("%s was put in place", path)
	}
}

func npmrc(t *testing.T, home, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, ".npmrc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNPMReason(t *testing.T) {
	tests := []struct{ stderr, want string }{
		{
			"npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error network request to x failed, " +
				"reason: getaddrinfo ENOTFOUND host.invalid\nnpm error network This is a problem\n",
			"getaddrinfo ENOTFOUND host.invalid",
		},
		{"npm error code E404\nnpm error 404 Not Found\n", "E404"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := npmReason(tt.stderr); got != tt.want {
			t.Errorf("npmReason(%q) = %q, want %q", tt.stderr, got, tt.want)
		}
	}
}
