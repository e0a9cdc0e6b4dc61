package ask

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weftserve/weft/internal/config"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/runtime/modelfile"
)

// Push is the flags of `weft push`.
type Push struct {
	File    string `arg:"" type:"path" help:"An ONNX file with its external data beside it, a pipeline YAML file, or a directory with model.onnx or pipeline.yaml."`
	Model   string `required:"" placeholder:"NAME" help:"Name of the model; the server creates a new one if necessary."`
	Version int64  `placeholder:"N" help:"The version's number; by default the highest plus one."`
	Label   string `placeholder:"NAME" help:"Give the version this label when it is ready."`
	Rollout bool   `help:"Start a rollout from the version that answers now."`
	Printing
	Admin
}

// pipelineFile makes a version a pipeline, in the place of model.onnx.
const pipelineFile = "pipeline.yaml"

// labels matches the names that a server takes for labels.
var labels = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// check finds all mistakes in the flags, before anything is changed.
func (c *Push) check() error {
	var faults config.Faults
	if c.Version < 0 {
		faults.Addf("--version", "expected a positive number, found %d", c.Version)
	}
	if c.Label != "" && !labels.MatchString(c.Label) {
		faults.Addf("--label", "expected a letter or digit, then letters, digits, '.', '_' and '-', at most 128, found %q",
			c.Label)
	}
	return faults.Err()
}

// Pushed is what became of the files.
type Pushed struct {
	Version int64 // 0: it is not known
	Maybe   bool  // the server has them, or may have them
	Differs bool  // a rollout was refused: the version takes other inputs
}

// Run uploads the version.
func (c *Push) Run(ctx context.Context, out io.Writer) (pushed Pushed, _ error) {
	if err := c.check(); err != nil {
		return pushed, err
	}
	paths, start, err := c.files()
	if err != nil {
		return pushed, err
	}
	err = c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		before := c.answering(ctx, conn)
		admin := weftv1.NewAdminServiceClient(conn)
		call, err := admin.UploadVersion(ctx)
		if err != nil {
			return err
		}
		// Once the server has answered, sending fails with io.EOF, and CloseAndRecv has the answer.
		err = call.Send(&weftv1.UploadVersionRequest{Part: &weftv1.UploadVersionRequest_Start{Start: start}})
		for i := 0; i < len(paths) && err == nil; i++ {
			err = send(call, paths[i])
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		whole := err == nil // a server stores nothing before the end of the last file
		answer, err := call.CloseAndRecv()
		pushed.Maybe = whole && !surelyRefused(err)
		if err != nil {
			return err
		}
		version := answer.GetVersion()
		pushed.Version = version
		text, more := fmt.Sprintf("%s: version %d is uploaded and ready\n", c.Model, version), []any(nil)
		var other []string // inputs
		if !answer.GetServed() {
			text = fmt.Sprintf("%s: version %d is uploaded; versions.policy does not select it: load it with `weft load %s %d`\n",
				c.Model, version, c.Model, version)
		} else if len(before.versions) > 0 {
			is, says := c.changed(answer.GetModel(), version, before, c.answering(ctx, conn))
			text, more, other = text+says, append(more, is), is.inputs
		}
		if c.Label != "" {
			labelled, err := admin.SetLabel(ctx, &weftv1.SetLabelRequest{Model: c.Model, Label: c.Label, Version: version})
			if err != nil {
				next := fmt.Sprintf("`weft label %s %s %d`", c.Model, c.Label, version)
				if !answer.GetServed() {
					next = fmt.Sprintf("versions.policy does not select it: `weft load %s %d`, then %s", c.Model, version, next)
				}
				return fmt.Errorf("version %d is uploaded, and label %s was not set: %s; %s", version, c.Label,
					status.Convert(err).Message(), next)
			}
			answer.Model = labelled.GetModel()
			text += fmt.Sprintf("%s: label %s is on version %d\n", c.Model, c.Label, version)
		}
		err = c.print(out, answer, text, more...)
		if c.Rollout && len(other) > 0 {
			pushed.Differs = true
			old := before.versions[0].GetVersion()
			err = errors.Join(err, fmt.Errorf("no rollout of version %d, which takes other inputs than version %d: %s\n"+
				"version %[1]d is stored and loaded, version %[2]d keeps all traffic; change the clients, then `weft traffic "+
				"%[4]s %[1]d=100`", version, old, strings.Join(other, "; "), c.Model))
		}
		return err
	})
	if errors.Is(err, errInterrupted) && pushed.Maybe && pushed.Version == 0 {
		err = fmt.Errorf("%w; the files may be stored: `weft models %s` shows it", err, c.Model)
	}
	return pushed, err
}

