package activity

import (
	"fmt"
	"strings"
	"time"

	weftv1 "github.com/weftserve/weft/proto/gen/weft/v1"
	"github.com/weftserve/weft/server/predict"
	"github.com/weftserve/weft/sharedsched"
)

// mostHolders are named in a story.
const mostHolders = 3

// story tells the way of a request in sentences: how it came, waited, ran and ended. lane says where its batch ran,
// and step names the version that ran it as a step of a pipeline; "": it was none. b is nil where the batch is no
// longer remembered, or the request was not run in one.
func story(r *told, e *weftv1.Explanation, b *batch, lane, step string) []string {
	var s []string
	say := func(format string, args ...any) { s = append(s, fmt.Sprintf(format, args...)) }

	who := fmt.Sprintf("Request #%d", e.GetNumber())
	if r.id != "" {
		who += fmt.Sprintf(" (%q)", r.id)
	}
	of := "for no model of this server"
	if r.model != "" {
		of = "for " + name(r.model, e.GetVersion())
	}
	asked := ""
	if r.target > 0 {
		asked += ", wanted within " + took(ms(r.target))
	}
	if r.limit > 0 {
		asked += ", worth nothing after " + took(ms(r.limit))
	}
	from := ""
	if r.identity != "" {
		from = " from " + r.identity
	}
	say("%s came at %s%s, %s%s.", who, e.GetArrived().AsTime().Format("15:04:05.000"), from, of, asked)
	if e.GetEpisode() != "" {
		say("%s", stepStory(e))
	}

	switch {
	case step != "":
		say("In all, its steps waited %s for their turns and ran for %s, in %s.", took(e.GetStartedMs()-e.GetAdmittedMs()),
			took(e.GetComputedMs()-e.GetStartedMs()), count(uint32(r.executions), "execution", "executions"))
	case r.executions > 0:
		say("It was admitted after %s and waited %s for its turn.", took(e.GetAdmittedMs()),
			took(e.GetStartedMs()-e.GetAdmittedMs()))
	}
	if len(e.GetHolders()) > 0 {
		var held []string
		for i, h := range e.GetHolders() {
			if i == mostHolders {
				held = append(held, fmt.Sprintf("%d others", len(e.GetHolders())-i))
				break
			}
			held = append(held, fmt.Sprintf("%s for %s (%s)", name(h.GetModel(), h.GetVersion()), took(h.GetMs()),
				count(h.GetBatches(), "batch", "batches")))
		}
		say("Meanwhile the device %s was used by %s.", r.of.device, strings.Join(held, ", "))
	}
	if e.GetBatch() != nil {
		which := "Batch"
		if step != "" {
			which = "At the end, batch"
		}
		say("%s %d%s took it with %s: %s, run as %d. It started then because %s, and it was its turn by the rule %q.",
			which, e.GetBatch().GetNumber(), step, count(uint32(b.tasks-1), "other request", "other requests"),
			count(uint32(b.rows), "row", "rows"),
			b.padded, whys[b.reason], b.rule)
		expected := ""
		if b.estimated > 0 {
			expected = ", where " + took(ms(b.estimated)) + " were expected"
		}
		say("It ran %s on %s%s%s. It is charged %s of device time, its part by rows.", took(ms(b.elapsed)),
			e.GetBatch().GetDevice(),
			lane, expected, took(e.GetChargedMs()))
	} else if r.executions > 0 && r.batch == 0 {
		// No batch of the scheduler's: it ran in quarantine.
		say("It ran by itself for %s, because a run of it, or of others in its batch, hung or ended the engine's process.",
			took(e.GetComputedMs()-e.GetStartedMs()))
	} else if r.executions > 0 {
		say("It ran %s; the batch is no longer remembered. It is charged %s of device time.",
			took(e.GetComputedMs()-e.GetStartedMs()), took(e.GetChargedMs()))
	}
	if step == "" && r.executions > 1 && r.batch > 0 {
		say("Its rows were spread over %d executions, of which this was the last.", r.executions)
	}
	s = append(s, outcome(r, e))
	return s
}

