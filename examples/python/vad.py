"""Prints when somebody speaks in a WAV file of 16 kHz: vad.py FILE [ADDRESS].

A server of Silero VAD keeps its state, so that a stream carries nothing but audio. docs/how-to/episodes.md says how to
serve it.
"""

import sys
import threading
import uuid
import wave

import grpc
import numpy as np

from weft.v1 import model_pb2, prediction_service_pb2 as pb, prediction_service_pb2_grpc as stubs, tensor_pb2 as tensors

RATE = 16000
CHUNK = 512  # samples of a step
CONTEXT = 64  # samples of the chunk before, that the model takes with each chunk
AHEAD = 32  # steps that wait for their answers at most


def tensor(array, dtype):
    """Returns the message of an array."""
    return tensors.Tensor(dtype=dtype, shape=array.shape, raw=array.tobytes())


def steps(audio, episode, room):
    """Yields a request for each chunk of audio, when there is room for it."""
    count = -(-len(audio) // CHUNK)
    padded = np.pad(audio, (CONTEXT, count * CHUNK - len(audio))).astype("<f4")
    rate = tensor(np.array(RATE, "<i8"), tensors.DATA_TYPE_INT64)
    for n in range(count):
        room.acquire()
        chunk = padded[np.newaxis, n * CHUNK:(n + 1) * CHUNK + CONTEXT]
        yield pb.PredictStreamRequest(request=pb.PredictRequest(
            model=model_pb2.ModelSpec(name="silero_vad"), episode_id=episode, request_id=str(n), step=n + 1,
            begin_episode=n == 0, end_of_episode=n == count - 1, output_encoding=tensors.OUTPUT_ENCODING_RAW,
            inputs={"input": tensor(chunk, tensors.DATA_TYPE_FP32), "sr": rate}))


def probabilities(audio, address):
    """Yields the probability that somebody speaks for each chunk of audio."""
    room = threading.Semaphore(AHEAD)
    with grpc.insecure_channel(address) as channel:
        requests = steps(audio, f"vad/{uuid.uuid4()}", room)
        for answer in stubs.PredictionServiceStub(channel).PredictStream(requests):
            if answer.HasField("error"):
                raise RuntimeError(answer.error.message)
            room.release()
            yield float(np.frombuffer(answer.response.outputs["output"].raw, "<f4")[0])


def main(file, address="127.0.0.1:9000"):
    """Prints a line for each chunk of a file."""
    with wave.open(file) as audio:
        if (audio.getframerate(), audio.getnchannels(), audio.getsampwidth()) != (RATE, 1, 2):
            sys.exit(f"{file}: expected one channel of 16 bits at {RATE} Hz")
        samples = np.frombuffer(audio.readframes(audio.getnframes()), "<i2") / 32768
    for n, speech in enumerate(probabilities(samples, address)):
        print(f"{n * CHUNK / RATE:7.3f} s  {speech:.3f}  {'#' * round(40 * speech)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
