// Package tfserving serves the API of TensorFlow Serving, as far as models of ONNX have it. docs/TENSORFLOW_SERVING.md
// lists what each call and field does.
package tfserving
