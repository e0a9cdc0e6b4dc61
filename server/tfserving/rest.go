package tfserving

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weftserve/weft/proto/gen/tensorflow/serving"
	"github.com/weftserve/weft/runtime/tensor"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/server/routing"
	"github.com/weftserve/weft/server/status"
	"github.com/weftserve/weft/server/web"
)

// REST serves TensorFlow Serving's API over HTTP and JSON, and with it version 1 of KServe's, which has the same call.
type REST struct {
	Predictions Predictions
	Models      Models
	Pages       web.Pages
}

// Register has mux serve the pages.
func (s *REST) Register(mux *web.Mux) {
	predictions := serving.PredictionService_ServiceDesc.ServiceName
	models := serving.ModelService_ServiceDesc.ServiceName
	for _, of := range []string{
		"/v1/models/{model}", "/v1/models/{model}/versions/{version}", "/v1/models/{model}/labels/{label}",
	} {
		s.Pages.Add(mux, "POST "+of+":predict", predictions, "Predict", s.predict)
		for _, method := range []string{"classify", "regress"} {
			s.Pages.Add(mux, "POST "+of+":"+method, predictions, "Predict", func(v *web.Visit) (any, error) {
				return nil, s.fail(v.Ctx, &status.UnsupportedError{
					What: "the call " + method, Instead: "use :predict, with the inputs that GET " + of + "/metadata shows",
				})
			})
		}
		s.Pages.Add(mux, "GET "+of, models, "GetModelStatus", s.status)
		s.Pages.Add(mux, "GET "+of+"/metadata", predictions, "GetModelMetadata", s.metadata)
	}
}

// fail returns the error with which a call ends that is about no version.
func (s *REST) fail(ctx context.Context, err error) error {
	return s.Predictions.Fail(ctx, err, predict.Place{})
}

// specIn returns the model and the version that a path names. The error is a *tensor.FieldError.
func specIn(v *web.Visit) (*serving.ModelSpec, routing.Choice, error) {
	m := &serving.ModelSpec{Name: v.Model()}
	if label := v.R.PathValue("label"); label != "" {
		m.VersionChoice = &serving.ModelSpec_VersionLabel{VersionLabel: label}
	}
	if text := v.Version(); text != "" {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil || number < 0 {
			return nil, routing.Choice{}, &tensor.FieldError{
				Field: "the version in the path", Want: "a number (a label stands after /labels/)", Got: routing.Quote(text),
			}
		}
		m.VersionChoice = specOf("", number).GetVersionChoice()
	}
	return m, choiceOf(m), nil
}

// status answers with the states of a model's versions. The code is 503 where none of them is available, or the
// server is about to stop: so probes of KServe read it, which look for "ready".
func (s *REST) status(v *web.Visit) (any, error) {
	m, _, err := specIn(v)
	if err != nil {
		return nil, s.fail(v.Ctx, err)
	}
	all, err := s.Models.GetModelStatus(v.Ctx, &serving.GetModelStatusRequest{ModelSpec: m})
	if err != nil {
		return nil, err
	}
	type said struct {
		Code string `json:"error_code"`
		Text string `json:"error_message"`
	}
	type version struct {
		Version string `json:"version"`
		State   string `json:"state"`
		Status  said   `json:"status"`
	}
	list, ready := []version{}, false
	for _, one := range all.GetModelVersionStatus() {
		code := "OK"
		if one.GetStatus().GetErrorCode() != 0 {
			code = "UNKNOWN"
		}
		list = append(list, version{
			strconv.FormatInt(one.GetVersion(), 10), one.GetState().String(), said{code, one.GetStatus().GetErrorMessage()},
		})
		ready = ready || one.GetState() == serving.ModelVersionStatus_AVAILABLE
	}
	ready = ready && !s.Models.Pipeline.Gate().Has(predict.Retiring)
	code := http.StatusOK
	if !ready {
		code = http.StatusServiceUnavailable
	}
	return web.Coded{Code: code, Value: map[string]any{
		"name": v.Model(), "ready": ready, "model_version_status": list,
	}}, nil
}

// metadata answers with the signature of the version that a request with the same path would get now.
func (s *REST) metadata(v *web.Visit) (any, error) {
	m, _, err := specIn(v)
	if err != nil {
		return nil, s.fail(v.Ctx, err)
	}
	about, err := s.Predictions.GetModelMetadata(v.Ctx, &serving.GetModelMetadataRequest{
		ModelSpec: m, MetadataField: []string{signatureField},
	})
	if err != nil {
		return nil, err
	}
	return message{about}, nil
}

// message is a message as protobuf's JSON has it, with the names of the .proto file.
type message struct{ proto.Message }

// MarshalJSON implements json.Marshaler.
func (m message) MarshalJSON() ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m.Message)
}

// predict answers a prediction.
func (s *REST) predict(v *web.Visit) (any, error) {
	r, err := s.read(v)
	if err != nil {
		return nil, s.fail(v.Ctx, err)
	}
	v.Slow()
	answer, err := s.Predictions.Run(v.Ctx, r)
	if err != nil {
		return nil, err
	}
	made := answer.(*restAnswer) // Encode has made it so
	// The answer counts as the body does, for the time in which it is written.
	if size := made.size(); size > web.SmallBody {
		if err := v.Hold(size); err != nil {
			made.free()
			return nil, s.fail(v.Ctx, err)
		}
	}
	return made, nil
}

// read reads a request and lets it in. The caller must have it answered by Run, which releases it.
func (s *REST) read(v *web.Visit) (*restRequest, error) {
	m, choice, err := specIn(v)
	if err != nil {
		return nil, err
	}
	body, err := v.ReadBody(s.Predictions.MaxMessageBytes)
	if err != nil {
		return nil, err
	}
	r := &restRequest{house: s.Predictions.Calls, body: body}
	r.Request = predict.Request{Model: m.GetName(), Choice: choice, Codec: r}
	size, err := r.parse()
	if err == nil && size > web.SmallBody {
		err = v.Hold(size)
	}
	if err == nil {
		err = v.LetIn(&r.Exchange, 0)
	}
	if err != nil {
		r.Release()
		return nil, err
	}
	return r, nil
}
