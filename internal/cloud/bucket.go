//go:build cloud

package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
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
