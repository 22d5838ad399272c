"""What deploy/kubernetes renders to, and what must hold of it.

Promises: the example overlay, its migration and every component render offline, and the page's commands do what it says; what they render fits the schemas of
every Kubernetes version that they are meant for, with no field unknown; the promises below hold of it, and each of
them fails once a rendered object is changed so that it is broken: a check that sees nothing fails the run.

Absent on purpose: a cluster. What a kubelet does with the hooks is not run here; that the numbers fit each other is.
"""

import copy
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib

import kubernetes_validate
import kubernetes_validate.utils
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy/kubernetes"
KUBECTL = pathlib.Path(sys.executable).with_name("kubectl")
SINCE = 30  # Kubernetes 1.30: native sidecars and the sleep hook, without a feature gate
SECRETS = {"oncegate": {"secret", "admin-token", "store-url"}, "oncegate-owner": {"store-url"}}  # what is mounted
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
STORING = 5  # what the gate itself takes to store what calls came to, in seconds
BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def render(folder):
    """The objects of a kustomization, or None where it does not render."""
    ran = subprocess.run([KUBECTL, "kustomize", folder], capture_output=True, text=True)
    return list(yaml.safe_load_all(ran.stdout)) if ran.returncode == 0 else None


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * UNITS[unit]


def size(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]iB?)", text).groups()
    return int(number) * BYTES[unit]


class Rendered:
    """The pod, its parts, and what stands around it."""

    def __init__(self, objects):
        self.objects = objects
        self.deployment = self.one("Deployment")
        self.pod = self.deployment["spec"]["template"]["spec"]
        self.inits = self.pod.get("initContainers", [])
        self.gates = [one for one in self.inits if one["name"] == "oncegate"]
        self.gate = self.gates[0] if self.gates else {}
        self.apps = self.pod["containers"]
        self.job = self.one("Job")["spec"]["template"]["spec"]
        maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
        self.maps = maps
        self.config = tomllib.loads(maps["oncegate"]["oncegate.toml"])
        self.mounts = {one["mountPath"]: one for one in self.gate.get("volumeMounts", [])}
        self.volumes = {one["name"]: one for one in self.pod["volumes"]}

    def one(self, kind):
        return next(one for one in self.objects if one["kind"] == kind)

    def drain(self):
        return self.gate["lifecycle"]["preStop"]["exec"]["command"]

    def option(self, name):
        return seconds(next(one for one in self.drain() if one.startswith(name + "=")).split("=")[1])

    def volume_at(self, path):
        """The volume that is mounted over a path of the gate's."""
        over = [mount for mount in self.mounts if pathlib.PurePath(path).is_relative_to(mount)]
        return self.volumes[self.mounts[max(over, key=len)]["name"]]


def the_gate_starts_before_the_app_and_ends_after_it(it):
    return len(it.gates) == 1 and it.inits[0] is it.gate and it.gate["restartPolicy"] == "Always"


def gate_and_migration_run_as_nobody_and_may_nothing(it):
    def bound(container):
        context = container["securityContext"]
        return (
            context["runAsNonRoot"] is True
            and context["runAsUser"] == context["runAsGroup"] == 65532
            and context["privileged"] is False
            and context["allowPrivilegeEscalation"] is False
            and context["readOnlyRootFilesystem"] is True
            and context["capabilities"] == {"drop": ["ALL"]}
            and context["seccompProfile"] == {"type": "RuntimeDefault"}
            and "memory" in container["resources"]["limits"]
            and {"cpu", "memory"} <= set(container["resources"]["requests"])
        )

    return all(map(bound, [it.gate, *it.job["containers"]]))


def nothing_of_the_node_is_shared(it):
    shared = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace")
    paths = [one for one in it.pod["volumes"] if "hostPath" in one]
    return not paths and not any(pod.get(what) for what in shared for pod in (it.pod, it.job))


