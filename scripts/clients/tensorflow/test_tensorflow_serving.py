"""TensorFlow Serving's client, as it is, against a Weft server."""

import os
import sys
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2, get_model_status_pb2, model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc,
)

import serving


class TensorFlowServing(unittest.TestCase):
    """Calls of tensorflow-serving-api."""

    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server()
        cls.addClassCleanup(cls.server.close)
        channel = grpc.insecure_channel(cls.server.address)
        cls.addClassCleanup(channel.close)
        cls.predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        cls.models = model_service_pb2_grpc.ModelServiceStub(channel)

    def predict(self, made):
        """The actions for observations."""
        q = predict_pb2.PredictRequest()
        q.model_spec.name, q.model_spec.signature_name = "cartpole", "serving_default"
        q.inputs["observation"].CopyFrom(made)
        answer = self.predictions.Predict(q, 30)
        self.assertEqual(3, answer.model_spec.version.value)
        return tf.make_ndarray(answer.outputs["action"])

    def test_predict(self):
        leaning = np.array([[0, 0, -0.1, 0], [0, 0, 0.1, 0]], np.float32)
        left, right = self.predict(tf.make_tensor_proto(leaning))[:, 0]
        self.assertLess(left, -0.5)
        self.assertGreater(right, 0.5)
        whole = self.predict(tf.make_tensor_proto(np.full((2, 4), 0.1, np.float32)))
        one = self.predict(tf.make_tensor_proto(0.1, shape=[2, 4], dtype=tf.float32))
        np.testing.assert_array_equal(whole, one)

    def test_metadata(self):
        q = get_model_metadata_pb2.GetModelMetadataRequest()
        q.model_spec.name = "cartpole"
        q.metadata_field.append("signature_def")
        signatures = get_model_metadata_pb2.SignatureDefMap()
        self.predictions.GetModelMetadata(q, 30).metadata["signature_def"].Unpack(signatures)
        observation = signatures.signature_def["serving_default"].inputs["observation"]
        self.assertEqual((tf.float32.as_datatype_enum, [-1, 4]),
                         (observation.dtype, [d.size for d in observation.tensor_shape.dim]))

    def test_status(self):
        q = get_model_status_pb2.GetModelStatusRequest()
        q.model_spec.name = "cartpole"
        states = {v.version: v.state for v in self.models.GetModelStatus(q, 30).model_version_status}
        available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
        self.assertEqual({1: available, 2: available, 3: available}, states)

    def test_unknown(self):
        q = predict_pb2.PredictRequest()
        q.model_spec.name = "nope"
        with self.assertRaises(grpc.RpcError) as caught:
            self.predictions.Predict(q, 30)
        self.assertEqual(grpc.StatusCode.NOT_FOUND, caught.exception.code())


if __name__ == "__main__":
    unittest.main()
