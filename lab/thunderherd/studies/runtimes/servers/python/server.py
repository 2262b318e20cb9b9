"""One event loop, by asyncio or uvloop: server.py asyncio|uvloop http|echo PORT."""

import asyncio
import sys

BODY = b"x" * 4000
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + BODY


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


class Http(Echo):
    head = b""

    def data_received(self, data):
        *heads, self.head = (self.head + data).split(b"\r\n\r\n")
        self.transport.write(REPLY * len(heads))


async def main(protocol, port):
    server = await asyncio.get_running_loop().create_server(protocol, "0.0.0.0", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    loop, workload, port = sys.argv[1:]
    if loop == "uvloop":
        import uvloop

        uvloop.install()
    asyncio.run(main(Echo if workload == "echo" else Http, int(port)))
