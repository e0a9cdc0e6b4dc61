import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import weft.v1.ModelOuterClass.ModelSpec;
import weft.v1.PredictionServiceGrpc;
import weft.v1.PredictionServiceOuterClass.PredictRequest;
import weft.v1.PredictionServiceOuterClass.PredictResponse;
import weft.v1.TensorOuterClass.DataType;
import weft.v1.TensorOuterClass.Tensor;

/** Asks a server of examples/models for an action. docs/how-to/clients.md says how to run it. */
public final class Predict {
  static ManagedChannel connect(String server) {
    Map<String, ?> retries = Map.of("methodConfig", List.of(Map.of(
        "name", List.of(Map.of("service", "weft.v1.PredictionService", "method", "Predict")),
        "retryPolicy", Map.of("maxAttempts", 4.0, "initialBackoff", "0.05s", "maxBackoff", "1s",
            "backoffMultiplier", 2.0, "retryableStatusCodes", List.of("RESOURCE_EXHAUSTED", "UNAVAILABLE")))));
    return Grpc.newChannelBuilder(server, InsecureChannelCredentials.create()).defaultServiceConfig(retries).build();
  }

  static PredictResponse predict(ManagedChannel channel, Iterable<Float> observation) {
    Tensor tensor = Tensor.newBuilder().setDtype(DataType.DATA_TYPE_FP32)
        .addAllShape(List.of(1L, 4L)).addAllFloatValues(observation).build();
    return PredictionServiceGrpc.newBlockingStub(channel).withDeadlineAfter(5, TimeUnit.SECONDS)
        .predict(PredictRequest.newBuilder().setModel(ModelSpec.newBuilder().setName("cartpole"))
            .putInputs("observation", tensor).build());
  }

  public static void main(String[] args) {
    ManagedChannel channel = connect(args.length > 0 ? args[0] : "127.0.0.1:9000");
    try {
      PredictResponse answer = predict(channel, List.of(0f, 0.1f, 0.05f, -0.2f));
      System.out.println(answer.getOutputsOrThrow("action").getFloatValues(0) + " by version "
          + answer.getModel().getVersion());
    } catch (StatusRuntimeException e) {
      System.err.println(e.getStatus());
      System.exit(1);
    } finally {
      channel.shutdownNow();
    }
  }
}
