//go:build cloud

package cloud

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// artifact is a source in a registry: an image with /models, or a ModelPack of the CNCF. Credentials come from the
// configuration of docker.
type artifact struct {
	reference name.Reference
	most      int64 // bytes that layers may unpack to
}

const (
	modelPack = "application/vnd.cncf.model." // begins the media types of ModelPack
	filePath  = "org.cncf.model.filepath"     // annotates a layer with the path of its file
	imageRoot = "models"                      // where images have models
	maxFiles  = 100_000
)

func newArtifact(a address, most int64) (Source, error) {
	var options []name.Option
	if a.Query().Get("insecure") == "true" {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(a.Host+a.Path, options...)
	return artifact{reference, cmp.Or(most, 2<<30)}, err
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
}

// List resolves the tag, unless a digest is known already, and reads the manifest.
func (r artifact) List(ctx context.Context, digest string) (l Listing, err error) {
	reference := r.reference
	if digest != "" {
		reference = reference.Context().Digest(digest)
	}
	found, err := remote.Get(reference, options(ctx)...)
	if err != nil {
		return l, err
	}
	l.Digest = found.Digest.String()
	image, err := found.Image()
	if err != nil {
		return l, err
	}
	m, err := image.Manifest()
	if err != nil {
		return l, err
	}
	below := imageRoot
	if strings.HasPrefix(string(m.Config.MediaType), modelPack) {
		below = "."
	}
	var archives []v1.Hash
	for _, layer := range m.Layers {
		if !strings.HasPrefix(string(layer.MediaType), modelPack) || !strings.HasSuffix(string(layer.MediaType), ".raw") {
			archives = append(archives, layer.Digest)
			continue
		}
		l.Objects = append(l.Objects, Object{
			Path: layer.Annotations[filePath], At: layer.Digest.String(), Size: layer.Size, Mark: layer.Digest.String(),
			SHA256: layer.Digest.Hex,
		})
	}
	if len(archives) > 0 {
		slices.Reverse(archives) // what the upper ones have counts
		l.Unpack = func(ctx context.Context, into string) ([]Object, error) {
			u := unpacking{into: into, below: below, left: r.most, most: r.most, covered: map[string]bool{}}
			for _, digest := range archives {
				if err := r.unpack(ctx, &u, digest); err != nil {
					return nil, fmt.Errorf("layer %v: %w", digest, err)
				}
			}
			return u.files, nil
		}
	}
	return l, nil
}

// Open opens a layer, or a file that was in one.
func (r artifact) Open(ctx context.Context, o *Object) (io.ReadCloser, error) {
	if filepath.IsAbs(o.At) {
		return os.Open(o.At)
	}
	layer, err := remote.Layer(r.reference.Context().Digest(o.At), options(ctx)...)
	if err != nil {
		return nil, err
	}
	return layer.Compressed()
}

// unpacking is a state of the layers that were unpacked, from the uppermost on.
type unpacking struct {
	into, below string
	left, most  int64 // bytes
	files       []Object
	covered     map[string]bool // paths that layers below have in vain, with all below them
}

// unpack takes the files of one layer. They are used once the whole layer has the digest that it should, which
// its reader compares at the end.
func (r artifact) unpack(ctx context.Context, u *unpacking, digest v1.Hash) error {
	far, err := remote.Layer(r.reference.Context().Digest(digest.String()), options(ctx)...)
	if err != nil {
		return err
	}
	packed, err := far.Compressed()
	if err != nil {
		return err
	}
	defer packed.Close()
	layer, err := partial.CompressedToLayer(opened{far, packed})
	if err != nil {
		return err
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	err = errors.Join(u.archive(content), content.Close())
	if _, fault := io.Copy(io.Discard, packed); fault != nil {
		return errors.Join(fault, err)
	}
	return err
}

// opened is a layer that is being read.
type opened struct {
	v1.Layer
	packed io.Reader
}

// Compressed returns what is read, which its opener closes.
func (o opened) Compressed() (io.ReadCloser, error) { return io.NopCloser(o.packed), nil }

func (u *unpacking) archive(content io.Reader) error {
	covers := map[string]bool{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			maps.Copy(u.covered, covers)
			return nil
		}
		if err == nil {
			err = u.entry(header, archive, covers)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) tooMuch() error {
	return fmt.Errorf("it unpacks to more than %d bytes, or %d files; if it is meant to, raise --max-upload-bytes",
		u.most, maxFiles)
}

// entry takes what an archive has at a path, if it lies in the folder of models and no layer above has it.
func (u *unpacking) entry(h *tar.Header, content io.Reader, covers map[string]bool) error {
	if slices.Contains(strings.Split(h.Name, "/"), "..") {
		return fmt.Errorf("%q leads out of the archive; build it without such paths", h.Name)
	}
	at, err := filepath.Rel("/"+u.below, path.Join("/", h.Name))
	if err != nil || !filepath.IsLocal(at) || at == "." || h.Typeflag == tar.TypeXGlobalHeader {
		return err
	}
	folder, file := path.Split(at)
	if hides, is := strings.CutPrefix(file, ".wh."); is { // a layer's mark that something below it is gone
		if hides == ".wh..opq" {
			hides = ""
		}
		covers[path.Join(folder, hides)] = true
		return nil
	}
	for above := at; above != "."; above = path.Dir(above) {
		if u.covered[above] {
			return nil
		}
	}
	if u.covered["."] {
		return nil
	}
	o := Object{Path: at, At: filepath.Join(u.into, at), Size: h.Size}
	switch h.Typeflag {
	case tar.TypeDir:
		o.Path += "/"
	case tar.TypeReg:
		if u.left -= h.Size; u.left < 0 || h.Size < 0 {
			return u.tooMuch()
		}
		if err := os.MkdirAll(filepath.Dir(o.At), 0o755); err != nil {
			return err
		}
		to, err := os.OpenFile(o.At, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(to, sum), content)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
		o.SHA256 = hex.EncodeToString(sum.Sum(nil))
		o.Mark, covers[at] = "sha256:"+o.SHA256, true
	default:
		return fmt.Errorf("%q is a link or a device; build the archive with the file itself in its place", h.Name)
	}
	if u.files = append(u.files, o); len(u.files) > maxFiles {
		return u.tooMuch()
	}
	return nil
}