def no_token_of_a_service_account_is_mounted(it):
    return it.pod["automountServiceAccountToken"] is False and it.job["automountServiceAccountToken"] is False


def secrets_are_files_that_only_their_owner_mounts(it):
    secret = {one["name"]: one["secret"]["secretName"] for one in it.pod["volumes"] if "secret" in one}
    elsewhere = [m for one in it.apps for m in one.get("volumeMounts", []) if m["name"] in secret]
    in_environment = [e for one in [it.gate, *it.job["containers"]] for e in one.get("env", []) if "valueFrom" in e]
    owner = [one["secret"]["secretName"] for one in it.job["volumes"]]
    return list(secret.values()) == ["oncegate"] and owner == ["oncegate-owner"] and not elsewhere and not in_environment


def probes_ask_what_the_gate_answers(it):
    ports = {one["name"]: one["containerPort"] for one in it.gate["ports"]}
    asked = {kind: it.gate[kind]["httpGet"] for kind in ("startupProbe", "readinessProbe", "livenessProbe")}
    paths = {kind: one["path"] for kind, one in asked.items()}
    right = {"startupProbe": "/livez", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    listen = it.config.get("listen", "0.0.0.0:8080"), it.config.get("health_listen", "0.0.0.0:8081")
    told = f"0.0.0.0:{ports['gate']}", f"0.0.0.0:{ports['gate-health']}"
    return paths == right and listen == told and all(one["port"] == "gate-health" for one in asked.values())


def the_drain_covers_every_call_that_it_let_in(it):
    limits, timeout = it.config.get("limits", {}), seconds(it.config["upstream"].get("timeout", "300s"))
    needed = it.option("--settle") + seconds(limits.get("queue_time", "5s")) + timeout + STORING
    return it.drain()[:2] == ["/usr/local/bin/oncegate", "drain"] and it.option("--wait") >= needed


def the_app_outlives_the_drain(it):
    sleeps = [one.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0) for one in it.apps]
    return all(sleep >= it.option("--wait") for sleep in sleeps)


def the_grace_period_has_room_for_app_and_gate_after_the_drain(it):
    grace = it.pod["terminationGracePeriodSeconds"]
    return grace >= it.option("--wait") + 10 + STORING and grace > seconds(it.config["upstream"]["timeout"])


def the_drain_can_reach_its_gate(it):
    told = next(one for one in it.drain() if one.startswith("--config=")).split("=")[1]
    return told == it.gate["args"][it.gate["args"].index("--config") + 1] and "admin_token_file" in it.config


def the_service_leads_to_the_gate(it):
    return it.one("Service")["spec"]["ports"][0]["targetPort"] == "gate"


def the_app_listens_on_loopback_only(it):
    told = [text for one in it.apps for text in one.get("command", []) + one.get("args", [])]
    told += [one.get("value", "") for app in it.apps for one in app.get("env", [])]
    probes = [one.get(kind, {}) for one in it.apps for kind in ("startupProbe", "readinessProbe", "livenessProbe")]
    dialled = [probe for probe in probes if {"httpGet", "tcpSocket", "grpc"} & set(probe)]
    upstream = it.config["upstream"]["url"].startswith("http://127.0.0.1:")
    return upstream and any("127.0.0.1" in text for text in told) and not any("0.0.0.0" in text for text in told) and not dialled


def other_pods_reach_only_the_gates_ports(it):
    policy = it.one("NetworkPolicy")["spec"]
    labels = it.deployment["spec"]["template"]["metadata"]["labels"]
    ports = sorted(port["port"] for rule in policy["ingress"] for port in rule["ports"])
    meant = policy["podSelector"]["matchLabels"].items() <= labels.items()
    return meant and policy["policyTypes"] == ["Ingress"] and ports == [8080, 8081]


