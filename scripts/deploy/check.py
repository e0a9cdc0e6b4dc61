"""Checks the files of deploy/kubernetes against the schemas of Kubernetes and of custom resources: check.py KUBERNETES CRDS
[KUSTOMIZE]. No key may be there that a schema does not know. KUSTOMIZE renders each folder, whose result is checked, too.

Of each kind of file that there is, a copy with a misspelt key in each of its maps must be refused for each of them.
"""

import copy
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import jsonschema
import yaml
from kubernetes_validate import utils
from referencing import Registry, Resource

KUBERNETES = "1.36"
MISSPELT = "misspeltKey"
# Maps whose keys are names that the author chooses.
FREE = {"annotations", "labels", "matchLabels", "requests", "limits", "templateVariables"}


def closed(schema):
    """Return a schema of a custom resource under which unknown keys are wrong, as they are for an API server that is strict."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        out["properties"] = {key: closed(value) for key, value in schema["properties"].items()}
        if "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            out["additionalProperties"] = False
    # Parts of anyOf and the like say which keys are needed, and not which there are.
    for part in ("anyOf", "oneOf", "allOf", "not"):
        if part in schema:
            out[part] = schema[part]
    if schema.get("x-kubernetes-int-or-string"):
        out = {"type": ["integer", "string"]}
    return out


class Schemas:
    def __init__(self, crds):
        self.known = {}
        version = [v for v in utils.all_versions() if v.startswith(KUBERNETES + ".")][-1]
        self.folder = f"kubernetes-json-schema/v{version}-local-strict"
        definitions = utils.schema_contents(f"{self.folder}/_definitions.json", version)
        self.definitions = Resource.from_contents(definitions)
        metadata = f"{self.definitions.id()}#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        for file in sorted(crds.glob("*.yaml")):
            for crd in yaml.load_all(file.read_text(), yaml.CSafeLoader):
                for v in (crd or {}).get("spec", {}).get("versions", []):
                    schema = closed(v["schema"]["openAPIV3Schema"])
                    schema["$id"] = f"file://{crd['metadata']['name']}"
                    schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {"$ref": metadata}}
                    self.known[f"{crd['spec']['group']}/{v['name']}", crd["spec"]["names"]["kind"]] = schema

    def faults(self, what):
        """Return what is wrong with an object, as (path, text)."""
        of = what.get("apiVersion", ""), what.get("kind", "")
        if of not in self.known:
            file = f"{of[1].lower()}-" + re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", of[0])
            try:
                self.known[of] = utils.schema_contents(f"{self.folder}/{file}.json", KUBERNETES)
            except FileNotFoundError:
                return [((), f"no schema of {of[1]} in {of[0]} is known")]
        validator = jsonschema.Draft202012Validator(self.known[of], registry=self.definitions @ Registry())
        return [(tuple(e.absolute_path), e.message) for e in validator.iter_errors(what)]


def misspell(what, path=()):
    """Put a misspelt key into each map of an object whose keys are not free, and return their paths."""
    paths = []
    if isinstance(what, dict):
        for key, value in what.items():
            free = key in FREE or key == "selector" and "matchLabels" not in value or key == "metadata" and "type" in what
            paths += [] if free else misspell(value, (*path, key))
        what[MISSPELT] = "x"
        paths.append(path)
    elif isinstance(what, list):
        for at, value in enumerate(what):
            paths += misspell(value, (*path, at))
    return paths


class Unique(yaml.SafeLoader):
    """Refuses a key that stands twice, of which the last would count."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{key} stands twice {node.start_mark}")
        return super().construct_mapping(node, deep)


def read(text):
    return list(yaml.load_all(text, Unique))


class Check:
    def __init__(self, folder, schemas):
        self.folder, self.schemas = folder, schemas
        self.wrong, self.found, self.kinds, self.objects = [], 0, set(), 0

    def object(self, file, doc, partial=False):
        """Check an object, and that misspelt keys in it are found. One that is laid over another may lack what that has."""
        self.objects += 1
        self.kinds.add(doc.get("kind"))
        at = f"{file}: {doc.get('kind')}"
        for path, text in self.schemas.faults(doc):
            if not (partial and "is a required property" in text):
                self.wrong.append(f"{at}: {'.'.join(map(str, path))}: {text}")
        spoilt = copy.deepcopy(doc)
        planted = set(misspell(spoilt))
        told = {path for path, text in self.schemas.faults(spoilt) if MISSPELT in text}
        for path in sorted(planted - told, key=str):
            self.wrong.append(f"{at}: a misspelt key in {'.'.join(map(str, path)) or 'it'} was not found")
        self.found += len(planted & told)

    def kustomization(self, file, kustomize):
        """Check what a folder renders to, and that a misspelt key in its kustomization.yaml is found."""
        done = subprocess.run([kustomize, "build", file.parent], capture_output=True, text=True)
        if done.returncode:
            self.wrong.append(f"{file} cannot be rendered: {done.stderr.strip()}")
            return
        for doc in read(done.stdout):
            self.object(f"{file} (rendered)", doc)
        with tempfile.TemporaryDirectory() as spoilt:
            shutil.copytree(self.folder, spoilt, dirs_exist_ok=True)
            with (pathlib.Path(spoilt) / file.relative_to(self.folder)).open("a") as f:
                f.write(f"\n{MISSPELT}: x\n")
            place = (pathlib.Path(spoilt) / file.relative_to(self.folder)).parent
            if subprocess.run([kustomize, "build", place], capture_output=True).returncode == 0:
                self.wrong.append(f"{file}: a misspelt key in it was not found")
            self.found += 1

    def all(self, kustomize):
        files = {file.resolve(): read(file.read_text()) for file in sorted(self.folder.rglob("*.yaml"))}
        listed, patches = set(), set()
        for file, docs in files.items():
            if file.name == "kustomization.yaml":
                listed |= {(file.parent / path).resolve() for path in docs[0].get("resources", [])}
                patches |= {(file.parent / p["path"]).resolve() for p in docs[0].get("patches", []) if "path" in p}
        self.wrong += [f"{path} is not there, but a kustomization.yaml names it"
                       for path in sorted(listed | patches) if not path.exists()]
        for file, docs in files.items():
            if file.name == "kustomization.yaml":
                if kustomize:
                    self.kustomization(file, kustomize)
                continue
            if file not in listed | patches and file.parent.name != "samples":
                self.wrong.append(f"{file} is named by no kustomization.yaml")
            for doc in docs:
                self.object(file, doc, file in patches)


def main(folder, crds, kustomize=None):
    check = Check(pathlib.Path(folder).resolve(), Schemas(pathlib.Path(crds)))
    check.all(kustomize)
    for text in check.wrong:
        print(text, file=sys.stderr)
    print(f"deploy: {check.objects} objects of {len(check.kinds)} kinds, in which {check.found} misspelt keys were found"
          + ("" if kustomize else "; NOTHING WAS RENDERED, since kustomize cannot be had"))
    return 1 if check.wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
