"""Starts the image as the rendered pod says, and has it guard an app of this machine, from its first migration to its end.

Promises: what is started has the arguments, mounts, user and restrictions of deploy/kubernetes' own gate and migration;
the app is found by DNS and the store by /etc/hosts; the image is small, and holds what is listed here and nothing else.

Needs podman, a PostgreSQL in ONCEGATE_TEST_POSTGRES (tests/with-postgres), and port 53 on a loopback address.
"""

import glob
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import kubernetes

IMAGE = sys.argv[1]
MOST_BYTES = 30 * 2**20
# What works without systemd, without user namespaces and on any file system.
PODMAN = ["podman", "--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--runtime=runc"]
FILES = {
    "etc/group",
    "etc/passwd",
    "etc/ssl/certs/ca-certificates.crt",
    "usr/local/bin/oncegate",
    "usr/share/doc/oncegate/LICENSE",
    "usr/share/doc/oncegate/oncegate.cdx.json",
}


def run(*command, check=True):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and ran.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{ran.stdout}{ran.stderr}")
    return ran


def until(what, probe, limit=30):
    begun = time.monotonic()
    while not (found := probe()):
        if time.monotonic() - begun > limit:
            raise SystemExit(f"waited {limit} s for {what}")
        time.sleep(0.1)
    return found


def must(sentence, holds, shown=""):
    if not holds:
        raise SystemExit(f"does not hold: {sentence}\n{shown}")
    print(f"  {sentence}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class App(http.server.BaseHTTPRequestHandler):
    """An MCP server that refunds, and counts."""

    protocol_version = "HTTP/1.1"
    refunds = []
    gate = threading.Event()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        order = asked["params"]["arguments"]["order_id"]
        App.refunds.append(order)
        if order == "slow":
            App.gate.wait(20)
        result = {"content": [{"type": "text", "text": "refunded"}], "structuredContent": {"refund": len(App.refunds)}}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def answer_names(server):
    """A name server that knows one name."""
    known = b"".join(bytes([len(part)]) + part.encode() for part in "app.oncegate.test".split(".")) + b"\0"
    while True:
        query, who = server.recvfrom(512)
        question = query[12 : query.index(b"\0", 12) + 5]
        found = question[:-4].lower() == known
        address = found and question[-4:-2] == b"\0\1"
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1" if address else b""
        flags = b"\x81\x80" if found else b"\x81\x83"
        server.sendto(query[:2] + flags + b"\0\1\0" + bytes([address]) + b"\0\0\0\0" + question + record, who)


class Pod:
    """What the rendered pod says, on this machine's podman."""

    def __init__(self, rendered, folder, environment):
        self.rendered, self.folder = rendered, folder
        self.environment, self.edits = environment, 0
        self.name = f"oncegate-test-{os.getpid()}"

    def flags(self, container, mounts):
        context = container["securityContext"]
        flags = ["--network=host", f"--user={context['runAsUser']}:{context['runAsGroup']}"]
        flags += ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]  # podman may not raise them everywhere
        flags += [f"--cap-drop={one}" for one in context["capabilities"]["drop"]]
        flags += ["--read-only", "--read-only-tmpfs=false"] if context["readOnlyRootFilesystem"] else []
        flags += ["--security-opt=no-new-privileges"] if not context["allowPrivilegeEscalation"] else []
        flags += [f"--volume={self.folder}/resolv.conf:/etc/resolv.conf:ro", "--add-host=store.oncegate.test:127.0.0.1"]
        for mount in container["volumeMounts"]:
            mode = "ro" if mount.get("readOnly") else "rw"
            flags.append(f"--volume={self.folder}/{mounts[mount['name']]}:{mount['mountPath']}:{mode}")
        return flags

    def migrate(self):
        job = self.rendered.job["containers"][0]
        told = [f"--env={one['name']}={one['value']}" for one in job["env"]]
        return run(*PODMAN, "run", "--rm", *self.flags(job, {"owner": "owner"}), *told, IMAGE, *job["args"])

    def start(self):
        gate = self.rendered.gate
        mounts = {name: name.removeprefix("oncegate-") for name in self.rendered.volumes}
        told = [f"--env={name}={value}" for name, value in self.environment.items()]
        run(*PODMAN, "run", "--detach", f"--name={self.name}", *self.flags(gate, mounts), *told, IMAGE, *gate["args"])

    def edit_policy(self, old, new):
        """As a kubelet does it: a new folder, and one link that is moved to it."""
        policies = self.folder / "policies"
        self.edits += 1
        folder = policies / f"..edit{self.edits}"
        folder.mkdir()
        for name, text in self.rendered.maps["oncegate-policies"].items():
            (folder / name).write_text(text.replace(old, new))
        (policies / "..data_tmp").symlink_to(folder.name)
        (policies / "..data_tmp").rename(policies / "..data")

    def execute(self, *command):
        return run(*PODMAN, "exec", self.name, *command, check=False)

    def logs(self):
        ran = run(*PODMAN, "logs", self.name, check=False)
        return ran.stdout + ran.stderr

    def remove(self):
        run(*PODMAN, "rm", "--force", "--ignore", "--time=0", self.name, check=False)