// answering is the versions that answer requests which name none: with weight in the traffic, or the newest one. It is
// empty if the server does not say.
type answering struct {
	versions []*weftv1.ModelVersion
	source   string // of the traffic that names them; "": it names none
}

// only reports whether a version answers, and no other.
func (a answering) only(version int64) bool {
	return len(a.versions) == 1 && a.versions[0].GetVersion() == version
}

// answering asks the server.
func (c *Push) answering(ctx context.Context, conn *grpc.ClientConn) (all answering) {
	models := weftv1.NewModelServiceClient(conn)
	traffic, err := models.GetTraffic(ctx, &weftv1.GetTrafficRequest{Model: c.Model})
	if err != nil {
		return all
	}
	model, err := models.GetModel(ctx, &weftv1.GetModelRequest{Name: c.Model})
	if err != nil {
		return all
	}
	add := func(number int64) {
		if v := versionOf(model.GetModel(), number); v != nil && !slices.Contains(all.versions, v) {
			all.versions = append(all.versions, v)
		}
	}
	for _, s := range traffic.GetTraffic().GetSplit() {
		if s.GetWeight() > 0 {
			all.source = traffic.GetTraffic().GetSource()
			add(s.GetVersion())
		}
	}
	if all.source == "" {
		add(newestServing(model.GetModel(), traffic))
	}
	return all
}

// versionOf returns a version of a model, or nil.
func versionOf(m *weftv1.Model, number int64) *weftv1.ModelVersion {
	i := slices.IndexFunc(m.GetVersions(), func(v *weftv1.ModelVersion) bool { return v.GetVersion() == number })
	if i < 0 {
		return nil
	}
	return m.GetVersions()[i]
}

// effect is what a version that was uploaded changes for clients, as JSON says it.
type effect struct {
	Before      int64    `json:"answered_before,string"` // 0: several did
	Now         int64    `json:"answers_now,string"`     // 0: none does alone
	Differences []string `json:"differences"`            // of inputs and outputs, from the versions before
	inputs      []string // those of inputs
}

