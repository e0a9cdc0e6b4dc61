package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// page is a server's metrics by name.
type page map[string]*dto.MetricFamily

// metrics reads the page of metrics and keeps it next to the log.
func (v *server) metrics(ctx context.Context) (page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.http+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, write(filepath.Join(v.dir, "metrics.txt"), text)); err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// value returns the gauge or counter of that name whose label has that value.
func (p page) value(name, label, value string) (float64, error) {
	m, err := p.find(name, label, value)
	return m.GetGauge().GetValue() + m.GetCounter().GetValue(), err // one of them is there
}

func (p page) find(name, label, value string) (*dto.Metric, error) {
	for _, m := range p[name].GetMetric() {
		if labelOf(m, label) == value {
			return m, nil
		}
	}
	return nil, fmt.Errorf("the server's metrics lack %s{%s=%q}", name, label, value)
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
