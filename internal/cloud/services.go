//go:build cloud

package cloud

import (
	"archive/tar"
	"cmp"
	"context"
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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

// Open makes the mirror of a repository that a URL names, and brings it up to date. Where the source does not answer,
// what the cache has is enough.
func Open(ctx context.Context, from string, c Config) (*Mirror, error) {
	return open(ctx, from, c, func(ctx context.Context, a address) (Source, error) {
		if a.Scheme == "oci" {
			return newArtifact(a, c.Most)
		}
		return openBucket(ctx, a)
	})
}

// bucket is a source whose service lists files by their keys. Credentials come from where its SDK looks for them.
type bucket struct{ *blob.Bucket }

func openBucket(ctx context.Context, a address) (Source, error) {
	at := *a.URL
	prefix := strings.Trim(at.Path, "/")
	at.Path = ""
	b, err := blob.OpenBucket(ctx, at.String())
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		b = blob.PrefixedBucket(b, prefix+"/")
	}
	return bucket{b}, nil
}

// List lists all files below the prefix.
func (b bucket) List(ctx context.Context, _ string) (l Listing, err error) {
	for files := b.Bucket.List(nil); ; {
		file, err := files.Next(ctx)
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return l, err
		}
		o := Object{
			Path: file.Key, At: file.Key, Size: file.Size, MD5: file.MD5,
			Mark: fmt.Sprintf("%d %x", file.ModTime.UnixNano(), file.MD5),
		}
		if inS3 := (types.Object{}); file.As(&inS3) {
			o.Mark = aws.ToString(inS3.ETag)
		}
		if o.Path != "" { // the prefix itself, as consoles make it
			l.Objects = append(l.Objects, o)
		}
	}
}

// Open opens a file. S3 declares the MD5 by the ETag, but not of what it keeps encrypted with keys of others.
func (b bucket) Open(ctx context.Context, o *Object) (io.ReadCloser, error) {
	file, err := b.NewReader(ctx, o.At, nil)
	if err != nil {
		return nil, err
	}
	if inS3 := (s3.GetObjectOutput{}); file.As(&inS3) {
		if etag := aws.ToString(inS3.ETag); etag != o.Mark {
			return nil, errors.Join(fmt.Errorf("it has the ETag %s, and %s was listed: it changes", etag, o.Mark), file.Close())
		}
		if inS3.SSECustomerAlgorithm != nil || inS3.StorageClass == types.StorageClassExpressOnezone ||
			inS3.ServerSideEncryption != "" && inS3.ServerSideEncryption != types.ServerSideEncryptionAes256 {
			o.MD5 = nil
		}
	}
	return file, nil
}

// artifact is a source in a registry: an image with /models, or a ModelPack of the CNCF. Credentials come from the
// configuration of docker.
type artifact struct {
	reference name.Reference
	most      int64 // bytes that layers may unpack to
}

const (
	modelPack = "application/vnd.cncf.model." // begins the media types of ModelPack
	filePath  = "org.cncf.model.filepath"     // annotates a layer with the path of its file
	maxFiles  = 100_000
)

func newArtifact(a address, most int64) (Source, error) {
	var options []name.Option
	switch a.RawQuery {
	case "":
	case "insecure=true":
		options = append(options, name.Insecure)
	default:
		return nil, errors.New("oci:// has no parameters but insecure=true")
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
	below := "/models/" // where images have models
	if strings.HasPrefix(string(m.Config.MediaType), modelPack) {
		below = "/"
	}
	for _, layer := range m.Layers {
		digest := layer.Digest.String()
		o := Object{At: digest, Size: layer.Size, Mark: digest, SHA256: layer.Digest.Hex}
		if kind := string(layer.MediaType); strings.HasPrefix(kind, modelPack) && strings.HasSuffix(kind, ".raw") {
			o.Path = layer.Annotations[filePath]
			l.Objects = append(l.Objects, o)
		} else {
			l.Archives = append(l.Archives, o)
		}
	}
	slices.Reverse(l.Archives) // what the upper ones have counts
	l.Unpack = (&unpacking{below: below, left: r.most, most: r.most, covered: map[string]bool{}}).unpack
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
	below      string
	left, most int64 // bytes
	files      int
	covered    map[string]bool // paths that do not count in layers below, with all below them
}

// packed is a layer that was copied to a file.
type packed struct {
	v1.Layer
	file string
}

// Compressed opens the file.
func (p packed) Compressed() (io.ReadCloser, error) { return os.Open(p.file) }

// unpack takes the files of an archive that lie in the folder of models, if no layer above has them.
func (u *unpacking) unpack(file, into string) (found []Object, err error) {
	layer, err := partial.CompressedToLayer(packed{file: file})
	if err != nil {
		return nil, err
	}
	content, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	covers := map[string]bool{}
	for archive := tar.NewReader(content); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			maps.Copy(u.covered, covers)
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		full := path.Join("/", h.Name) //nolint:gosec // see below
		at := strings.TrimPrefix(full, u.below)
		hides, isMark := strings.CutPrefix(path.Base(full), ".wh.") // a layer's mark that something below it is gone
		switch u.files++; {
		case slices.Contains(strings.Split(h.Name, "/"), ".."):
			return nil, fmt.Errorf("%q leads out of the archive; build it without such paths", h.Name)
		case isMark:
			covers[path.Join(path.Dir(full), strings.TrimPrefix(hides, ".wh..opq"))] = true
			continue
		case at == full || h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader || u.has(full):
			continue
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%q is a link or a device; build the archive with the file itself in its place", h.Name)
		case u.left < h.Size || u.files > maxFiles:
			return nil, fmt.Errorf("it unpacks to more than %d bytes, or %d files; if it is meant to, raise --max-upload-bytes",
				u.most, maxFiles)
		}
		o := Object{Path: at, At: filepath.Join(into, at), Size: h.Size}
		if _, err := create(o.At, archive); err != nil {
			return nil, err
		}
		u.left -= h.Size
		covers[full], found = true, append(found, o)
	}
}

// has reports whether a layer above covers a path.
func (u *unpacking) has(at string) bool {
	return u.covered[at] || at != "/" && u.has(path.Dir(at))
}