def an_edit_reaches_running_pods(it):
    whole = not any({"subPath", "subPathExpr"} & set(mount) for mount in it.mounts.values())
    config = it.volume_at("/etc/oncegate/oncegate.toml")["configMap"]["name"] == "oncegate"
    policies = it.volume_at(it.config["policy"]["dir"] + "/any.toml")["configMap"]["name"]
    return whole and config and any(name.endswith(".toml") for name in it.maps[policies])


def every_file_that_the_configuration_names_is_mounted(it):
    secrets = [it.config["secret_file"], it.config["admin_token_file"], it.config["store"]["url_file"]]
    made = {pathlib.PurePath(path).name for path in secrets} <= SECRETS["oncegate"]
    return made and all("secret" in it.volume_at(path) for path in secrets)


def the_gate_writes_into_its_spool_and_nowhere_else(it):
    writable = [it.volumes[one["name"]] for one in it.gate["volumeMounts"] if not one.get("readOnly")]
    room = size(writable[0]["emptyDir"]["sizeLimit"])
    limit = size(it.config["audit"].get("spool_limit", "64MiB"))
    # A damaged file is kept beside the new one.
    return writable == [it.volume_at(it.config["audit"]["spool_file"])] and room >= 2 * limit


def memory_covers_the_bodies_of_all_calls(it):
    limits = it.config["limits"]
    bodies = size(limits.get("request_body", "1MiB")) + size(limits.get("stored_response", "1MiB"))
    return size(it.gate["resources"]["limits"]["memory"]) >= limits.get("concurrent_calls", 1024) * bodies + 128 * 2**20


def the_migration_is_the_gates_own_program(it):
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
    images = {one["image"] for one in [it.gate, *it.job["containers"]]}
    return len(images) == 1 and images.pop().endswith(f":{version}")


PROMISES = [one for one in list(globals().values()) if getattr(one, "__code__", None) and one.__code__.co_varnames[:1] == ("it",)]


def broken(promises, objects):
    """The names of the promises that do not hold. A part that is missing breaks them too."""
    names = []
    for promise in promises:
        try:
            kept = promise(Rendered(objects))
        except (KeyError, IndexError, StopIteration, ValueError, TypeError):
            kept = False
        if not kept:
            names.append(promise.__name__)
    return names


def unfit(objects):
    """What does not fit the schema of a version. A PodMonitor has none of Kubernetes' own."""
    for version in kubernetes_validate.utils.all_versions():
        if int(version.split(".")[1]) < SINCE:
            continue
        for one in objects:
            try:
                kubernetes_validate.validate(one, version, strict=True)
            except kubernetes_validate.ValidationError as fault:
                yield f"Kubernetes {version}: {one['kind']} {one['metadata']['name']}: {fault.message}"


def variant(base, kustomization, *patches):
    """Renders the component over the example's app, changed by a kustomization of its own."""
    with tempfile.TemporaryDirectory() as folder:
        top, changed = pathlib.Path(folder) / "top", pathlib.Path(folder) / "app"
        top.mkdir()
        changed.mkdir()
        near = lambda path, start: os.path.relpath(path, os.path.realpath(start))
        inner = {"resources": [near(base, changed)], "patches": list(patches)}
        outer = {"resources": ["../app"], "components": [near(DEPLOY / one, top) for one in kustomization]}
        (changed / "kustomization.yaml").write_text(yaml.safe_dump(inner))
        (top / "kustomization.yaml").write_text(yaml.safe_dump(outer))
        return render(top)


