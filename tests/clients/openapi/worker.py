"""A worker in a process of its own, to be killed: claims a job, calls its provider, and reports nothing.

Arguments: the gate's address, a token, the job as JSON, and the provider: a file that gets one line a call. With `finish` as
a fifth argument it completes the job. What it was told stands on standard output, a line each.
"""

import json
import sys
import time
import urllib.error
import urllib.request


def ask(gate: str, token: str, path: str, body: dict) -> dict:
    request = urllib.request.Request(
        f"http://{gate}/gate/claims{path}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        return json.load(refused)


def main() -> None:
    gate, token, job, provider = sys.argv[1:5]
    job = json.loads(job)
    told = ask(gate, token, "", job)
    if told.get("outcome") == "fresh":
        with open(provider, "a", encoding="utf-8") as calls:
            calls.write(told["forward_key"] + "\n")
        if "finish" in sys.argv[5:]:
            attempt = {name: job[name] for name in ("tenant", "job", "key")} | {"attempt_id": told["attempt_id"]}
            print(json.dumps(ask(gate, token, "/complete", attempt | {"result": "done"})), flush=True)
            return
    print(json.dumps(told), flush=True)
    # Until it is killed.
    time.sleep(600)


if __name__ == "__main__":
    main()
