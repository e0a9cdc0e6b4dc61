package catalog

import "testing"

func TestInUseErrorTellsByWhom(t *testing.T) {
	for want, by := range map[string][]string{
		`label "stable" leads requests to it; change that first`:                                   {`label "stable"`},
		`label "stable" and slot "baseline" of the traffic lead requests to it; change that first`: {`label "stable"`, `slot "baseline" of the traffic`},
	} {
		if got := (&InUseError{Model: "m", Version: 2, By: by}).Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
