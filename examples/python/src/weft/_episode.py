"""Episodes of models whose state the server keeps."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import grpc
import numpy.typing as npt

from ._answer import Answer, WeftError
from .v1 import model_pb2

# Inputs by name.
_Inputs = Mapping[str, npt.ArrayLike]
# What a step has done for it: a call, or a wait of so many seconds. A call is answered, or the error is thrown.
_Work = Generator[Callable[[], Any] | float, Any, Any]

# The waits between attempts where the server says nothing. Each is twice the one before.
_LEAST_WAIT, _MOST_WAIT = 0.05, 1.0
# How often a step has the episode begun again: a server that loses it each time is no help.
_RECOVERIES = 3


class _Steps:
    """What the steps of an episode ask for; who asks it is for LiveEpisode and AsyncLiveEpisode."""

    def __init__(self, client: Any, model: str, episode: str, *, outputs: Sequence[str] = (), attempt: float | None = None,
                 checkpoint_every: int = 0, state: Mapping[str, str] | None = None, version: int | None = None,
                 label: str | None = None, **choice: Any) -> None:
        """client sends each call once: at the deadline gRPC's own retries would not say what the refusal was."""
        self._client, self._model, self._version = client, model, {"version": version, "label": label}
        self._common = {"model": model, "episode": episode, **self._version, **choice}
        self._outputs, self._attempt, self._every, self._state = tuple(outputs), attempt, checkpoint_every, dict(state or {})
        self._agreed = not checkpoint_every  # the state is as the server has it
        self._step = 0  # the latest number
        self._last: dict[str, Any] | None = None  # the request that has it
        self._answered = False  # a step was
        self._lost = False  # the server does not have it, or not all of it
        # With checkpoint_every: the state inputs of the last checkpoint, and the steps that were answered since.
        self._saved: dict[str, npt.ArrayLike] = {}
        self._since: list[dict[str, Any]] = []
        #: The tables that led the answers to their version, for report_outcome.
        self.tables: set[str] = set()

    def _next(self, inputs: _Inputs, timeout: float | None) -> _Work:
        until = None if timeout is None else time.monotonic() + timeout
        if not self._agreed:
            yield from self._agree(until)
        self._step += 1
        saves = self._every > 0 and len(self._since) + 1 >= self._every
        more = sorted(set(self._state.values()) - set(self._outputs)) if saves else []
        q = {**self._common, "inputs": inputs, "outputs": (*self._outputs, *more), "begin_episode": not self._answered,
             "step": self._step}
        self._last = q
        answer = yield from self._run(q, until)
        self._answered = True
        if saves:
            self._saved, self._since = {input: answer[output] for input, output in self._state.items()}, []
            answer.drop(more)
        elif self._every:
            self._since.append(q)
        return answer

    def _agree(self, until: float | None) -> _Work:
        """Asks the server which state it keeps. A wrong state would show only when the episode must begin again."""
        about = yield from self._retried(functools.partial(self._client.metadata, self._model, **self._version), until)
        try:
            found = yield from self._retried(functools.partial(self._client._about, self._model), until)
        except WeftError as error:
            if error.code not in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED):
                raise
            if not self._state:
                raise ValueError(f"checkpoint_every of model {self._model!r}: expected state, as pairs of model.yaml, since "
                                 f"the server does not tell it: {error}") from None
        else:
            named = any(choice is not None for choice in self._version.values())
            self._state = _state_of(found, about.model.version, named, self._state)
        kept = set(self._state.values())
        self._outputs = self._outputs or tuple(t.name for t in about.signature.outputs if t.name not in kept)
        self._agreed = True

    def _run(self, q: dict[str, Any], until: float | None) -> _Work:
        if not self._lost:
            try:
                return (yield from self._send(q, until))
            except WeftError as error:
                self._lost = _is_lost(error) and self._every > 0
                if not self._lost:
                    raise
        for left in reversed(range(_RECOVERIES)):
            try:
                answer = yield from self._repeat(q, until)
                self._lost = False
                break
            except WeftError as error:
                if not left or not _is_lost(error):
                    raise
        return answer

    def _repeat(self, q: dict[str, Any], until: float | None) -> _Work:
        """Begins the episode again, and returns the answer to the last step. The steps get new numbers: the server takes
        lower ones than it has seen for late copies."""
        for i, step in enumerate([*self._since, q]):
            self._step += 1
            again = self._last = {**step, "begin_episode": i == 0, "step": self._step}
            if i == 0:
                again["inputs"] = {**step["inputs"], **self._saved}
            answer = yield from self._send(again, until)
        return answer

    def _finish(self, timeout: float | None) -> _Work | None:
        if self._last is None or self._lost:
            return None
        q = {**self._last, "begin_episode": False, "end_of_episode": True}
        return self._send(q, None if timeout is None else time.monotonic() + timeout)

    def _send(self, q: dict[str, Any], until: float | None) -> _Work:
        answer = yield from self._retried(functools.partial(self._client.predict, **q), until)
        self.tables.add(answer.table)
        return answer

    def _retried(self, call: Callable[..., Any], until: float | None) -> _Work:
        """Makes a call until it is answered, or cannot be. An error of the deadline says what the last refusal was."""
        wait, refusal = _LEAST_WAIT, None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            times = [t for t in (left, self._attempt) if t is not None]
            try:
                return (yield functools.partial(call, timeout=min(times, default=None)))
            except WeftError as error:
                late, after = error.code is grpc.StatusCode.DEADLINE_EXCEEDED, error.retry_after
                if after is None and error.code is grpc.StatusCode.UNAVAILABLE:
                    after = wait * random.uniform(0.8, 1)
                elif after is None and late and self._attempt is not None:
                    after = 0.0
                if not late:
                    refusal = error
                elif refusal is not None and not error.reason:
                    error.after(refusal)
                if after is None or until is not None and time.monotonic() + after >= until:
                    raise
            yield after
            wait = min(2 * wait, _MOST_WAIT)


