// Asks a server of examples/models for an action: predict [HOST:PORT]. docs/how-to/clients.md says how to build it.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>

#include "weft/v1/prediction_service.grpc.pb.h"

int main(int argc, char** argv) {
  grpc::ChannelArguments settings;
  settings.SetServiceConfigJSON(R"({"methodConfig": [{
    "name": [{"service": "weft.v1.PredictionService", "method": "Predict"}],
    "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 2,
                    "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]})");
  auto stub = weft::v1::PredictionService::NewStub(grpc::CreateCustomChannel(
      argc > 1 ? argv[1] : "127.0.0.1:9000", grpc::InsecureChannelCredentials(), settings));

  weft::v1::PredictRequest request;
  request.mutable_model()->set_name("cartpole");
  weft::v1::Tensor& observation = (*request.mutable_inputs())["observation"];
  observation.set_dtype(weft::v1::DATA_TYPE_FP32);
  for (int extent : {1, 4}) observation.add_shape(extent);
  for (float x : {0.0f, 0.1f, 0.05f, -0.2f}) observation.add_float_values(x);

  grpc::ClientContext call;
  call.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  weft::v1::PredictResponse answer;
  grpc::Status status = stub->Predict(&call, request, &answer);

  if (!status.ok()) {
    std::cerr << "code " << status.error_code() << ": " << status.error_message() << "\n";
    return 1;
  }
  std::cout << answer.outputs().at("action").float_values(0) << " by version " << answer.model().version() << "\n";
}
