"""The golden vectors of the released BERT-flow, put into this library's flow."""

import json

import numpy as np
import torch

from embedlift.functional.glow import Glow

_NETWORK = {
    "conv_block/1_1/W": "weight1",
    "conv_block/1_1/actnorm/actnorm_center/b": "norm1.bias",
    "conv_block/1_1/actnorm/actnorm_scale/logs": "norm1.logs",
    "conv_block/1_2/W": "weight2",
    "conv_block/1_2/actnorm/actnorm_center/b": "norm2.bias",
    "conv_block/1_2/actnorm/actnorm_scale/logs": "norm2.logs",
    "zeros/W": "weight3",
    "zeros/b": "bias",
    "zeros/logs": "logs",
}
_STEP = {
    "actnorm/actnorm_center/b": "norm.bias",
    "actnorm/actnorm_scale/logs": "norm.logs",
    "invertible/P": "mixing.permutation",
    "invertible/sign_S": "mixing.sign",
    "invertible/L": "mixing.lower",
    "invertible/U": "mixing.upper",
    "invertible/log_S": "mixing.log_diagonal",
    **{
        f"{kind}/nn/{theirs}": f"coupling.network.{ours}"
        for kind in ("additive", "affine")
        for theirs, ours in _NETWORK.items()
    },
}


class Golden:
    """One file: its arrays, and the flow that it describes."""

    def __init__(self, path):
        self.arrays = np.load(path)
        self.config = json.loads(str(self.arrays["config_json"]))
        lu = any("invertible" in name for name in self.arrays.files)
        self.permutation = "lu" if lu else "reversal"

    def __getitem__(self, name):
        return torch.from_numpy(np.array(self.arrays[name]))

    def __contains__(self, name):
        return name in self.arrays.files

    def flow(self):
        config = self.config
        return Glow(
            config["D"],
            config["n_levels"],
            config["depth"],
            config["coupling_width"],
            config["coupling"],
            self.permutation,
        )

    def variables(self, prefix):
        """Return the arrays below ``prefix``, by the names of this library's state dict."""
        found = {}
        for name in self.arrays.files:
            if name.startswith(f"{prefix}.flow/revnet_"):
                level, step, rest = name[len(f"{prefix}.flow/revnet_") :].split("/", 2)
                ours = f"levels.{level}.{step.removeprefix('revnet_step_')}.{_STEP[rest]}"
                found[ours] = self[name]
        return found

    def loaded(self, state):
        """Return the flow in one of the recorded states."""
        flow = self.flow()
        own = flow.state_dict()
        for name, value in {**self.variables("fixed"), **self.variables(state)}.items():
            own[name] = value.reshape(own[name].shape)
        flow.load_state_dict(own)
        return flow
