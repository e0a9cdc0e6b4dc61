"""Models that give back what they get, and one that is slow."""

import atexit
import functools
import os
import shutil
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

# The element types that clients send: the protocol's name, numpy's, and that of ONNX.
TYPES = {
    "FP32": (np.float32, TensorProto.FLOAT),
    "FP16": (np.float16, TensorProto.FLOAT16),
    "INT8": (np.int8, TensorProto.INT8),
    "INT64": (np.int64, TensorProto.INT64),
    "BOOL": (np.bool_, TensorProto.BOOL),
    "BYTES": (np.object_, TensorProto.STRING),
}

SLOW = """
synth:
  base: 50ms
  per_row: 0ms
  jitter: 0.0
  inputs: {x: {dtype: fp32, shape: [-1, 4]}}
  outputs: {y: {dtype: fp32, shape: [-1, 4]}}
"""


def write_models(folder):
    """Writes a model echo_TYPE for each element type, two versions of echo_fp32, and one that takes 50 ms."""
    for name, (_, element) in TYPES.items():
        shape = ["rows", 2]
        graph = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "echo",
            [helper.make_tensor_value_info("x", element, shape)],
            [helper.make_tensor_value_info("y", element, shape)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        for version in ("1", "2") if name == "FP32" else ("1",):
            path = os.path.join(folder, "echo_" + name.lower(), version)
            os.makedirs(path)
            onnx.save(model, os.path.join(path, "model.onnx"))
    with open(os.path.join(folder, "echo_fp32", "model.yaml"), "w", encoding="utf-8") as manifest:
        manifest.write("versions: {policy: all}\nbatching: {max_request_rows: 50000}\n")
    os.makedirs(os.path.join(folder, "slow", "1"))
    with open(os.path.join(folder, "slow", "model.yaml"), "w", encoding="utf-8") as manifest:
        manifest.write(SLOW)


@functools.cache
def models():
    """The folder of the models, which stays until the program ends."""
    folder = tempfile.mkdtemp(prefix="weftserve-clients-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_models(folder)
    return folder
