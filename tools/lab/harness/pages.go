package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Get returns a page of the server's HTTP address, by a connection of its own.
func (s *Server) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, answer.Status)
	}
	return text, err
}

// Metrics are a server's metrics by name.
type Metrics map[string]*dto.MetricFamily

// Metrics reads the server's metrics.
func (s *Server) Metrics(ctx context.Context) (Metrics, error) {
	text, err := s.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return ParseMetrics(text)
}

// ParseMetrics reads a page of metrics.
func ParseMetrics(text []byte) (Metrics, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// Sum returns the sum over all series of a gauge or counter.
func (m Metrics) Sum(name string) (sum float64) {
	for _, series := range m[name].GetMetric() {
		sum += valueOf(series)
	}
	return sum
}

// Value returns the gauge or counter of that name whose label has that value.
func (m Metrics) Value(name, label, value string) (float64, error) {
	series, err := m.Find(name, label, value)
	return valueOf(series), err
}

// Find returns the series of that name whose label has that value.
func (m Metrics) Find(name, label, value string) (*dto.Metric, error) {
	for _, series := range m[name].GetMetric() {
		if LabelOf(series, label) == value {
			return series, nil
		}
	}
	return nil, fmt.Errorf("the server's metrics lack %s{%s=%q}", name, label, value)
}

// LabelOf returns the value of a series' label, "" if it has none.
func LabelOf(series *dto.Metric, name string) string {
	for _, l := range series.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// valueOf returns what a gauge, a counter, or a series without a type says.
func valueOf(series *dto.Metric) float64 {
	return series.GetGauge().GetValue() + series.GetCounter().GetValue() + series.GetUntyped().GetValue()
}
