"""Balances the pole of Gymnasium's CartPole-v1 by positions alone, with the policy positions-gru of examples/models.

The policy remembers, and the server keeps what it remembers: positions.py [ADDRESS [SEED]]. A server that ends and comes
back within a minute costs nothing but that time, since the state is fetched after each ten steps.
"""

import sys
import uuid

import gymnasium
import numpy as np

import weft


def play(address: str = "127.0.0.1:9000", seed: str = "1") -> None:
    """Plays an episode, and prints how it went."""
    env = gymnasium.make("CartPole-v1").unwrapped
    (position, _, angle, _), _ = env.reset(seed=int(seed))
    with weft.Client(address) as client:
        episode = client.episode("positions-gru", f"positions/{uuid.uuid4()}", attempt=1, checkpoint_every=10)
        steps, fell = 0, False
        while steps < 500 and not fell:
            seen = np.array([[position, angle]], np.float32)
            force = 10 * float(episode.step({"observation": seen}, timeout=60)["action"][0, 0])
            env.force_mag = abs(force)  # Gymnasium chooses the side only
            (position, _, angle, _), _, fell, _, _ = env.step(int(force > 0))
            steps += 1
        episode.end(timeout=10)
    print(f"the pole {'fell' if fell else 'stood'} after {steps} steps")


if __name__ == "__main__":
    play(*sys.argv[1:])
