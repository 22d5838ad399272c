"""Adds a bearer token to every request on its way to the gate, since the suite cannot.

    forward.py PORT TO TOKEN

Promises: it listens on localhost; what goes through keeps its bytes, Host and Origin with them, apart from the one line
that is added; answers stream as they come; when one side goes, so does the other.
Absent on purpose: everything else. A request that brings a token of its own keeps it, beside nothing of ours.
"""

import asyncio
import sys

HEAD_END = b"\r\n\r\n"


def framing(head: bytes) -> tuple[int, bool, bool]:
    """How a request's body is delimited: its length, whether in chunks; and whether it brings a token."""
    length, chunked, authorized = 0, False, False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        match name.strip().lower():
            case b"content-length":
                length = int(value)
            case b"transfer-encoding":
                chunked = b"chunked" in value.lower()
            case b"authorization":
                authorized = True
    return length, chunked, authorized


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


async def requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
    while True:
        head = (await reader.readuntil(HEAD_END))[: -len(HEAD_END)]
        length, chunked, authorized = framing(head)
        added = b"" if authorized else f"\r\nAuthorization: Bearer {token}".encode()
        writer.write(head + added + HEAD_END)
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
    client: asyncio.StreamReader, to_client: asyncio.StreamWriter, gate: int, token: str
) -> None:
    writers = [to_client]
    try:
        server, to_server = await asyncio.open_connection("127.0.0.1", gate)
        writers.append(to_server)
        ways = [
            asyncio.ensure_future(requests(client, to_server, token)),
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


async def main(port: int, gate: int, token: str) -> None:
    serving = await asyncio.start_server(
        lambda reader, writer: connection(reader, writer, gate, token), "127.0.0.1", port, limit=1 << 20
    )
    print("ready", flush=True)
    await serving.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
