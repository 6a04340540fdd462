"""The OpenAPI document and the application have the same requests."""

from __future__ import annotations

import re

import pytest
from starlette.routing import Route

from raftmeta.rest import document, make_app

METHODS = {"get", "put", "post", "delete"}


def served() -> set[tuple[str, str]]:
    """Path and method of everything that the application answers. HEAD comes with GET."""
    routes = make_app("raft://127.0.0.1:1").routes
    assert all(isinstance(one, Route) for one in routes)
    return {
        (re.sub(r":path}", "}", one.path), method.lower())
        for one in routes
        if isinstance(one, Route)
        for method in (one.methods or ())
        if method != "HEAD"
    }


def test_the_document_has_every_route_and_no_other() -> None:
    described = {(path, method) for path, methods in document()["paths"].items() for method in methods}
    assert described == served()
    assert {method for _path, method in described} <= METHODS


@pytest.mark.parametrize("path", sorted(document()["paths"]))
def test_each_request_names_its_parameters_and_answers(path: str) -> None:
    for told in document()["paths"][path].values():
        in_path = {one["name"] for one in told["parameters"] if one["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        assert told["summary"] and {"400", "504"} <= set(told["responses"])
