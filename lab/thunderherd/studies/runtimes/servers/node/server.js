// One event loop, by the standard library: node server.js http|echo PORT.
const [workload, port] = process.argv.slice(2);
if (workload === "echo") {
    const server = require("node:net").createServer({ noDelay: true }, (client) => {
        client.on("data", (bytes) => client.write(bytes));
        client.on("error", () => client.destroy());
    });
    server.listen(Number(port), "0.0.0.0", 1024);
} else {
    const body = Buffer.alloc(4000, "x");
    const server = require("node:http").createServer((_, reply) => {
        reply.writeHead(200, { "Content-Length": body.length });
        reply.end(body);
    });
    server.keepAliveTimeout = 0;
    server.listen(Number(port), "0.0.0.0", 1024);
}
