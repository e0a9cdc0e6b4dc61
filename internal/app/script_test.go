package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weftserve/weft/internal/config"
	"github.com/weftserve/weft/internal/onnxgraph/sketch"
	"github.com/weftserve/weft/internal/weftest"
	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/access"
)

// TestScripts runs testdata/script/*.txtar: each serves repositories with a server in this process, and calls it.
// TENSORS and $WORK in a YAML or config file stand for the tensors of a synthetic model, and for the script's folder.
// Beyond the usual commands there are
//
//	serve REPOSITORY|- [KEY=VALUE...]  starts a server, which its script may end; keys are those of the settings file
//	ready                              waits until the server is ready, and loads nothing any more
//	end                                stops it
//	call [-token T] SERVICE/METHOD [JSON]  makes a call, and prints the answer, or the code and the text of its error
//	ask [-token T] MODEL [JSON]        asks a model; JSON adds to the request
//	episodes MODEL N                   asks in N new episodes, and prints how often each version answered
//	rewards MODEL X                    has episodes, each with X times its version as the reward, until no rollout runs
//	flood MODEL N                      asks N times at once, and prints how often the requests ended with each code
//	get [-token T] PATH                gets a page, and prints its status and its text
//	pages PATH CODE CODE CODE          wants these statuses of a page for nobody, for $pilot, and for $ada
//	log EVENT                          prints the records of an event so far
//	check [-load] [-json] REPOSITORY|- [KEY=VALUE...]  checks, as weft check does
//	upload [-token T] [-short|-wrong|-cut] MODEL VERSION FILE...  uploads a version: half of its bytes, with a wrong one,
//	                                   or broken off once it has begun
//	left N REPOSITORY                  waits until uploads have left N folders there
//	chained REPOSITORY MODEL           asks a pipeline, and its steps one after the other, and wants equal answers
//	sketch FILE SKETCH                 writes a model; package sketch has the form
//	token NAME                         sets $NAME to a new token, and adds its line to tokens.txt
//	await PATTERN COMMAND...           repeats one of these until what it prints, or its error, matches
func TestScripts(t *testing.T) {
	commands := map[string]func(*script, []string) (string, error){
		"serve": (*script).serve, "ready": (*script).ready, "end": (*script).end, "call": (*script).call,
		"ask": (*script).ask, "episodes": (*script).episodes, "flood": (*script).flood, "rewards": (*script).rewards, "get": (*script).get, "pages": (*script).pages,
		"log": (*script).logged, "check": (*script).check, "upload": (*script).upload, "left": (*script).left, "sketch": (*script).sketch, "chained": (*script).chained, "token": (*script).token,
	}
	all := map[string]func(*testscript.TestScript, bool, []string){}
	for name, run := range commands {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value("script").(*script)
			s.TestScript, s.fails = ts, neg
			out, err := run(s, args)
			fmt.Fprint(ts.Stdout(), out)
			if err != nil {
				fmt.Fprintln(ts.Stderr(), err)
			}
			if (err != nil) != neg {
				ts.Fatalf("%s: %v", name, err)
			}
		}
	}
	all["await"] = func(ts *testscript.TestScript, _ bool, args []string) {
		s := ts.Value("script").(*script)
		s.TestScript, s.fails = ts, false
		pattern := regexp.MustCompile(args[0])
		var said string
		for end := time.Now().Add(weftest.Patience); ; {
			out, err := commands[args[1]](s, args[2:])
			if said = fmt.Sprint(out, err); pattern.MatchString(said) {
				return
			}
			if time.Now().After(end) {
				ts.Fatalf("not within %v; at last: %s", weftest.Patience, said)
			}
			<-time.After(5 * time.Millisecond) // nothing tells but asking
		}
	}
	testscript.RunT(serial{t}, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, Cmds: all,
		Setup: func(env *testscript.Env) error {
			env.Values["script"] = &script{t: env.T().(serial).T}
			examples, err := filepath.Abs("../../examples")
			if err != nil {
				return err
			}
			env.Setenv("EXAMPLES", examples)
			return filepath.WalkDir(env.WorkDir, func(path string, _ fs.DirEntry, err error) error {
				if ext := filepath.Ext(path); ext != ".yaml" && ext != ".config" {
					return err
				}
				text, err := os.ReadFile(path)
				filled := strings.NewReplacer("TENSORS", weftest.Tensors, "$WORK", env.WorkDir).Replace(string(text))
				return errors.Join(err, os.WriteFile(path, []byte(filled), 0o600))
			})
		},
	})
}

