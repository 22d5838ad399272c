"""Holds JSON texts, one a line on standard input, against the schema in the file that is named; says what does not fit."""

import json
import sys

import jsonschema


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    faults = 0
    for line in sys.stdin:
        for fault in validator.iter_errors(json.loads(line)):
            faults += 1
            print(f"{fault.json_path}: {fault.message}\n  in {line.strip()}")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