def ask(port, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST" if body else "GET", path, body and json.dumps(body), headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def lay_out(folder, store, database):
    """Files where the pod's volumes are, the policies as a ConfigMap lays them out."""
    objects = kubernetes.render(kubernetes.DEPLOY / "laravel") + kubernetes.render(kubernetes.DEPLOY / "laravel/migrate")
    rendered = kubernetes.Rendered(objects)
    for name in ("config", "policies/..one", "secrets", "owner", "spool"):
        (folder / name).mkdir(parents=True)
    configuration = rendered.maps["oncegate"]["oncegate.toml"]
    keys = 'hs256_secret_file = "/run/secrets/oncegate/jwt"'
    configuration = "\n".join(keys if line.startswith("jwks_url") else line for line in configuration.splitlines())
    (folder / "config/oncegate.toml").write_text(configuration)
    for name, text in rendered.maps["oncegate-policies"].items():
        (folder / "policies/..one" / name).write_text(text)
        (folder / "policies" / name).symlink_to(f"..data/{name}")
    (folder / "policies/..data").symlink_to("..one")
    for name in ("secret", "jwt", "admin-token"):
        (folder / "secrets" / name).write_text(os.urandom(32).hex())
    (folder / "secrets/store-url").write_text(f"postgres://oncegate:g@store.oncegate.test:{store.port}/{database}")
    (folder / "owner/store-url").write_text(f"postgres://oncegate_owner:o@store.oncegate.test:{store.port}/{database}")
    (folder / "resolv.conf").write_text("nameserver 127.53.53.53\n")
    (folder / "spool").chmod(0o777)  # as an emptyDir is
    folder.chmod(0o755)
    return rendered


def check_image():
    told = json.loads(run(*PODMAN, "image", "inspect", IMAGE).stdout)[0]
    size = told["Size"]
    must(f"the image has {size / 2**20:.1f} MiB, of 30", size < MOST_BYTES)
    must("it is run by 65532", told["Config"]["User"] == "65532:65532")
    labels = told["Config"]["Labels"]
    must("its labels say what it is", labels["org.opencontainers.image.title"] == "oncegate", labels)
    mounted = pathlib.Path(run(*PODMAN, "image", "mount", IMAGE).stdout.strip())
    found = {str(one.relative_to(mounted)) for one in mounted.rglob("*") if not one.is_dir()}
    run(*PODMAN, "image", "unmount", IMAGE)
    must("it holds what is listed, and nothing to log in to", found == FILES, found ^ FILES)


def check_calls(pod, ports):
    gate, health = ports
    program = pod.rendered.drain()[0]
    must("without its tables the gate is not ready, and says what to do", until(
        "its word", lambda: "oncegate migrate" in pod.logs() and ask(health, "/readyz")[0] == 503
    ), pod.logs())
    must("the migration makes them, as their owner", "The schema is at version" in pod.migrate().stdout)
    until("the gate to be ready", lambda: ask(health, "/readyz")[0] == 200)
    config = "--config=/etc/oncegate/oncegate.toml"
    made = pod.execute(program, "token", config, "--tenant=acme", "--user=u1", "--scope=billing:refund")
    headers = {"Authorization": f"Bearer {made.stdout.strip()}", "Content-Type": "application/json"}
    headers |= {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

    def refund(order):
        arguments = {"order_id": order, "idempotency_key": f"key-{order}"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "refund_order", "arguments": arguments}}
        text = ask(gate, "/mcp", body, headers)[1].decode()
        data = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
        return json.loads(data[-1] if data else text)["result"]

    first, again = refund("o1"), refund("o1")
    must("the app is found by DNS, the store by /etc/hosts, and a refund runs", first.get("structuredContent") == {"refund": 1}, first)
    must("its retry gets the first answer, and runs nothing", again["_meta"]["oncegate/replayed"] and App.refunds == ["o1"], again)

    def refused():
        return refund("o2").get("_meta", {}).get("oncegate/refusal", {}).get("code") == "operation_not_allowed"

    pod.edit_policy("[tools.refund_order]", "[tools.refund_other]")
    until("an edit of the policy to be taken up", refused)
    must("an edit of the policy's ConfigMap takes effect in the running gate", refused())
    pod.edit_policy("", "")
    until("its undoing to be taken up", lambda: not refused())

    running = []
    calling = threading.Thread(target=lambda: running.append(refund("slow")))
    calling.start()
    until("the app to be at it", lambda: "slow" in App.refunds)
    draining = []
    hook = threading.Thread(target=lambda: draining.append(pod.execute(*pod.rendered.drain())))
    hook.start()
    until("the gate to leave", lambda: ask(health, "/readyz")[0] == 503)
    until("new calls to be refused", lambda: refund("late").get("_meta", {}).get("oncegate/refusal", {}).get("code") == "overloaded")
    App.gate.set()
    calling.join()
    hook.join()
    must("the preStop hook lets a running call end", running[0]["structuredContent"]["refund"] > 1, running)
    must("and succeeds once nothing runs", draining[0].returncode == 0, draining)
    run(*PODMAN, "kill", "--signal=TERM", pod.name)
    must("SIGTERM ends it with 0", run(*PODMAN, "wait", pod.name).stdout.strip() == "0", pod.logs())


def main():
    check_image()
    store = urllib.parse.urlsplit(os.environ["ONCEGATE_TEST_POSTGRES"])
    psql = shutil.which("psql") or max(glob.glob("/usr/lib/postgresql/*/bin/psql"))
    database = f"image_{os.getpid()}"
    run(psql, store.geturl(), "--command", f"CREATE DATABASE {database}")
    url = store._replace(path=f"/{database}").geturl()
    roles = kubernetes.DEPLOY / "migrate/roles.sql"
    run(psql, url, "--set=ON_ERROR_STOP=1", "--set=owner_password=o", "--set=gate_password=g", f"--file={roles}")

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), App)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.53.53.53", 53))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Thread(target=answer_names, args=(names,), daemon=True).start()

    gate, health, admin = free_port(), free_port(), free_port()
    environment = {
        "ONCEGATE_LISTEN": f"127.0.0.1:{gate}",
        "ONCEGATE_HEALTH_LISTEN": f"127.0.0.1:{health}",
        "ONCEGATE_ADMIN_LISTEN": f"127.0.0.1:{admin}",
        "ONCEGATE_UPSTREAM__URL": f"http://app.oncegate.test:{server.server_port}",
    }
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pod = Pod(lay_out(folder, store, database), folder, environment)
        try:
            pod.start()
            check_calls(pod, (gate, health))
        except BaseException:
            print(pod.logs(), file=sys.stderr)
            raise
        finally:
            pod.remove()
    gates = f"postgres://oncegate@{store.hostname}:{store.port}/{database}"
    count = run(psql, gates, "-At", "--command=SELECT count(*) FROM oncegate.audit_events").stdout
    must("every call stands in the audit", int(count) >= 4, count)
    deleted = run(psql, gates, "--command=DELETE FROM oncegate.audit_events", check=False)
    must("the gate's role deletes no row of it", "permission denied" in deleted.stderr, deleted.stderr)


if __name__ == "__main__":
    main()