def _state_of(model: model_pb2.Model, version: int, named: bool, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the pairs that the server keeps: those of the version that a request gets, or of another one that requests
    may get. Raises ValueError if others were given."""
    kept = [v for v in model.versions if v.kept_inputs and (
        v.version == version or not named and v.state == model_pb2.VERSION_STATE_READY)]
    inputs = min(kept, key=lambda v: v.version != version).kept_inputs if kept else ()
    pairs = {i.input: i.output for i in inputs if not i.window}
    if not pairs:
        raise ValueError(f"checkpoint_every of model {model.name!r}: the server keeps " + (
            "only windows, which have no checkpoint" if inputs else "no state (state in model.yaml)") + ": leave it out")
    faults = [f"{i!r} with the output {o!r} is missing" if i not in given else f"{i!r} has the output {o!r}, got {given[i]!r}"
              for i, o in pairs.items() if given and given.get(i) != o]
    faults += [f"{i!r} is no input with an output that the server keeps" for i in given if i not in pairs]
    if faults:
        raise ValueError(f"state of model {model.name!r}: {'; '.join(faults)}; leave it out to have the server's")
    return pairs


def _is_lost(error: WeftError) -> bool:
    return error.reason == "EPISODE_LOST"


class LiveEpisode(_Steps):
    """An episode of a model whose state the server keeps. Its steps are numbered, so each counts once, however often it
    must be sent. One thread at a time uses it. Client.episode makes it."""

    def step(self, inputs: _Inputs, *, timeout: float | None = None) -> Answer:
        """Does the next step, and returns its answer. Raises WeftError.

        Within timeout it is sent again where the server has no room or is not there, and where an attempt took too long.
        If the server has lost the episode, it begins again from the last checkpoint, and the steps since are repeated;
        windows of model.yaml begin anew then. The inputs must not change until the next checkpoint. A step that failed
        may have counted or not, and the next one goes on after it.
        """
        return self._do(self._next(inputs, timeout))

    def end(self, *, timeout: float | None = None) -> None:
        """Ends the episode: its latest step, sent again as the last one, runs only if it has not run. It is no error that
        the server has lost the episode."""
        if (work := self._finish(timeout)) is not None:
            try:
                self._do(work)
            except WeftError as error:
                if not _is_lost(error):
                    raise

    def _do(self, work: _Work) -> Answer:
        try:
            todo = next(work)
            while True:
                if isinstance(todo, float):
                    time.sleep(todo)
                    todo = next(work)
                    continue
                try:
                    answer = todo()
                except WeftError as error:
                    todo = work.throw(error)
                else:
                    todo = work.send(answer)
        except StopIteration as end:
            done: Answer = end.value
            return done


class AsyncLiveEpisode(_Steps):
    """LiveEpisode for asyncio: each method is a coroutine."""

    async def step(self, inputs: _Inputs, *, timeout: float | None = None) -> Answer:
        """See LiveEpisode.step."""
        return await self._do(self._next(inputs, timeout))

    async def end(self, *, timeout: float | None = None) -> None:
        """See LiveEpisode.end."""
        if (work := self._finish(timeout)) is not None:
            try:
                await self._do(work)
            except WeftError as error:
                if not _is_lost(error):
                    raise

    async def _do(self, work: _Work) -> Answer:
        try:
            todo = next(work)
            while True:
                if isinstance(todo, float):
                    await asyncio.sleep(todo)
                    todo = next(work)
                    continue
                try:
                    answer = await todo()
                except WeftError as error:
                    todo = work.throw(error)
                else:
                    todo = work.send(answer)
        except StopIteration as end:
            done: Answer = end.value
            return done
