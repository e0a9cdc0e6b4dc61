"""A policy of Stable-Baselines3 as a module whose forward is model.predict(observation, deterministic=True), to export."""

import gymnasium
import numpy as np
import torch

# The exporter has no operator for the checks of distributions' arguments.
torch.distributions.Distribution.set_default_validate_args(False)


class Deterministic(torch.nn.Module):
    """The action of model.predict(observation, deterministic=True), with the statistics of VecNormalize if there are any."""

    def __init__(self, model):
        super().__init__()
        self.policy, self.space, normalize = model.policy.cpu(), model.action_space, model.get_vec_normalize_env()
        self.clip = normalize.clip_obs if normalize and normalize.norm_obs else None
        if self.clip is not None:
            rms = normalize.obs_rms
            self.register_buffer("mean", torch.tensor(rms.mean, dtype=torch.float32))
            self.register_buffer("scale", torch.tensor(np.sqrt(rms.var + normalize.epsilon), dtype=torch.float32))
        if isinstance(self.space, gymnasium.spaces.Box):
            self.register_buffer("low", torch.tensor(self.space.low))
            self.register_buffer("high", torch.tensor(self.space.high))

    def forward(self, observation):
        if self.clip is not None:
            observation = ((observation - self.mean) / self.scale).clamp(-self.clip, self.clip)
        action = self.policy._predict(observation, deterministic=True)
        if not isinstance(self.space, gymnasium.spaces.Box):
            return action
        if self.policy.squash_output:
            return self.low + 0.5 * (action + 1.0) * (self.high - self.low)
        return torch.clamp(action, self.low, self.high)
