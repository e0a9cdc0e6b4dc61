"""What a caller with types writes. Nobody runs it: mypy reads it, with the package."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

import weft


def act(answer: weft.Answer) -> int:
    """Returns the action of an answer with one row."""
    return int(answer["action"][0])


def play(env: gymnasium.Env[npt.NDArray[np.float32], Any]) -> float:
    """Plays an environment of Gymnasium."""
    with weft.Client("127.0.0.1:9000") as client:
        client.predict("balance", {"observation": [[0.0, 0.0, 0.0, 0.0]]}, priority=weft.Priority.SHEDDABLE, target=0.01)
        with client.stream() as stream:
            act(stream.predict("balance", np.zeros((1, 4), np.float32), supersede=True, episode="robot-7/42", timeout=0.02))
        return weft.run_episode(client, "balance", env, input="observation", act=act, timeout=0.02, seed=1).reward
