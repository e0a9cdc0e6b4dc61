"""A client of the Weft model server.

    client = weft.Client("127.0.0.1:9000")
    action = client.predict("cartpole", {"observation": observation})["action"]
    action = client.predict("cartpole", observation)["action"]  # a model of one input

AsyncClient is the same for asyncio, Client.stream is for a closed loop, and run_episode plays an environment of
Gymnasium's kind with a served policy.
"""

import importlib.metadata

from ._answer import Answer, Priority, WeftError
from ._client import AsyncClient, Client, Tls
from ._episode import AsyncLiveEpisode, LiveEpisode
from ._loop import Episode, run_episode, run_episode_async
from ._stream import Stream

__all__ = [
    "Answer", "AsyncClient", "AsyncLiveEpisode", "Client", "Episode", "LiveEpisode", "Priority", "Stream", "Tls",
    "WeftError", "__version__", "run_episode", "run_episode_async",
]

try:
    __version__ = importlib.metadata.version("weftserve-client")
except importlib.metadata.PackageNotFoundError:  # a copy of the files
    __version__ = "unknown"
