"""Adds to every request on its way to the gate what the suite cannot: a bearer token, and a key where one is wanted.

    forward.py PORT TO TOKEN [keys]

Promises: it listens on localhost; what goes through keeps its bytes, Host and Origin with them, apart from the lines
that are added; no two requests get the same key; answers stream as they come; when one side goes, so does the other.
Absent on purpose: everything else. What it adds is beside what came, so a token of the suite's own would be refused.
"""

import asyncio
import sys
import uuid

HEAD_END = b"\r\n\r\n"


def framing(head: bytes) -> tuple[int, bool]:
    """How a request's body is delimited: its length, or whether it comes in chunks."""
    length, chunked = 0, False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        match name.strip().lower():
            case b"content-length":
                length = int(value)
            case b"transfer-encoding":
                chunked = b"chunked" in value.lower()
    return length, chunked


async def chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        # The last chunk is followed by trailers, if any, and an empty line.
        writer.write(line + (await reader.readexactly(size + 2) if size else await trailers(reader)))
        await writer.drain()
        if size == 0:
            return


async def trailers(reader: asyncio.StreamReader) -> bytes:
    lines = b""
    while not lines.endswith(b"\r\n" if len(lines) == 2 else HEAD_END):
        lines += await reader.readuntil(b"\r\n")
    return lines


async def requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, keys: bool) -> None:
    while True:
        head = (await reader.readuntil(HEAD_END))[: -len(HEAD_END)]
        length, chunked = framing(head)
        key = f"\r\nIdempotency-Key: {uuid.uuid4()}" if keys else ""
        writer.write(head + f"\r\nAuthorization: Bearer {token}{key}".encode() + HEAD_END)
        if chunked:
            await chunks(reader, writer)
        while length > 0:
            part = await reader.read(min(length, 65536))
            if not part:
                return
            writer.write(part)
            length -= len(part)
            await writer.drain()
        await writer.drain()


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(65536):
        writer.write(part)
        await writer.drain()


async def connection(
    client: asyncio.StreamReader, to_client: asyncio.StreamWriter, gate: int, token: str, keys: bool
) -> None:
    writers = [to_client]
    try:
        server, to_server = await asyncio.open_connection("127.0.0.1", gate)
        writers.append(to_server)
        ways = [
            asyncio.ensure_future(requests(client, to_server, token, keys)),
            asyncio.ensure_future(answers(server, to_client)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        # Why a side has gone is nothing to this one.
        await asyncio.gather(*ways, return_exceptions=True)
    except ConnectionError:
        pass
    finally:
        for writer in writers:
            writer.close()


async def main(port: int, gate: int, token: str, keys: bool) -> None:
    serving = await asyncio.start_server(
        lambda reader, writer: connection(reader, writer, gate, token, keys), "127.0.0.1", port, limit=1 << 20
    )
    await serving.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], "keys" in sys.argv[4:]))
