package catalog

import "fmt"

// Upload is a version that is to be put into the repository.
type Upload struct {
	Model string
	// Version is its number; 0 takes the number after the highest that the repository has, above Above.
	Version, Above int64
	// Own: the server puts it there itself, of whatever size.
	Own bool
	// Joins says whether its sender may have a model be a step of a pipeline; nil: any.
	Joins func(model string) error
	Files []UploadFile
}

// UploadFile is a file of a version: its path relative to the version's directory, and what it must turn out to be.
type UploadFile struct {
	Name   string
	Bytes  int64
	SHA256 []byte
}

// UploadReason is why the files of a version were not taken. Callers may branch on it.
type UploadReason string

// The reasons.
const (
	VersionExists  UploadReason = "VERSION_EXISTS"
	NotWritable    UploadReason = "REPOSITORY_NOT_WRITABLE"
	TooManyUploads UploadReason = "TOO_MANY_UPLOADS"
	UploadStalled  UploadReason = "UPLOAD_STALLED"
)

// UploadError says why the files of a version were not taken, and nothing was changed.
type UploadError struct {
	Model   string
	Version int64 // 0: none was chosen
	Reason  UploadReason
	Why     string // a clause, and what to do
	Cause   error  // may be nil
}

func (e *UploadError) Error() string {
	version := ""
	if e.Version > 0 {
		version = fmt.Sprintf(" version %d", e.Version)
	}
	cause := ""
	if e.Cause != nil {
		cause = " (" + e.Cause.Error() + ")"
	}
	return fmt.Sprintf("model %q%s was not uploaded: %s%s", e.Model, version, e.Why, cause)
}

func (e *UploadError) Unwrap() error { return e.Cause }
