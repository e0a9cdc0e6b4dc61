package fetch

import "testing"

func TestNPMReason(t *testing.T) {
	tests := []struct{ stderr, want string }{
		{
			"npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error network request to x failed, " +
				"reason: getaddrinfo ENOTFOUND host.invalid\nnpm error network This is a problem\n",
			"getaddrinfo ENOTFOUND host.invalid",
		},
		{"npm error code E404\nnpm error 404 Not Found\n", "E404"},
		{"", ""},
	}
	for _, tt := range tests {
		if got := npmReason(tt.stderr); got != tt.want {
			t.Errorf("npmReason(%q) = %q, want %q", tt.stderr, got, tt.want)
		}
	}
}