// serial has scripts run one after the other: each looks for goroutines that its server has left.
type serial struct{ *testing.T }

// Parallel implements testscript.T.
func (serial) Parallel() {}

// Verbose implements testscript.T.
func (serial) Verbose() bool { return testing.Verbose() }

// Run implements testscript.T.
func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

// script is a script that runs, and the server that it has started.
type script struct {
	*testscript.TestScript

	t     *testing.T
	fails bool // the command is to fail
	r     *running
	log   *weftest.Log
	asked int // in episodes
}

// settings reads the arguments of a command that reads a repository.
func (s *script) settings(args []string) (*Settings, error) {
	c := &Settings{Server: config.DefaultServer()}
	if args[0] != "-" {
		c.Repositories = []string{s.MkAbs(args[0])}
	}
	var text strings.Builder
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		if slices.Contains([]string{"access", "record", "model-config-file"}, key) ||
			key == "state-dir" && value != config.StateDirNone {
			value = s.MkAbs(value)
		}
		fmt.Fprintf(&text, "%s: %s\n", key, value)
	}
	return c, config.Decode("settings", []byte(text.String()), &c.Server, func() config.Faults { return nil })
}

func (s *script) serve(args []string) (string, error) {
	c, err := s.settings(args)
	if err != nil {
		return "", err
	}
	s.log, c.LameDuck = &weftest.Log{}, 0
	if s.fails {
		a := &App{Settings: *c}
		a.Listen, a.HTTP, a.AdminListen = "127.0.0.1:0", "", ""
		return "", a.serve(make(chan os.Signal, 1), slog.New(s.log))
	}
	s.r = serveLogging(s.t, "", func(a *App) {
		a.Settings = *c
		a.Listen, a.HTTP, a.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	}, s.log)
	return "", nil
}

func (s *script) ready([]string) (string, error) {
	s.r.awaitReady(s.t)
	return "", nil
}

func (s *script) end([]string) (string, error) {
	s.r.close()
	return "", nil
}

// as takes -token from the arguments of a call.
func (s *script) as(args []string) (ctx context.Context, token string, _ []string) {
	if ctx = s.t.Context(); args[0] != "-token" {
		return ctx, "", args
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+args[1]), args[1], args[2:]
}

func (s *script) call(args []string) (string, error) {
	ctx, _, args := s.as(args)
	service, method, _ := strings.Cut(args[0], "/")
	var found protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			if d := f.Services().Get(i); string(d.Name()) == service || string(d.FullName()) == service {
				found = d.Methods().ByName(protoreflect.Name(method))
			}
		}
		return found == nil
	})
	if found == nil {
		s.Fatalf("there is no method %s", args[0])
	}
	request, answer := made(found.Input()), made(found.Output())
	if len(args) > 1 {
		s.Check(protojson.Unmarshal([]byte(args[1]), request))
	}
	conn := s.r.conn
	if service == "AdminService" {
		conn = s.r.admin
	}
	return s.invoke(ctx, conn, fmt.Sprintf("/%s/%s", found.Parent().FullName(), method), request, answer)
}

func made(d protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil
	}
	return t.New().Interface()
}

func (s *script) invoke(ctx context.Context, conn *grpc.ClientConn, method string, request, answer proto.Message,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, weftest.Patience)
	defer cancel()
	if err := conn.Invoke(ctx, method, request, answer); err != nil {
		return "", fmt.Errorf("%v: %s", status.Code(err), status.Convert(err).Message())
	}
	text, err := protojson.Marshal(answer)
	s.Check(err)
	var compact bytes.Buffer
	s.Check(json.Compact(&compact, text)) // the spaces of protojson vary
	return compact.String() + "\n", nil
}

