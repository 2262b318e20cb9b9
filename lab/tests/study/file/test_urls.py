"""URLs of running servers, which a study, a comparison and a conformance run read alike."""

from __future__ import annotations

import pytest

from thunderherd.study.file.urls import ServerUrl, server_url


@pytest.mark.parametrize(
    ("text", "parts", "address"),
    [
        ("http://localhost", ("http", "localhost", None, "/"), "localhost:80"),
        ("http://127.0.0.1:8080/a?b=c", ("http", "127.0.0.1", 8080, "/a?b=c"), "127.0.0.1:8080"),
        ("bytes://[::1]:9000", ("bytes", "[::1]", 9000, "/"), "[::1]:9000"),
        ("http://h/?q", ("http", "h", None, "/?q"), "h:80"),
    ],
)
def test_a_url_has_parts_and_an_address(
    text: str, parts: tuple[str, str, int | None, str], address: str
) -> None:
    found = server_url(text)
    assert found == ServerUrl(*parts) and found is not None and found.address(80) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://",
        "http:///path",
        "http://h:port",
        "http://h:65536",
        "http://[::1",
        "http://user:password@h/",
    ],
)
def test_a_text_without_a_host_with_a_wrong_port_or_a_user_is_no_url(text: str) -> None:
    assert server_url(text) is None
