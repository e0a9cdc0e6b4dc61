"""A client of the Weft model server.

    client = weft.Client("127.0.0.1:9000")
    action = client.predict("cartpole", {"observation": observation})["action"]

AsyncClient is the same for asyncio, and run_episode plays an environment of Gymnasium's kind with a served policy.
"""

from ._answer import Answer, Priority, WeftError
from ._client import AsyncClient, Client, Tls
from ._loop import Episode, run_episode, run_episode_async

__all__ = [
    "Answer", "AsyncClient", "Client", "Episode", "Priority", "Tls", "WeftError", "run_episode", "run_episode_async",
]
