"""The usual HTTP client of Python, as an app uses it: orders come as a line of JSON each, what it met goes out so."""

import base64
import json
import sys

import requests


def ask(session, order):
    body = {}
    if "json" in order:
        body["json"] = order["json"]
    elif "form" in order:
        body["data"] = [tuple(pair) for pair in order["form"]]
    elif "parts" in order:
        body["files"] = [
            (part["name"], (part.get("filename"), part["text"], part.get("type"))) for part in order["parts"]
        ]
    elif "bytes" in order:
        body["data"] = base64.b64decode(order["bytes"])
    try:
        answer = session.request(
            order["method"],
            order["url"],
            headers=dict(order["headers"]),
            allow_redirects=False,
            stream=True,
            timeout=60,
            **body,
        )
        # Unpacked as apps read it, or as it came over the wire.
        data = answer.content if order["unpack"] else answer.raw.read(decode_content=False)
    except requests.exceptions.ConnectionError:
        return {"lost": True}
    headers = [[name, value] for name, value in answer.raw.headers.items()]
    return {"status": answer.status_code, "headers": headers, "body": base64.b64encode(data).decode()}


def main():
    session = requests.Session()
    for line in sys.stdin:
        print(json.dumps(ask(session, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