// request is that of a model, with what JSON adds.
func (s *script) request(args []string) *weftv1.PredictRequest {
	q := weftest.Request(args[0], 1)
	if len(args) > 1 {
		more := &weftv1.PredictRequest{}
		s.Check(protojson.Unmarshal([]byte(args[1]), more))
		for name := range more.GetInputs() {
			delete(q.GetInputs(), name)
		}
		if len(more.GetInputs()) > 0 {
			delete(q.GetInputs(), "x")
		}
		proto.Merge(q, more)
	}
	return q
}

func (s *script) ask(args []string) (string, error) {
	ctx, _, args := s.as(args)
	return s.invoke(ctx, s.r.conn, weftv1.PredictionService_Predict_FullMethodName, s.request(args),
		&weftv1.PredictResponse{})
}

func (s *script) episodes(args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	s.Check(err)
	by := map[int64]int{}
	for range n {
		q := weftest.Request(args[0], 1)
		s.asked++
		q.EpisodeId = fmt.Sprint("new ", s.asked)
		answer, err := weftv1.NewPredictionServiceClient(s.r.conn).Predict(s.t.Context(), q)
		if err != nil {
			return "", err
		}
		by[answer.GetModel().GetVersion()]++
	}
	return counts(by), nil
}

func (s *script) rewards(args []string) (string, error) {
	each, err := strconv.ParseFloat(args[1], 64)
	s.Check(err)
	client, models := weftv1.NewPredictionServiceClient(s.r.conn), weftv1.NewModelServiceClient(s.r.conn)
	for end := time.Now().Add(weftest.Patience); time.Now().Before(end); {
		q := weftest.Request(args[0], 1)
		s.asked++
		q.EpisodeId = fmt.Sprint("new ", s.asked)
		answer, err := client.Predict(s.t.Context(), q)
		if err != nil {
			return "", err
		}
		reward := each*float64(answer.GetModel().GetVersion()) + float64(s.asked%3)
		if _, err = client.ReportOutcome(s.t.Context(), &weftv1.ReportOutcomeRequest{
			Model: &weftv1.ModelSpec{Name: args[0]}, EpisodeId: q.GetEpisodeId(), Reward: &reward,
		}); err != nil {
			return "", err
		}
		now, err := models.GetRollout(s.t.Context(), &weftv1.GetRolloutRequest{Model: args[0]})
		if err != nil || now.GetRollout().GetState() != weftv1.RolloutState_ROLLOUT_STATE_RUNNING {
			return "", err
		}
	}
	return "", errors.New("the rollout still runs")
}

func (s *script) flood(args []string) (string, error) {
	n, err := strconv.Atoi(args[1])
	s.Check(err)
	ended, _ := weftest.Predict(s.t.Context(), s.r.conn, args[0], "x", n)
	names := map[string]int{}
	for code, n := range ended {
		names[code.String()] = n
	}
	return counts(names), nil
}

// counts prints how often there was what.
func counts[K int64 | string](of map[K]int) (out string) {
	var outSb321 strings.Builder
	for _, key := range slices.Sorted(maps.Keys(of)) {
		outSb321.WriteString(fmt.Sprintf("%v: %d\n", key, of[key]))
	}
	out += outSb321.String()
	return out
}

func (s *script) get(args []string) (string, error) {
	ctx, token, args := s.as(args)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.r.http+args[0], http.NoBody)
	s.Check(err)
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return fmt.Sprintf("%d\n%s", answer.StatusCode, body), err
}

func (s *script) pages(args []string) (string, error) {
	for i, token := range []string{"none", s.Getenv("pilot"), s.Getenv("ada")} {
		as := []string{"-token", token, args[0]}
		if i == 0 {
			as = as[2:]
		}
		said, err := s.get(as)
		if code, _, _ := strings.Cut(said, "\n"); err != nil || code != args[i+1] {
			return "", fmt.Errorf("%s of caller %d is %s, %w; want %s", args[0], i, code, err, args[i+1])
		}
	}
	return "", nil
}

