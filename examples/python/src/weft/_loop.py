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

    def reset(self) -> tuple[Any, dict[str, Any]]:
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
    #: Steps for which no answer came in time; the action before was kept.
    late: int = 0


Act = Callable[[Answer], Any]

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
    episode: Episode = dataclasses.field(default_factory=lambda: Episode(uuid.uuid4().hex))
    action: Any = None

    def question(self, observation: Any) -> dict[str, Any]:
        """Returns the arguments of predict."""
        row = np.asarray(observation, dtype=np.float32)[np.newaxis]
        return {"model": self.model, "inputs": {self.input: row}, "episode": self.episode.id, "timeout": self.timeout}

    def answered(self, answer: Answer) -> None:
        self.episode.version, self.action = answer.version, self.act(answer)

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
                "version": self.episode.version}


def run_episode(client: Client, model: str, env: Environment, *, input: str, act: Act, max_steps: int = 1000,
                timeout: float | None = None) -> Episode:
    """Plays one episode and reports its reward. act makes an action of an answer, such as lambda a: a["action"][0].

    All requests are of one episode, so that one version plays it. A step without an answer within timeout seconds
    repeats the action before.
    """
    loop = _Loop(env, model, input, act, max_steps, timeout)
    observation, last = env.reset()[0], False
    while not last:
        try:
            loop.answered(client.predict(**loop.question(observation)))
        except WeftError as error:
            loop.failed(error)
        observation, last = loop.step()
    client.report_outcome(**loop.outcome())
    return loop.episode


async def run_episode_async(client: AsyncClient, model: str, env: Environment, *, input: str, act: Act,
                            max_steps: int = 1000, timeout: float | None = None) -> Episode:
    """See run_episode. Many may run at once: their requests share batches."""
    loop = _Loop(env, model, input, act, max_steps, timeout)
    observation, last = env.reset()[0], False
    while not last:
        try:
            loop.answered(await client.predict(**loop.question(observation)))
        except WeftError as error:
            loop.failed(error)
        observation, last = loop.step()
    await client.report_outcome(**loop.outcome())
    return loop.episode