// changed says what a version that was uploaded changes for the clients of versions that answered before.
func (c *Push) changed(m *weftv1.Model, version int64, before, now answering) (e effect, _ string) {
	var b strings.Builder
	e.Differences = []string{}
	var names []string
	for _, v := range before.versions {
		names = append(names, strconv.FormatInt(v.GetVersion(), 10))
		was, is := v.GetSignature(), versionOf(m, version).GetSignature()
		if was == nil || is == nil {
			continue
		}
		inputs := differences("input", was.GetInputs(), is.GetInputs(), true)
		all := slices.Concat(inputs, differences("output", was.GetOutputs(), is.GetOutputs(), false))
		e.inputs, e.Differences = append(e.inputs, inputs...), append(e.Differences, all...)
		if len(all) > 0 {
			fmt.Fprintf(&b, "its inputs or outputs differ from version %d: clients of that will fail: %s\n",
				v.GetVersion(), strings.Join(all, "; "))
		}
	}
	old := before.versions[0].GetVersion()
	if len(before.versions) == 1 {
		e.Before = old
	}
	if len(now.versions) == 1 {
		e.Now = now.versions[0].GetVersion()
	}
	same := slices.EqualFunc(before.versions, now.versions, func(a, b *weftv1.ModelVersion) bool {
		return a.GetVersion() == b.GetVersion()
	})
	switch {
	case c.Rollout:
	case now.only(version) && now.source == "":
		fmt.Fprintf(&b, "it answers all requests now, in the place of version %d\n", old)
	case now.source == "" || !same:
	case len(names) == 1:
		fmt.Fprintf(&b, "version %d goes on answering: the traffic names it; `weft traffic %s --clear` or "+
			"`weft traffic %s %d=100`\n", old, c.Model, c.Model, version)
	case now.source == "rollout":
		fmt.Fprintf(&b, "versions %s go on answering: a rollout divides the traffic; `weft rollout show %s` shows it\n",
			strings.Join(names, " and "), c.Model)
	default:
		fmt.Fprintf(&b, "versions %s go on answering: the traffic names them; `weft traffic %s` shows it\n",
			strings.Join(names, " and "), c.Model)
	}
	return e, b.String()
}

// differences lists the tensors of a version that are missing or different in another, and with added those that the
// other has besides: a client that does not know an input does not send it.
func differences(kind string, was, is []*weftv1.TensorSpec, added bool) (all []string) {
	text := func(t *weftv1.TensorSpec) string {
		return fmt.Sprint(strings.ToLower(strings.TrimPrefix(t.GetDtype().String(), "DATA_TYPE_")), " ", t.GetShape())
	}
	find := func(in []*weftv1.TensorSpec, name string) *weftv1.TensorSpec {
		i := slices.IndexFunc(in, func(t *weftv1.TensorSpec) bool { return t.GetName() == name })
		if i < 0 {
			return nil
		}
		return in[i]
	}
	for _, t := range was {
		switch other := find(is, t.GetName()); {
		case other == nil:
			all = append(all, fmt.Sprintf("%s %q is gone", kind, t.GetName()))
		case text(t) != text(other) && !(added && widened(t, other)):
			all = append(all, fmt.Sprintf("%s %q is %s, was %s", kind, t.GetName(), text(other), text(t)))
		}
	}
	for _, t := range is {
		if added && find(was, t.GetName()) == nil {
			all = append(all, fmt.Sprintf("%s %q is new", kind, t.GetName()))
		}
	}
	return all
}

// widened reports whether an input takes all that another did, and more.
func widened(was, is *weftv1.TensorSpec) bool {
	return was.GetDtype() == is.GetDtype() && slices.EqualFunc(was.GetShape(), is.GetShape(), func(was, is int64) bool {
		return is == was || is < 0
	})
}

// surelyRefused reports whether a server that answers so has stored nothing.
func surelyRefused(err error) bool {
	answer := status.Convert(err)
	if slices.Contains([]codes.Code{codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented}, answer.Code()) {
		return true
	}
	for _, detail := range answer.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			switch d.GetReason() {
			case "VERSION_EXISTS", "REPOSITORY_NOT_WRITABLE", "TOO_MANY_UPLOADS", "UPLOAD_STALLED":
				return true
			}
		case *errdetails.BadRequest: // of the upload, not of a request that the model was tried with
			for _, v := range d.GetFieldViolations() {
				if v.GetField() == "chunk" || strings.HasPrefix(v.GetField(), "start") {
					return true
				}
			}
		}
	}
	return false
}

