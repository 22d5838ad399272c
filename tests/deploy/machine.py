"""What deploy/ has for single machines: the compose file, and the numbers of the systemd unit.

Promises: compose.yaml is read by a strict reader of the Compose Specification, which notices what is misspelt; whatever
it mounts is there; the gate finds its files; no container can do more than it must; the times to stop fit the calls.

Absent on purpose: running it. Its images of PostgreSQL and Python come from a registry, which no check depends on; the
gate's own image is run by image.py.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import compose_spec
import yaml

from kubernetes import ROOT, STORING, seconds

FILE = ROOT / "deploy/compose.yaml"
FOLDER = FILE.parent


def read(text):
    """What the reader says against it, or nothing."""
    try:
        compose_spec.PyOptions(apply_merge=True).from_yaml(text).validate()
    except ValueError as fault:
        return str(fault)


def bound(service):
    drops = service.get("cap_drop") == ["ALL"] and service.get("read_only") is True
    return drops and service.get("security_opt") == ["no-new-privileges:true"] and not service["user"].startswith("0")


def faults():
    text = FILE.read_text()
    if fault := read(text):
        yield fault
        return
    if not read(text.replace("restart:", "restrat:", 1)):
        yield "the reader does not notice what is misspelt"
    compose = yaml.safe_load(text)
    services = compose["services"]
    gate = services["gate"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]["version"]
    for name in ("migrate", "gate"):
        if services[name]["image"] != f"localhost/oncegate:{version}":
            yield f"{name} is not of this version"
    for name in ("migrate", "gate", "app"):
        if not bound(services[name]):
            yield f"{name} may do more than it must"
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./") and not (FOLDER / source).exists():
                yield f"{source} is mounted, and is not there"
    with tempfile.TemporaryDirectory() as folder:
        maker = pathlib.Path(folder) / "secrets"
        maker.write_text((FOLDER / "compose/secrets").read_text())
        subprocess.run(["sh", maker], check=True, capture_output=True)
        made = {f"./compose/secrets.d/{one.name}" for one in (maker.parent / "secrets.d").iterdir()}
    if made != {one["file"] for one in compose["secrets"].values()}:
        yield "deploy/compose/secrets does not make what is mounted"

    config = tomllib.loads((FOLDER / "compose/gate/oncegate.toml").read_text())
    named = [config["secret_file"], config["admin_token_file"], config["auth"]["hs256_secret_file"], config["store"]["url_file"]]
    if sorted(named) != sorted(f"/run/secrets/{one}" for one in gate["secrets"]):
        yield "the gate's secrets are not those that its configuration names"
    if "owner-url" in gate["secrets"] or services["migrate"]["secrets"] != ["owner-url"]:
        yield "the owner's URL is for the migration, and for nobody else"
    if services["app"].get("network_mode") != "service:gate" or "ports" in services["app"]:
        yield "the app can be reached past the gate"
    listens = re.search(r'ThreadingHTTPServer\(\("(.*?)", (\d+)\)', (FOLDER / "compose/app.py").read_text())
    if config["upstream"]["url"] != f"http://127.0.0.1:{listens[2]}" or listens[1] != "127.0.0.1":
        yield "the app does not listen where the gate calls, and only there"
    if seconds(gate["stop_grace_period"]) < needed(config):
        yield "the gate is killed before its calls have ended"
    unit = (FOLDER / "systemd/oncegate.service").read_text()
    if seconds(re.search(r"^TimeoutStopSec=(\S+)$", unit, re.M)[1]) < needed({}):
        yield "systemd kills the gate before its calls have ended"


def needed(config):
    """How long a gate may take to stop."""
    queue = config.get("limits", {}).get("queue_time", "5s")
    return seconds(queue) + seconds(config.get("upstream", {}).get("timeout", "300s")) + 2 * STORING


def main():
    found = list(faults())
    for fault in found:
        print(f"deploy: {fault}", file=sys.stderr)
    if found:
        sys.exit(1)
    print("deploy/compose.yaml and deploy/systemd fit.")


if __name__ == "__main__":
    main()
