"""A service that is told something cannot take a hub's memory or time, nor send it elsewhere."""

import time
from contextlib import contextmanager

import pytest
import requests

from aggregator.bounded_session import BoundedSession
from tests.loopback import loopback


@contextmanager
def service(answer):
    """A service on loopback whose answer this function writes; its address, and the paths that were asked."""
    paths = []

    def answered(request):
        paths.append(request.path)
        try:
            answer(request)
        except OSError:  # the hub has hung up
            request.close_connection = True

    with loopback(answered) as url:
        yield url, paths


def endless(handler):
    """As much as the hub takes."""
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def dripping(handler):
    """A byte now and then."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"x")
        time.sleep(0.05)


def elsewhere(handler):
    """Another address."""
    handler.answer(307, Location="/elsewhere")


def plain(handler):
    """A small one."""
    handler.answer(201, b"ok")


@pytest.mark.parametrize("answer", [endless, dripping])
def test_an_answer_is_cut(answer):
    """By its size and by its time."""
    began = time.monotonic()
    with service(answer) as (url, _), pytest.raises(requests.RequestException, match="longer or slower"):
        BoundedSession(1.0).post(url, data=b"told", timeout=2)
    assert time.monotonic() - began < 8


def test_an_answer_that_leads_elsewhere_is_not_followed():
    """What was told is told to nobody else."""
    with service(elsewhere) as (url, paths):
        assert BoundedSession(1.0).post(url, data=b"told", timeout=2).status_code == 307
    assert paths == ["/"]


def test_a_small_answer_is_whole():
    """Its text and status, as with any session."""
    with service(plain) as (url, _):
        found = BoundedSession(1.0).post(url, data=b"told", timeout=2)
    assert (found.status_code, found.text) == (201, "ok")