// files returns the paths of the files, and what the server is told of them.
func (c *Push) files() (paths []string, _ *weftv1.UploadStart, _ error) {
	model, err := os.Open(c.File)
	if err != nil {
		return nil, nil, err
	}
	defer model.Close()
	info, err := model.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		in := *c
		in.File = filepath.Join(c.File, pipelineFile)
		if _, err := os.Stat(in.File); err != nil {
			in.File = filepath.Join(c.File, modelfile.Model)
		}
		if _, err := os.Stat(in.File); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s has no %s and no %s; expected a file, or the folder of one version, such as %s",
				c.File, modelfile.Model, pipelineFile, filepath.Join(c.File, "1"))
		}
		return in.files()
	}
	names := []string{pipelineFile}
	if !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(c.File)) {
		external, err := modelfile.Needs(model, info.Size())
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", c.File, err)
		}
		names = append([]string{modelfile.Model}, external...)
	}
	start := &weftv1.UploadStart{Model: c.Model, Version: c.Version}
	for _, name := range names {
		path := c.File
		if len(paths) > 0 {
			path = filepath.Join(filepath.Dir(c.File), name)
		}
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("%w; %s names it for external data: put it there", err, c.File)
		}
		sum := sha256.New()
		bytes, err := io.Copy(sum, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, nil, err
		}
		paths = append(paths, path)
		start.Files = append(start.Files, &weftv1.UploadFile{
			Name: filepath.ToSlash(name), Bytes: bytes, Sha256: sum.Sum(nil),
		})
	}
	return paths, start, nil
}

// send sends a file.
func send(call weftv1.AdminService_UploadVersionClient, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()         // it was only read
	buf := make([]byte, 1<<20) // as much as the server takes at a time
	for {
		n, err := io.ReadFull(file, buf)
		if n > 0 {
			err := call.Send(&weftv1.UploadVersionRequest{Part: &weftv1.UploadVersionRequest_Chunk{Chunk: buf[:n]}})
			if err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// Hold gives the version that answers at present all of the model's traffic, so that the next one that is uploaded
// takes none of it. It returns that version, and what undoes it; nil if it changed nothing.
func (c *Push) Hold(ctx context.Context) (baseline int64, undo func(context.Context) error, _ error) {
	if err := c.check(); err != nil {
		return 0, nil, err
	}
	err := c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		models, admin := weftv1.NewModelServiceClient(conn), weftv1.NewAdminServiceClient(conn)
		now, err := models.GetTraffic(ctx, &weftv1.GetTrafficRequest{Model: c.Model})
		if err != nil {
			return err
		}
		for _, s := range now.GetTraffic().GetSplit() {
			switch {
			case s.GetWeight() == 0:
			case baseline > 0:
				return fmt.Errorf("the traffic of %s is split, so there is no one version to roll out from; push without "+
					"--rollout, and begin it with `weft rollout start %s --baseline V --candidate W`", c.Model, c.Model)
			default:
				baseline = s.GetVersion()
			}
		}
		if baseline > 0 {
			return nil
		}
		answer, err := models.GetModel(ctx, &weftv1.GetModelRequest{Name: c.Model})
		if err != nil {
			return err
		}
		if baseline = newestServing(answer.GetModel(), now); baseline == 0 {
			return fmt.Errorf("no version of %s answers, so there is none to roll out from; push without --rollout", c.Model)
		}
		held, err := admin.SetTraffic(ctx, &weftv1.SetTrafficRequest{Model: c.Model, Traffic: &weftv1.Traffic{
			Split:  []*weftv1.TrafficSlot{{Slot: "prod", Version: baseline, Weight: 1}},
			Shadow: now.GetTraffic().GetShadow(), Revision: now.GetTraffic().GetRevision(),
		}})
		if err != nil {
			return err
		}
		undo = func(ctx context.Context) error {
			return c.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
				_, err := weftv1.NewAdminServiceClient(conn).SetTraffic(ctx, &weftv1.SetTrafficRequest{
					Model: c.Model, Traffic: &weftv1.Traffic{
						Shadow: now.GetTraffic().GetShadow(), Revision: held.GetTraffic().GetRevision(),
					},
				})
				return err
			})
		}
		return nil
	})
	return baseline, undo, err
}
