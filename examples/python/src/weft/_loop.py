"""Closed loops: a served policy plays an environment of Gymnasium's kind."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import grpc
import numpy as np

from ._answer import Answer, WeftError
from ._client import AsyncClient, Client


class Environment(Protocol):
    """What a loop needs of an environment, as gymnasium.Env has it."""

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, and returns the first observation."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns observation, reward, whether the episode has ended, or was cut short, and more."""


@dataclasses.dataclass
class Episode:
    """How an episode went."""

    id: str
    version: int | None = None
    steps: int = 0
    reward: float = 0.0
    #: The tables that led the answers to their version.
    tables: set[str] = dataclasses.field(default_factory=set)
    #: Steps for which no answer came in time; the action before was kept.
    late: int = 0


Act = Callable[[Answer], Any]

# The first step has no action to repeat, and connects: it may take so many seconds.
_FIRST = 5.0
# How long the report may take, in seconds: a server that stalls must not hold a loop that has ended.
_LAST = 10.0

# The codes of what may be otherwise at the next step.
_PASSING = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)


@dataclasses.dataclass
class _Loop:
    env: Environment
    model: str
    input: str
    act: Act
    max_steps: int
    timeout: float | None
    seed: int | None
    episode: Episode
    choice: dict[str, Any]
    action: Any = None

    def reset(self) -> Any:
        """Returns the first observation."""
        return (self.env.reset() if self.seed is None else self.env.reset(seed=self.seed))[0]

    def question(self, observation: Any) -> dict[str, Any]:
        """Returns the arguments of predict."""
        row = np.asarray(observation)[np.newaxis]
        if row.dtype == np.float64:
            row = row.astype(np.float32)
        timeout = self.timeout
        if timeout is not None and self.action is None:
            timeout = max(timeout, _FIRST)
        return {"model": self.model, "inputs": {self.input: row}, "episode": self.episode.id, "timeout": timeout,
                "begin_episode": self.episode.steps == 0, "step": self.episode.steps + 1, **self.choice}

    def answered(self, answer: Answer) -> None:
        self.episode.version, self.action = answer.version, self.act(answer)
        self.episode.tables.add(answer.table)

    def failed(self, error: WeftError) -> None:
        """Keeps the action before, as a robot would, where another answer may come in time."""
        if self.action is None or error.code not in _PASSING:
            raise error
        self.episode.late += 1

    def step(self) -> tuple[Any, bool]:
        """Returns the next observation, and whether it is the last one."""
        observation, reward, ended, cut, _ = self.env.step(self.action)
        self.episode.steps += 1
        self.episode.reward += float(reward)
        return observation, ended or cut or self.episode.steps == self.max_steps

    def outcome(self) -> dict[str, Any]:
        """Returns the arguments of report_outcome."""
        return {"model": self.model, "episode": self.episode.id, "reward": self.episode.reward,
                "version": self.episode.version, "tables": self.episode.tables}


def run_episode(client: Client, model: str, env: Environment, *, input: str, act: Act, max_steps: int = 1000,
                timeout: float | None = None, seed: int | None = None, episode: str = "", version: int | None = None,
                label: str | None = None) -> Episode:
    """Plays one episode and reports its reward. act makes an action of an answer, such as lambda a: a["action"][0].

    A step without an answer within timeout seconds repeats the action before; the first may take five. Observations of
    float64 are sent as float32. seed is for the environment's reset. All requests are of one episode, so that one version
    plays it: episode is its id, a new one if empty, by which the model's traffic chooses unless version or label does.
    Where the server keeps the state of episodes, the report ends it.
    """
    loop = _Loop(env, model, input, act, max_steps, timeout, seed, Episode(episode or uuid.uuid4().hex),
                 {"version": version, "label": label})
    observation, last = loop.reset(), False
    while not last:
        try:
            loop.answered(client.predict(**loop.question(observation)))
        except WeftError as error:
            loop.failed(error)
        observation, last = loop.step()
    client.report_outcome(**loop.outcome(), timeout=_LAST)
    return loop.episode


async def run_episode_async(client: AsyncClient, model: str, env: Environment, *, input: str, act: Act,
                            max_steps: int = 1000, timeout: float | None = None, seed: int | None = None,
                            episode: str = "", version: int | None = None, label: str | None = None) -> Episode:
    """See run_episode. Many may run at once: their requests share batches."""
    loop = _Loop(env, model, input, act, max_steps, timeout, seed, Episode(episode or uuid.uuid4().hex),
                 {"version": version, "label": label})
    observation, last = loop.reset(), False
    while not last:
        try:
            loop.answered(await client.predict(**loop.question(observation)))
        except WeftError as error:
            loop.failed(error)
        observation, last = loop.step()
    await client.report_outcome(**loop.outcome(), timeout=_LAST)
    return loop.episode
