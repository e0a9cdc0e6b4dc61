//go:build cloud

package cloud

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
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
	at.Path = ""
	b, err := blob.OpenBucket(ctx, at.String())
	if err != nil {
		return nil, err
	}
	if prefix := strings.Trim(a.Path, "/"); prefix != "" {
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
		o := Object{Path: file.Key, At: file.Key, Size: file.Size, Mark: mark(file.ModTime, file.MD5), MD5: file.MD5}
		if o.Path != "" { // the prefix itself, as consoles make it
			l.Objects = append(l.Objects, o)
		}
	}
}

// mark is of seconds, since answers have no more.
func mark(t time.Time, md5 []byte) string { return fmt.Sprintf("%d %x", t.Unix(), md5) }

// Open opens a file. S3 declares the MD5 by the ETag, but not of what it keeps encrypted with keys of others.
func (b bucket) Open(ctx context.Context, o *Object) (io.ReadCloser, error) {
	file, err := b.NewReader(ctx, o.At, nil)
	if err != nil {
		return nil, err
	}
	if now := mark(file.ModTime(), o.MD5); now > o.Mark {
		return nil, errors.Join(errors.New("it was written after it was listed: it changes"), file.Close())
	}
	if inS3 := (s3.GetObjectOutput{}); file.As(&inS3) && (inS3.SSECustomerAlgorithm != nil ||
		inS3.StorageClass == types.StorageClassExpressOnezone ||
		inS3.ServerSideEncryption != "" && inS3.ServerSideEncryption != types.ServerSideEncryptionAes256) {
		o.MD5 = nil
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
	fileCost  = 4096                          // bytes that a file takes besides its content
)

func newArtifact(a address, most int64) (Source, error) {
	options, known := map[string][]name.Option{"": nil, "insecure=true": {name.Insecure}}[a.RawQuery]
	if !known {
		return nil, errors.New("oci:// has no parameters but insecure=true")
	}
	reference, err := name.ParseReference(a.Host+a.Path, options...)
	if err != nil {
		return nil, err
	}
	return artifact{reference, cmp.Or(most, 2<<30)}, nil
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
	l.Unpack = func(from, into string) ([]Object, error) { return r.unpack(&l, below, from, into) }
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

// packed is a layer in a file.
type packed struct {
	partial.CompressedLayer
	file string
}

func (p packed) Compressed() (io.ReadCloser, error) { return os.Open(p.file) }

// flat is an image of layers.
type flat struct {
	v1.Image
	layers []v1.Layer
}

func (f *flat) Layers() ([]v1.Layer, error) { return f.layers, nil }

// unpack takes the files of the layers that lie in the folder of models, as the upper layers leave them.
func (r artifact) unpack(l *Listing, below, from, into string) (found []Object, err error) {
	image, left := &flat{}, r.most
	for i := range l.Archives {
		layer, err := partial.CompressedToLayer(packed{file: filepath.Join(from, strconv.Itoa(i))})
		if err != nil {
			return nil, err
		}
		image.layers = append(image.layers, layer)
	}
	content := mutate.Extract(image)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, content) // after a fault there is an end, too, and then the fault
			return found, err
		}
		if err != nil {
			return nil, err
		}
		at, counts := strings.CutPrefix(path.Join("/", h.Name), below) //nolint:gosec // it leads nowhere else
		switch {
		case !counts || h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case h.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("%q is a link or a device; build the archive with the file itself in its place", h.Name)
		case h.Size > left-fileCost:
			return nil, fmt.Errorf("it unpacks to more than %d bytes; if it is meant to, raise --max-upload-bytes", r.most)
		}
		o := Object{Path: at, At: filepath.Join(into, at), Size: h.Size, Mark: l.Digest}
		if _, err := create(o.At, archive); errors.Is(err, fs.ErrExist) {
			continue // an upper layer has it, by another name such as with a slash before it
		} else if err != nil {
			return nil, err
		}
		left, found = left-h.Size-fileCost, append(found, o)
	}
}
