"""The HTTP request of a hook: a POST, retried after transient failures."""

from __future__ import annotations

import http.client
from collections.abc import Mapping

from fairwarning.guest.agent.connections import HttpPost, is_success, is_transient
from fairwarning.guest.session import retry_after

CONNECT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0


class HookRequest:
    """An HTTP request, retried after transient failures. Proxies and redirects are ignored."""

    grace_seconds = killed_seconds = 0.0

    def __init__(self, url: str, body: bytes, headers: Mapping[str, str], deadline: float) -> None:
        """Prepare a request; `deadline` is of the monotonic clock."""
        self._post = HttpPost(url, headers, body)
        self._deadline = deadline
        self._output = ""  # the response to the last failure, then the failure

    def run(self) -> str:
        """Send the request until a response is final; return the failure or an empty string."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            wait, body = 0.0, ""
            try:
                response, phrase = self._post.send(CONNECT_SECONDS, self._deadline)
            except http.client.InvalidURL as error:
                return f"the URL is invalid: {error}"
            except (OSError, http.client.HTTPException) as error:
                error_message = f"there was no response: {str(error) or type(error).__name__}"
            except ValueError as error:
                return f"the URL is invalid: {error}"
            else:
                self._output = body = response.body.decode("utf-8", "replace")
                if is_success(response.status):
                    return ""
                error_message = f"the response was {response.status} {phrase}"
                wait = retry_after(response)
                if not is_transient(response.status):
                    return error_message
            if not self._post.cancelled.is_set():
                self._output = f"{body}\n{error_message}"
            if self._post.cancelled.wait(min(max(pause, wait), LONGEST_PAUSE_SECONDS)):
                return error_message
            pause *= 2

    def output(self) -> str:
        """Return the last failure and what the server said."""
        return self._output

    def terminate(self) -> None:
        """Close the connection; send nothing more."""
        self._post.cancel()

    def kill(self) -> None:
        """Do nothing: `terminate` has closed the connection."""
