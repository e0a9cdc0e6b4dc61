package access_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weftserve/weft/server/access"
	"github.com/weftserve/weft/sharedsched"
)

// start is when policies begin.
var start = time.Unix(1000, 0)

// only returns a policy of one identity.
func only(t testing.TB, q access.Quota, before *access.Policy) (*access.Policy, *access.Identity) {
	t.Helper()
	return from(t, start, q, before)
}

func from(t testing.TB, at time.Time, q access.Quota, before *access.Policy) (*access.Policy, *access.Identity) {
	t.Helper()
	caller, err := access.ParsePattern("anonymous")
	if err != nil {
		t.Fatal(err)
	}
	p := access.NewPolicy(&access.Config{
		Roles: map[string]access.Role{"all": {Predict: []string{"exact", "a*", "*z"}, Observe: []string{"*"}}},
		Identities: []access.Entry{
			{Name: "one", Weight: 3, Callers: []access.Pattern{caller}, Roles: []string{"all"}, Quota: q},
		},
	}, before, at)
	return p, p.Identify(nil)
}

// TestQuotasHold while 64 callers take and give back at random, and a reload changes the policy beside them.
func TestQuotasHold(t *testing.T) {
	const requests, bytes = 7, 1000
	q := access.Quota{Requests: requests, Bytes: bytes}
	first, id := only(t, q, nil)
	var now atomic.Pointer[access.Identity]
	now.Store(id)
	var inRequests, inBytes, most, refused atomic.Int64
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(caller), 1))
			for range 2000 {
				a, err := now.Load().Admit(nil)
				if err != nil {
					refused.Add(1)
					continue
				}
				n := inRequests.Add(1)
				most.Store(max(most.Load(), n))
				took := int64(0)
				for range r.IntN(3) {
					size := 1 + r.IntN(600)
					if a.Grow(size) == nil {
						took += int64(size)
						if b := inBytes.Add(int64(size)); b > bytes {
							t.Errorf("%d bytes are in", b)
						}
					}
				}
				if n > requests {
					t.Errorf("%d requests are in", n)
				}
				runtime.Gosched()
				inBytes.Add(-took)
				inRequests.Add(-1)
				a.Release()
				a.Release()
			}
		})
	}
	p := first
	for range 100 {
		p, id = only(t, q, p)
		now.Store(id)
	}
	wg.Wait()
	if r, b := id.InFlight(); r != 0 || b != 0 {
		t.Errorf("%d requests and %d bytes were not given back", r, b)
	}
	if most.Load() < 2 || refused.Load() == 0 {
		t.Errorf("at most %d were in at once, and %d were refused", most.Load(), refused.Load())
	}
}

func TestRate(t *testing.T) {
	p, id := only(t, access.Quota{Rate: 10, Burst: 3}, nil)
	at := start
	admit := func() *access.QuotaError {
		a, err := id.Admit(func() time.Time { return at })
		a.Release()
		e, _ := errors.AsType[*access.QuotaError](err)
		return e
	}
	for i := range 3 {
		if e := admit(); e != nil {
			t.Fatalf("request %d of a burst of 3: %v", i, e)
		}
	}
	e := admit()
	if e == nil || e.Quota != access.Rate || e.Again != 100*time.Millisecond || e.Limit != "10" {
		t.Fatalf("beyond the burst: %+v", e)
	}
	at = at.Add(e.Again)
	if e := admit(); e != nil {
		t.Errorf("when it was told to come again: %v", e)
	}
	if _, id = from(t, at, access.Quota{Rate: 10, Burst: 3}, p); admit() == nil {
		t.Error("a reload gives the rate again")
	}
	if _, id = from(t, at, access.Quota{}, p); admit() != nil {
		t.Error("a rate that was taken away still refuses")
	}
	if r, _ := id.InFlight(); r != 0 {
		t.Errorf("%d requests were not given back", r)
	}
}

func TestBytesThatNeverFit(t *testing.T) {
	_, id := only(t, access.Quota{Bytes: 100}, nil)
	first, _ := id.Admit(nil)
	if err := first.Grow(60); err != nil {
		t.Fatal(err)
	}
	second, _ := id.Admit(nil)
	for size, never := range map[int]bool{41: false, 100: false, 101: true} {
		e, _ := errors.AsType[*access.QuotaError](second.Grow(size))
		if e == nil || e.Never != never {
			t.Errorf("%d of 100 bytes, of which 60 are taken: %+v", size, e)
		}
	}
	second.Release()
	first.Release()
	if r, b := id.InFlight(); r != 0 || b != 0 {
		t.Errorf("%d requests and %d bytes were not given back", r, b)
	}
}

func TestPriorities(t *testing.T) {
	matter := []sharedsched.Priority{ // more to less
		sharedsched.CriticalPlus, sharedsched.Critical, sharedsched.SheddablePlus, sharedsched.Sheddable,
	}
	for m, most := range matter {
		_, id := only(t, access.Quota{MostPriority: most}, nil)
		for a, asked := range matter {
			got, err := id.Priority(asked, true)
			if (err == nil) != (a >= m) || err == nil && got != asked {
				t.Errorf("of at most %v, %v is %v, %v", most, asked, got, err)
			}
		}
		got, err := id.Priority(sharedsched.Critical, false)
		if want := matter[max(m, 1)]; err != nil || got != want {
			t.Errorf("of at most %v, none is %v, %v; want %v", most, got, err, want)
		}
	}
}

// TestUsed: which part of its quotas an identity uses, and of no others.
func TestUsed(t *testing.T) {
	p, id := only(t, access.Quota{Requests: 4, Bytes: 1000, Rate: 2, Burst: 8}, nil)
	var all []access.Admission
	for range 3 {
		a, err := id.Admit(func() time.Time { return start })
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if err := all[0].Grow(250); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]float64{
		"one": {access.RequestsInFlight: 0.75, access.BytesInFlight: 0.25, access.Rate: 0.375},
	}
	if diff := cmp.Diff(want, p.Used(start)); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	lowered, _ := only(t, access.Quota{Requests: 2}, p)
	if got := lowered.Used(start)["one"]; len(got) != 1 || got[access.RequestsInFlight] != 1 {
		t.Errorf("of a quota that was lowered below what is used: %v, want 1", got)
	}
	if none, _ := only(t, access.Quota{}, p); len(none.Used(start)) != 0 {
		t.Errorf("an identity without quotas uses %v of them", none.Used(start))
	}
}
