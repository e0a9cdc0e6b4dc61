package nvidia

import (
	"slices"
	"testing"
)

func TestVisible(t *testing.T) {
	plain := []whole{{uuid: "GPU-aa1"}, {uuid: "GPU-aa2"}, {uuid: "GPU-b"}}
	divided := []whole{{uuid: "GPU-a"}, {uuid: "GPU-b", parts: []string{"MIG-1", "MIG-2"}}}
	old := []whole{{uuid: "GPU-b", parts: []string{"MIG-GPU-b/1/0", "MIG-GPU-b/2/0"}}}
	at := func(w int) place { return place{w, undivided} }
	for _, tt := range []struct {
		name   string
		wholes []whole
		list   string // "unset": it is not
		want   []place
	}{
		{"all", plain, "unset", []place{at(0), at(1), at(2)}},
		{"none", plain, "", nil},
		{"hidden", plain, "-1", nil},
		{"a word", plain, "NoDevFiles", nil},
		{"numbers", plain, "2, 0", []place{at(2), at(0)}},
		{"up to the first that is not there", plain, "1,3,0", []place{at(1)}},
		{"twice", plain, "1,0,1", []place{at(1), at(0)}},
		{"UUID", plain, "GPU-b,GPU-aa1", []place{at(2), at(0)}},
		{"beginning of a UUID", plain, "GPU-aa2,GPU-b", []place{at(1), at(2)}},
		{"beginning of several", plain, "GPU-b,GPU-aa", []place{at(2)}},
		{"mixed", plain, "1,GPU-b", []place{at(1), at(2)}},
		{"one is divided", divided, "unset", []place{{1, 0}, {1, 1}}},
		{"the other one", divided, "0", []place{at(0)}},
		{"both", divided, "0,1", []place{{1, 0}, {1, 1}}},
		{"an instance", divided, "MIG-2", []place{{1, 1}}},
		{"instances", divided, "MIG-2,MIG-1", []place{{1, 1}, {1, 0}}},
		{"UUID of the divided one", divided, "GPU-b", []place{{1, 0}, {1, 1}}},
		{"names of drivers before 470", old, "MIG-GPU-b/2/0", []place{{0, 1}}},
		{"no device", nil, "unset", nil},
		{"no device", nil, "0", nil},
	} {
		named := &tt.list
		if tt.list == "unset" {
			named = nil
		}
		if got := visible(tt.wholes, named); !slices.Equal(got, tt.want) {
			t.Errorf("%s: CUDA_VISIBLE_DEVICES=%s: %v, want %v", tt.name, tt.list, got, tt.want)
		}
	}
}