// stepStory says how a request was a step of its episode.
func stepStory(e *weftv1.Explanation) string {
	text := fmt.Sprintf("It belongs to episode %q", e.GetEpisode())
	if e.GetStep() > 0 {
		text = fmt.Sprintf("It is step %d of episode %q", e.GetStep(), e.GetEpisode())
	}
	if e.GetSkippedSteps() > 0 {
		text += fmt.Sprintf(", before which %d were left out", e.GetSkippedSteps())
	}
	if e.GetTurnMs() >= toldTurn {
		text += ", and waited " + took(e.GetTurnMs()) + " for the step before it"
	}
	if text += "."; e.GetRepeated() {
		text += " It came again: it got the answer that there was, and nothing ran."
	}
	return text
}

// toldTurn is how many milliseconds a step must have waited for that to be told.
const toldTurn = 0.1

// outcome is the last sentence. Late and answered in time are told apart first: both are answers.
func outcome(r *told, e *weftv1.Explanation) string {
	all := took(e.GetEndedMs())
	switch {
	case r.late:
		return fmt.Sprintf("It was answered after %s: %s later than wanted, mostly because of %s.", all,
			took(e.GetEndedMs()-e.GetTargetMs()), blame(r, e))
	case r.ending == predict.Answered:
		return fmt.Sprintf("It was answered after %s.", all)
	}
	return fmt.Sprintf("It was %s after %s: %s.", r.ending, all, r.reason)
}

// blame names the longest part of a late request's time: before it was admitted, waiting, running, or after its
// execution. Where it waited longest, the version that used the device longest meanwhile is named; if none did, the
// device was free, and the batch was held until it was fuller.
func blame(r *told, e *weftv1.Explanation) string {
	before, waited := e.GetAdmittedMs(), e.GetStartedMs()-e.GetAdmittedMs()
	ran, after := e.GetComputedMs()-e.GetStartedMs(), e.GetEndedMs()-e.GetComputedMs()
	if e.GetTurnMs() > e.GetEndedMs()/2 { // it is a part of the time before
		return "waiting for the step of its episode before it"
	}
	// Where parts are equally long the first of these cases is named.
	switch max(before, waited, ran, after) {
	case before:
		return "the time before it was admitted: the server's own processor was busy"
	case after:
		return "the time after its execution: the server's own processor was busy"
	case ran:
		return "its own execution"
	}
	if holders := e.GetHolders(); len(holders) > 0 {
		h := holders[0]
		if h.GetModel() == r.model && h.GetVersion() == e.GetVersion() {
			return "waiting behind other requests of its own version"
		}
		return "waiting behind " + name(h.GetModel(), h.GetVersion())
	}
	return "waiting for its batch to fill"
}

// whys say why a batch started when it did.
var whys = map[sharedsched.FlushReason]string{
	sharedsched.FlushBudgetReached:           "one more request would have cost more device time than one batch may take",
	sharedsched.FlushTimeout:                 "its first request had waited for the batch timeout",
	sharedsched.FlushSingleRequestOverBudget: "one row alone costs more than one batch may take",
	sharedsched.FlushFull:                    "it was full",
	sharedsched.FlushDeviceIdle:              "the device was free",
	sharedsched.FlushDeadline:                "waiting longer would have missed a target or a limit",
	sharedsched.FlushDrain:                   "the version or the server was draining",
	sharedsched.FlushUnbatched:               "the version runs requests one by one",
}

// name is how people call a version; 0 is none.
func name(model string, version int32) string {
	if version == 0 {
		return model
	}
	return fmt.Sprintf("%s v%d", model, version)
}

// count writes a number of things.
func count(n uint32, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// took writes milliseconds for people.
func took(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", ms)
	case d < 10*time.Second:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
