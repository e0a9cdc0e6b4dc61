package sharedsched

import (
	"fmt"
	"testing"
	"time"
)

// TestAccountsAreBounded while versions with new names come and go; that of a version which stays is kept.
func TestAccountsAreBounded(t *testing.T) {
	settings := Settings{MaxBatchSize: 1, MaxBatchCost: time.Millisecond, MaxQueue: 1, MaxLatency: time.Second}
	c, err := NewCore(Config{Devices: []Device{{Name: "cpu", Class: "cpu", Lanes: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.AddFlow("f", "cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.AddVersion("stays/1", f, settings); err != nil {
		t.Fatal(err)
	}
	c.accounts[[2]string{"stays/1", "cpu"}].Accepted = 7
	for n := range 3 * maxAccounts {
		v, err := c.AddVersion(fmt.Sprintf("m/%d", n), f, settings)
		if err != nil {
			t.Fatal(err)
		}
		c.RemoveVersion(0, v, nil)
	}
	all := c.State(0).Accounts
	if len(all) > maxAccounts || len(all) < 2 {
		t.Errorf("%d accounts, want up to %d", len(all), maxAccounts)
	}
	if last := all[len(all)-1]; last.Name != "stays/1" || last.Accepted != 7 {
		t.Errorf("the account of the version that stays is %+v", last)
	}
}