def overlays(app):
    """What must hold of the component over other apps than the example's."""
    own = [{"op": "add", "path": "/spec/template/spec/containers/0/lifecycle", "value": {"preStop": {"sleep": {"seconds": 1}}}}]
    hooked = variant(app, ["sidecar"], {"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(own)})
    if hooked is not None:
        yield "an app's own lifecycle is overwritten"
    none = [{"op": "add", "path": "/metadata/labels", "value": {"oncegate": "none"}}]
    spared = variant(app, ["sidecar"], {"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(none)})
    if spared is None or "initContainers" in next(one for one in spared if one["kind"] == "Deployment")["spec"]["template"]["spec"]:
        yield "`oncegate: none` does not keep the gate away"
    init = [{"op": "add", "path": "/spec/template/spec/initContainers", "value": [{"name": "own", "image": "own"}]}]
    prepared = variant(app, ["sidecar"], {"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(init)}) or []
    inits = [one["name"] for pod in prepared if pod["kind"] == "Deployment" for one in pod["spec"]["template"]["spec"]["initContainers"]]
    if inits != ["oncegate", "own"]:
        yield "the gate does not start before an app's own init containers"
    monitored = variant(app, ["sidecar", "podmonitor"]) or []
    monitor = [one for one in monitored if one["kind"] == "PodMonitor"]
    if len(monitor) != 1 or monitor[0]["spec"]["podMetricsEndpoints"][0]["port"] != "gate-health":
        yield "the pod monitor does not render, or asks another port"


def page(objects):
    """Every kubectl command of the page: run where that needs no cluster, and else held against what is rendered."""
    text = (ROOT / "docs/deploy.md").read_text()
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)).replace("\\\n", " ")
    names = {(one["kind"].lower(), one["metadata"]["name"]) for one in objects}
    commands = [shlex.split(line) for line in blocks.splitlines() if line.startswith("kubectl ")]
    for _, verb, *words in commands:
        if verb == "kustomize" or words[:1] == ["-k"]:
            fine = render(ROOT / words[-1]) is not None
        elif verb == "create":
            made = subprocess.run([KUBECTL, verb, *words, "--dry-run=client", "--output=yaml"], capture_output=True, text=True)
            fine = made.returncode == 0 and not list(unfit([yaml.safe_load(made.stdout)]))
            if words[0] == "secret":
                fine = fine and set(yaml.safe_load(made.stdout)["data"]) == SECRETS[words[2]]
        elif verb in ("delete", "wait", "rollout"):
            named = next(word for word in words if "/" in word) if verb != "delete" else "/".join(words[:2])
            fine = tuple(named.split("/")) in names
        else:
            fine = False
        if not fine:
            yield f"docs/deploy.md: kubectl {verb} {' '.join(words[:3])} does not work"
    if len(commands) < 8:
        yield "docs/deploy.md: its commands are not found"


def main():
    overlay, migration = render(DEPLOY / "laravel"), render(DEPLOY / "laravel/migrate")
    if overlay is None or migration is None:
        sys.exit("deploy/kubernetes: the example does not render; see: kubectl kustomize deploy/kubernetes/laravel")
    objects = overlay + migration
    faults = [*unfit(objects), *broken(PROMISES, objects), *overlays(DEPLOY / "laravel/app"), *page(objects)]

    # Every promise, broken on purpose.
    from kubernetes_broken import MUTATIONS

    for promise, mutations in MUTATIONS.items():
        for number, mutate in enumerate(mutations):
            changed = copy.deepcopy(objects)
            mutate(Rendered(changed))
            if promise not in broken(PROMISES, changed):
                faults.append(f"{promise}: does not notice its mutation {number}")
    faults += [f"{one.__name__}: nothing breaks it" for one in PROMISES if one.__name__ not in MUTATIONS]
    misspelt = copy.deepcopy(objects)
    Rendered(misspelt).gate["readinesProbe"] = {}
    if not list(unfit(misspelt)):
        faults.append("the schemas do not notice an unknown field")

    for fault in faults:
        print(f"deploy/kubernetes: {fault.replace('_', ' ')}", file=sys.stderr)
    if faults:
        sys.exit(1)
    count = sum(map(len, MUTATIONS.values()))
    print(f"deploy/kubernetes: {len(objects)} objects fit, {len(PROMISES)} promises hold, {count} ways to break them were noticed.")


if __name__ == "__main__":
    main()
