// Asks a server of examples/models for an action, with a deadline and retries, over HTTP and without any package:
//
//     node examples/javascript/predict.mjs [http://127.0.0.1:9001]
//
// It needs Node 20 or newer. docs/how-to/clients.md says which errors to retry.

const server = process.argv[2] ?? "http://127.0.0.1:9001";

/** Returns the outputs of a model. A request is sent again, in the time that is left, where that may help. */
async function predict(model, inputs, milliseconds) {
  const end = Date.now() + milliseconds;
  for (let pause = 50; ; pause *= 2) {
    const left = Math.max(1, end - Date.now());
    let failure, delay = pause;
    try {
      const response = await fetch(`${server}/v2/models/${model}/infer`, {
        method: "POST", signal: AbortSignal.timeout(left),
        body: JSON.stringify({ parameters: { timeout: 1000 * left }, inputs }),
      });
      const answer = await response.json();
      if (response.ok) return answer.outputs;
      failure = new Error(`${response.status}: ${answer.error}`);
      delay = 1000 * (response.headers.get("Retry-After") ?? Infinity);
    } catch (error) { // no connection, or the deadline
      failure = error;
    }
    if (Date.now() + delay >= end) throw failure;
    await new Promise((done) => setTimeout(done, delay));
  }
}

const observation = { name: "observation", datatype: "FP32", shape: [1, 4], data: [0, 0.1, 0.05, -0.2] };
console.log(await predict("cartpole", [observation], 2000));