func (s *script) logged(args []string) (string, error) {
	return strings.Join(append(s.log.Lines("event="+args[0]+" "), ""), "\n"), nil
}

func (s *script) check(args []string) (string, error) {
	var how Checking
	for args[0] == "-load" || args[0] == "-json" {
		how.Load, how.JSON = how.Load || args[0] == "-load", how.JSON || args[0] == "-json"
		args = args[1:]
	}
	c, err := s.settings(args)
	s.Check(err)
	var out strings.Builder
	err = Check(c, how, &out, s.Stderr())
	return out.String(), err
}

func (s *script) upload(args []string) (string, error) {
	ctx, _, args := s.as(args)
	how := ""
	if strings.HasPrefix(args[0], "-") {
		how, args = args[0], args[1:]
	}
	ctx, cancel := context.WithTimeout(ctx, weftest.Patience)
	defer cancel()
	call, err := weftv1.NewAdminServiceClient(s.r.admin).UploadVersion(ctx)
	s.Check(err)
	start, content := &weftv1.UploadStart{Model: args[0]}, []byte(nil)
	start.Version, err = strconv.ParseInt(args[1], 10, 64)
	s.Check(err)
	for _, name := range args[2:] {
		data, err := os.ReadFile(s.MkAbs(name))
		s.Check(err)
		sum := sha256.Sum256(data)
		content = append(content, data...)
		start.Files = append(start.Files, &weftv1.UploadFile{
			Name: filepath.Base(name), Bytes: int64(len(data)), Sha256: sum[:],
		})
	}
	switch how {
	case "-wrong":
		content[0]++
	case "-short", "-cut":
		content = content[:len(content)/2]
	}
	// gRPC returns io.EOF once the server has answered; CloseAndRecv has the answer.
	_ = call.Send(&weftv1.UploadVersionRequest{Part: &weftv1.UploadVersionRequest_Start{Start: start}})
	for chunk := range slices.Chunk(content, 1<<20) {
		_ = call.Send(&weftv1.UploadVersionRequest{Part: &weftv1.UploadVersionRequest_Chunk{Chunk: chunk}})
	}
	if how == "-cut" {
		_, err := s.left([]string{"1", "repo"})
		s.Check(err)
		cancel()
	}
	answer, err := call.CloseAndRecv()
	if err != nil {
		return "", fmt.Errorf("%v: %s", status.Code(err), status.Convert(err).Message())
	}
	return fmt.Sprintf("version %d served %v\n", answer.GetVersion(), answer.GetServed()), nil
}

func (s *script) left(args []string) (string, error) {
	for end := time.Now().Add(weftest.Patience); ; <-time.After(5 * time.Millisecond) { // nothing tells but asking
		in, err := filepath.Glob(s.MkAbs(args[1]) + "/.weft-upload-*")
		s.Check(err)
		below, err := filepath.Glob(s.MkAbs(args[1]) + "/*/.weft-upload-*")
		s.Check(err)
		if all := slices.Concat(in, below); strconv.Itoa(len(all)) == args[0] {
			return "", nil
		} else if time.Now().After(end) {
			return "", fmt.Errorf("uploads left %q", all)
		}
	}
}

func (s *script) sketch(args []string) (string, error) {
	m, err := sketch.Parse(args[1])
	if err != nil {
		return "", err
	}
	file := s.MkAbs(args[0])
	return "", errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, m.Graph.Marshal(), 0o600))
}

func (s *script) token(args []string) (string, error) {
	token, line := access.NewToken(args[0])
	s.Setenv(args[0], token)
	file, err := os.OpenFile(s.MkAbs("tokens.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	s.Check(err)
	_, err = fmt.Fprintln(file, line)
	return "", errors.Join(err, file.Close())
}
