"""An application for uvicorn: `uvicorn application:application`. It has HTTP only."""

BODY = b"x" * 4000
HEADERS = [(b"content-length", b"4000")]


async def application(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})
