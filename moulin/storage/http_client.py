"""HTTP requests to services in settings. Does not use urllib's default opener, which reads files and follows
redirects.
"""

from __future__ import annotations

import ssl
from typing import Any
from urllib import request


def open_address(asked: request.Request, timeout: float) -> Any:
    """The answer to a request, to be closed. A redirect is an HTTPError, as every other status but 2xx is."""
    opener = request.OpenerDirector()
    handlers: list[request.BaseHandler] = [
        request.ProxyHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
    ]
    if asked.type == "https":
        handlers.append(request.HTTPSHandler(context=ssl.create_default_context()))
    else:
        handlers.append(request.HTTPHandler())
    for handler in handlers:
        opener.add_handler(handler)
    return opener.open(asked, timeout=timeout)


__all__ = ["open_address"]
