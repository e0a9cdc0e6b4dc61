"""Applies deploy/kubernetes to an API server, and compares what KServe's controller makes of the samples with files."""

import argparse
import base64
import contextlib
import copy
import difflib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

TOKEN = "of-this-run"
# What differs from run to run.
VOLATILE = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")
# The settings of KServe that deploy/kubernetes/kserve asks for, and none that needs other programs.
SETTINGS = {
    "deploy": {"defaultDeploymentMode": "Standard"},
    "ingress": {"disableIngressCreation": True},
    "service": {"serviceClusterIPNone": True},
    "storageInitializer": {"uidModelcar": None},
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def documents(text):
    return [doc for doc in yaml.load_all(text, yaml.CSafeLoader) if doc]


class Cluster:
    """An API server, its etcd, and what else is started in a folder."""

    def __init__(self, work, ending):
        self.work, self.ending, self.processes, self.known = work, ending, {}, {}
        # One pair serves the API server, its accounts and KServe's webhooks.
        self.key, self.certificate = work / "tls.key", work / "tls.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self.key, "-out", self.certificate],
                       check=True, capture_output=True)  # fmt: skip
        self.trust = ssl.create_default_context(cafile=self.certificate)

    def start(self, name, *command, **env):
        with (self.work / f"{name}.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.work, env=os.environ | env)
        self.processes[name] = process
        self.ending.callback(process.wait)
        self.ending.callback(process.terminate)

    def begin(self, etcd, apiserver):
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.port = free_port()
        self.start("etcd", etcd, f"--data-dir={self.work}/etcd", f"--listen-client-urls={clients}",
                   f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
                   f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}")  # fmt: skip
        (self.work / "tokens").write_text(f"{TOKEN},lab,lab,system:masters\n")
        self.start("apiserver", apiserver, f"--etcd-servers={clients}", f"--secure-port={self.port}",
                   "--bind-address=127.0.0.1", f"--tls-cert-file={self.certificate}",
                   f"--tls-private-key-file={self.key}", f"--service-account-key-file={self.key}",
                   f"--service-account-signing-key-file={self.key}", "--service-account-issuer=https://lab",
                   f"--token-auth-file={self.work}/tokens", "--authorization-mode=RBAC",
                   "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount")  # fmt: skip
        self.wait("the API server", lambda: self.call("GET", "/readyz")[0] == 200)

    def call(self, method, path, body=None):
        """Return the status of an answer, and what it has. The status is 0 where there is no answer yet."""
        head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        url, data = f"https://127.0.0.1:{self.port}{path}", None if body is None else json.dumps(body).encode()
        try:
            request = urllib.request.Request(url, data, head, method=method)
            with urllib.request.urlopen(request, context=self.trust, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else {}
        except urllib.error.HTTPError as e:
            text = e.read()
            return e.code, json.loads(text) if text.startswith(b"{") else {}
        except OSError:
            return 0, {}

    def wait(self, what, ready):
        end = time.monotonic() + 120
        while not ready():
            ended = [name for name, process in self.processes.items() if process.poll() is not None]
            if ended or time.monotonic() > end:
                for log in self.work.glob("*.log"):
                    print(f"{log.name}:\n{log.read_text()[-3000:]}", file=sys.stderr)
                sys.exit(f"cluster: {what} did not come ({' and '.join(ended) or 'nothing'} ended); the logs are above")
            time.sleep(0.3)

    def resource(self, version, kind):
        """Return how the API server names a kind, or None as long as it does not know it."""
        if (version, kind) not in self.known:
            for r in self.call("GET", f"/{'apis' if '/' in version else 'api'}/{version}")[1].get("resources", []):
                if "/" not in r["name"]:
                    self.known[version, r["kind"]] = r
        return self.known.get((version, kind))

    def path(self, what, namespace):
        """Return where objects of a kind are: nowhere, if the API server does not know it."""
        version, kind = what["apiVersion"], what["kind"]
        resource = self.resource(version, kind) or {"name": kind, "namespaced": False}
        inside = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        return f"/{'apis' if '/' in version else 'api'}/{version}{inside}/{resource['name']}"

    def create(self, what, namespace="default", query=""):
        return self.call("POST", f"{self.path(what, namespace)}?fieldValidation=Strict{query}", what)

    def must(self, what, namespace="default"):
        status, said = self.create(what, namespace)
        if status not in (201, 409):
            sys.exit(f"cluster: {what['kind']} {what['metadata']['name']}: {status} {said.get('message')}")

    def namespace(self, name):
        self.must({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def define(self, files):
        crds = [doc for file in files for doc in documents(file.read_text())]
        crds = [crd for crd in crds if crd["kind"] == "CustomResourceDefinition"]
        for crd in crds:
            self.must(crd)
        for spec in (crd["spec"] for crd in crds):
            for version in (v["name"] for v in spec["versions"] if v["served"]):
                kind = spec["names"]["kind"]
                self.wait(f"the kind {kind}", lambda: self.resource(f"{spec['group']}/{version}", kind))


def begin_kserve(cluster, manager, kserve):
    """Start KServe's controller with its webhooks, beside the runtimes that come with it."""
    settings = documents((kserve / "config/configmap/inferenceservice.yaml").read_text())[0]
    for key, changes in SETTINGS.items():
        settings["data"][key] = json.dumps(json.loads(settings["data"].get(key, "{}")) | changes)
    cluster.namespace("kserve")
    cluster.must(settings, "kserve")
    hooks = cluster.work / "k8s-webhook-server/serving-certs"  # in TMPDIR, where the controller looks
    hooks.mkdir(parents=True)
    (hooks / "tls.key").symlink_to(cluster.key)
    (hooks / "tls.crt").symlink_to(cluster.certificate)
    server = {"server": f"https://127.0.0.1:{cluster.port}", "certificate-authority": str(cluster.certificate)}
    config = cluster.work / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": server}], "users": [{"name": "lab", "user": {"token": TOKEN}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}]}))  # fmt: skip
    port, probes = free_port(), f"127.0.0.1:{free_port()}"
    cluster.start("manager", manager, f"--kubeconfig={config}", "--metrics-addr=0", f"--health-probe-addr={probes}",
                  f"--webhook-port={port}", POD_NAMESPACE="kserve", TMPDIR=str(cluster.work))  # fmt: skip

    def ready():
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{probes}/readyz", timeout=5):
            return True

    cluster.wait("KServe's controller", ready)
    trust = base64.b64encode(cluster.certificate.read_bytes()).decode()
    for doc in documents((kserve / "config/webhook/manifests.yaml").read_text()):
        for hook in doc["webhooks"]:
            at = f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"
            hook["clientConfig"] = {"url": at, "caBundle": trust}
        cluster.must(doc)
    for file in sorted((kserve / "config/runtimes").glob("kserve-*.yaml")):
        cluster.must(documents(file.read_text())[0])


def manifests(folder, kustomize):
    """Return the objects of each folder, and of each sample."""
    for file in sorted(folder.rglob("kustomization.yaml")):
        done = subprocess.run([kustomize, "build", file.parent], stdout=subprocess.PIPE, text=True, check=True)
        yield file.parent.name, documents(done.stdout)
    for file in sorted((folder / "kserve/samples").glob("*.yaml")):
        yield f"sample-{file.stem}", documents(file.read_text())


def apply(cluster, folder, kustomize):
    """Create each object, and see that a copy of it with a misspelt key is refused."""
    wrong, applied = [], 0
    for name, docs in manifests(folder, kustomize):
        cluster.namespace(name)
        for doc in docs:
            bad = copy.deepcopy(doc)
            bad.get("spec", bad)["misspeltKey"] = "x"
            status, said = cluster.create(bad, name, "&dryRun=All")
            if status != 400 or "misspeltKey" not in said.get("message", ""):
                wrong.append(f"{name}: {doc['kind']}: a misspelt key was not found: {status} {said.get('message')}")
            status, said = cluster.create(doc, name)
            if status != 201:
                wrong.append(f"{name}: {doc['kind']}: {status} {said.get('message')}")
            applied += 1
    print(f"cluster: the API server was given {applied} objects, and each with a misspelt key")
    return wrong


def tidy(what):
    kept = {key: value for key, value in what["metadata"].items() if key not in VOLATILE}
    return {key: value for key, value in what.items() if key != "status"} | {"metadata": kept}


def compare(cluster, samples, golden, update):
    """Return how Deployments and Services that KServe makes of the samples, and the pods that its webhook makes of the
    former, differ from the golden ones."""
    wrong = []
    for sample in samples:
        made = []
        for group, kind in ("apis/apps/v1", "deployments"), ("api/v1", "services"):
            at = f"/{group}/namespaces/sample-{sample}/{kind}/cartpole-predictor"
            cluster.wait(f"{kind} of the sample {sample}", lambda: cluster.call("GET", at)[0] == 200)
            made.append(tidy(cluster.call("GET", at)[1]))
        pod = {"apiVersion": "v1", "kind": "Pod"} | copy.deepcopy(made[0]["spec"]["template"])
        pod["metadata"]["name"] = "cartpole-predictor"
        status, said = cluster.create(pod, f"sample-{sample}", "&dryRun=All")
        if status != 201:
            wrong.append(f"sample {sample}: KServe's pod is refused: {status} {said.get('message')}")
            continue
        made.append(tidy(said))
        text, file = yaml.safe_dump_all(made), golden / f"{sample}.yaml"
        if update:
            golden.mkdir(exist_ok=True)
            file.write_text(text)
        lines = [t.splitlines(keepends=True) for t in (file.read_text(), text)]
        if lines[0] != lines[1]:
            difference = "".join(difflib.unified_diff(*lines, str(file), "what KServe makes"))
            wrong.append(f"sample {sample}: ARGS=--update writes the file anew\n{difference}")
    print(f"cluster: KServe made a Deployment, a Service and a pod of each of {len(samples)} samples")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    for name in ("etcd", "apiserver", "manager", "kserve", "crds", "kustomize", "golden"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    folder = pathlib.Path("deploy/kubernetes")
    with tempfile.TemporaryDirectory(prefix="weft-cluster-") as work, contextlib.ExitStack() as ending:
        cluster = Cluster(pathlib.Path(work), ending)
        cluster.begin(args.etcd, args.apiserver)
        crds = args.kserve / "config/crd/full"
        cluster.define(f for at in (args.crds, crds, crds / "clusterstoragecontainer") for f in at.glob("*.yaml"))
        begin_kserve(cluster, args.manager, args.kserve)
        if wrong := apply(cluster, folder, args.kustomize):
            sys.exit("\n".join(wrong))
        samples = sorted(file.stem for file in (folder / "kserve/samples").glob("*.yaml"))
        if wrong := compare(cluster, samples, args.golden, args.update):
            sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
