// Balances a simulated pole with a served policy, over HTTP and without any package. While `make serve` runs:
//
//     node examples/javascript/cartpole.mjs [http://127.0.0.1:9001]
//
// It needs Node 20 or newer. The protocol is the Open Inference Protocol (docs/reference/protocols.md). One episode asks in
// JSON, and one with tensors as bytes, which is what large ones should be.

const server = process.argv[2] ?? "http://127.0.0.1:9001";
const model = `${server}/v2/models/cartpole/infer`;
const limit = 1000; // milliseconds after which an answer is worth nothing; a robot's would be its period

/** Sends a request, and returns the response. The error of one that was refused has the server's words. */
async function post(body, headers) {
  const response = await fetch(model, { method: "POST", body, headers, signal: AbortSignal.timeout(limit) });
  if (response.ok) return response;
  const why = (await response.json().catch(() => ({}))).error;
  throw Object.assign(new Error(`${response.status}: ${why ?? response.statusText}`), { status: response.status });
}

/** Asks for an action: tensors are lists of numbers in the JSON. */
async function askInJSON(observation) {
  const inputs = [{ name: "observation", datatype: "FP32", shape: [1, 4], data: observation }];
  const response = await post(JSON.stringify({ inputs }), { "Content-Type": "application/json" });
  const { outputs } = await response.json();
  return outputs.find((t) => t.name === "action").data[0];
}

/** Asks for an action: the bytes of tensors, little-endian, come behind the JSON, in the order in which it has them. */
async function askInBytes(observation) {
  const floats = new DataView(new ArrayBuffer(4 * observation.length));
  observation.forEach((x, i) => floats.setFloat32(4 * i, x, true));
  const head = new TextEncoder().encode(JSON.stringify({
    inputs: [{
      name: "observation", datatype: "FP32", shape: [1, 4], parameters: { binary_data_size: floats.byteLength },
    }],
    outputs: [{ name: "action", parameters: { binary_data: true } }],
  }));
  const response = await post(new Blob([head, floats]), {
    "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": String(head.length),
  });
  const body = await response.arrayBuffer(); // the only output is all that follows the JSON
  return new DataView(body, Number(response.headers.get("Inference-Header-Content-Length"))).getFloat32(0, true);
}

/** A pole on a cart (after Barto, Sutton and Anderson 1983): position, speed, angle and spin, in steps of 20 ms. */
class Pole {
  state = [0.3, 0, 0.05, 0];

  /** Pushes the cart with a part of 10 N, and reports whether the pole still stands. */
  step(action) {
    const [x, speed, angle, spin] = this.state;
    const force = 10 * Math.max(-1, Math.min(1, action));
    const push = (force + 0.05 * spin ** 2 * Math.sin(angle)) / 1.1;
    const length = 0.5 * (4 / 3 - (0.1 * Math.cos(angle) ** 2) / 1.1);
    const turn = (9.8 * Math.sin(angle) - Math.cos(angle) * push) / length;
    const pull = push - (0.05 * turn * Math.cos(angle)) / 1.1;
    this.state = [x + 0.02 * speed, speed + 0.02 * pull, angle + 0.02 * spin, spin + 0.02 * turn];
    return Math.abs(this.state[0]) <= 2.4 && Math.abs(this.state[2]) <= 0.21;
  }
}

/** Plays an episode. A step without an answer in time keeps the action before, as a robot would. */
async function balance(ask) {
  const pole = new Pole();
  let action, late = 0, steps = 0;
  do {
    try {
      action = await ask(pole.state);
    } catch (error) {
      const passes = error.name === "TimeoutError" || [429, 503, 504].includes(error.status);
      if (action === undefined || !passes) throw error;
      late++;
    }
    steps++;
  } while (pole.step(action) && steps < 500);
  return `${steps} steps, ${late} late, the cart ends at ${pole.state[0].toFixed(6)} m`;
}

try {
  console.log(`in JSON:  ${await balance(askInJSON)}`);
  console.log(`in bytes: ${await balance(askInBytes)}`);
} catch (error) {
  console.error(`${model}: ${error.message}${error.cause ? `: ${error.cause.message}` : ""}`);
  process.exitCode = 1;
}
