"""A session of `requests` for services that are told something: their answers are small, soon there, and lead nowhere.

Invariant: no answer takes more memory than its bound or, once its head has come, more time. A redirect is an answer:
what was to be told is not told to somebody else.
"""

import time
from typing import Any

import requests

_MOST_BYTES = 64 * 1024
_CHUNK_BYTES = 4096


class BoundedSession(requests.Session):
    """Sends requests.

    Args:
        patience_s: Seconds for an answer's body.
    """

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_s = patience_s

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """One answer, read to its end.

        Raises:
            RequestException: it did not come, or is longer or slower than its bound.
        """
        response = super().send(request, **options | {"stream": True, "allow_redirects": False})
        deadline_s, body = time.monotonic() + self._patience_s, b""
        while chunk := response.raw.read1(_CHUNK_BYTES):
            body += chunk
            if len(body) > _MOST_BYTES or time.monotonic() > deadline_s:
                response.close()
                raise requests.RequestException("the answer is longer or slower than its bound")
        response._content = body  # noqa: SLF001 - what reading `content` would set, without a bound
        return response
