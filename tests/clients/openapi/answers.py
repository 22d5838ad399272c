"""Holds answers against the OpenAPI description in the file that is named, once that itself is sound.

Says `read` first. Each line on standard input is an exchange: path, method, what was sent, and the answer's status, type and body. Each is
answered with one line: `ok`, or what does not fit.
"""

import json
import sys

from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate


class Description:
    def __init__(self, document: dict) -> None:
        validate(document)
        self.document = document

    def faults(self, schema: dict, value: object) -> list[str]:
        # The schemas name each other from the document's root.
        whole = {**schema, "components": self.document["components"]}
        validator = OAS31Validator(whole, format_checker=OAS31Validator.FORMAT_CHECKER)
        return [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(value)]

    def check(self, exchange: dict) -> list[str]:
        status, kind, body = str(exchange["status"]), exchange["type"], json.loads(exchange["body"])
        if exchange["path"] not in self.document["paths"]:
            problem = self.faults({"$ref": "#/components/schemas/Problem"}, body)
            return problem if status in ("401", "404") else [f"{status} for a path that is not described"]
        operations = self.document["paths"][exchange["path"]]
        operation = operations.get(exchange["method"].lower())
        if operation is None:
            operation = next(iter(operations.values()))
            if status not in ("401", "405"):
                return [f"{status} for a method that is not described"]
        answer = operation["responses"].get(status)
        if answer is None:
            return [f"{status} is not described"]
        if kind not in answer["content"]:
            return [f"{kind} is not described for {status}"]
        found = self.faults(answer["content"][kind]["schema"], body)
        if status == "200" and "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            found += ["what was taken: " + fault for fault in self.faults(schema, json.loads(exchange["sent"]))]
        return found


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        description = Description(json.load(file))
    print("read", flush=True)
    for line in sys.stdin:
        faults = description.check(json.loads(line))
        print("; ".join(faults) or "ok", flush=True)


if __name__ == "__main__":
    main()
