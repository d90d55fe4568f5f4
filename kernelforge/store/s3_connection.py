"""How a bucket is reached: endpoint, region, credentials, addressing; and the botocore client that follows from it.

botocore finds what is not given: region and endpoint (``AWS_REGION``, ``AWS_DEFAULT_REGION``, ``AWS_ENDPOINT_URL``,
profiles), proxies (``HTTPS_PROXY``, ``HTTP_PROXY``, ``NO_PROXY``), credentials (environment, profile, role, session
tokens included). It is imported when a connection is made. Knows no object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from kernelforge.errors import StoreUnavailable, UsageError
from kernelforge.store.deadline import Deadlines, call_within
from kernelforge.store.s3_errors import our_errors

_ADDRESSINGS = ("path", "virtual")
_ENDPOINT = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?")
_CONNECTIONS = 32
# Servers in Go read so much of what they refuse before they hang up, so the refusal is still heard.
_SENT_AT_ONCE_BYTES = 256 << 10
# A role's credentials come from a service on the machine or in the region, which takes milliseconds, or does not exist:
# its address then leads nowhere, and clients were seen to wait there for four minutes.
_CREDENTIALS_S = 4.0


@dataclass(frozen=True, slots=True)
class S3Options:
    """What a location may say about its bucket; None leaves it to botocore.

    ``addressing``: the bucket in the ``path`` or, ``virtual``, in the host name; by default in the path for endpoints
    that are not Amazon's, since nobody's DNS knows ``bucket.minio.internal``. ``is_anonymous``: requests are not signed
    and no credentials are looked for.
    """

    endpoint_url: str | None = None
    region: str | None = None
    addressing: str | None = None
    is_anonymous: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> S3Options:
        """Read the options of a location; ``ValueError`` says what is wrong with them."""
        unknown = sorted(set(given) - {"endpoint", "region", "addressing", "anonymous"})
        if unknown:
            raise ValueError(f"no option of a bucket is called {', '.join(unknown)}")
        empty = sorted(name for name, value in given.items() if not value)
        if empty:
            raise ValueError(f"the option {', '.join(empty)} has no value")
        endpoint = given.get("endpoint")
        if endpoint is not None and not _ENDPOINT.fullmatch(endpoint):
            raise ValueError("the endpoint is no http or https address, or has more in it than that")
        if given.get("addressing", "path") not in _ADDRESSINGS:
            raise ValueError(f"addressing is one of {', '.join(_ADDRESSINGS)}")
        if given.get("anonymous", "true") != "true":
            raise ValueError("anonymous is true, or not given")
        return cls(endpoint, given.get("region"), given.get("addressing"), "anonymous" in given)

    @property
    def query(self) -> str:
        """As ``parse`` reads them, at the end of a location."""
        given = {
            "endpoint": self.endpoint_url,
            "region": self.region,
            "addressing": self.addressing,
            "anonymous": "true" if self.is_anonymous else None,
        }
        text = "&".join(f"{name}={quote(value, safe=':/')}" for name, value in given.items() if value)
        return f"?{text}" if text else ""


def connect(options: S3Options, deadlines: Deadlines) -> Any:
    """A botocore client that does not retry. Raises ``UsageError``, ``StoreDenied`` and ``StoreUnavailable``."""
    session = _session()
    with our_errors("s3"):
        if not options.is_anonymous:
            _check_credentials(session)
        addressing = options.addressing or ("path" if options.endpoint_url else "auto")
        client = _client(session, options, addressing, deadlines)
        if addressing == "auto" and not _is_amazons(client.meta.endpoint_url):
            client = _client(session, options, "path", deadlines)
    client.meta.events.register_last("before-call.s3", _send_small_bodies_at_once)
    return client


def _session() -> Any:
    try:
        import botocore.session
    except ImportError as error:
        raise UsageError("s3 stores need botocore", hint="pip install 'kernelforge[s3]'", where="s3") from error

    # Of the two variables botocore knows the second one only, other clients of AWS the first one.
    region = ("region", ["AWS_REGION", "AWS_DEFAULT_REGION"], None, None)
    session = botocore.session.Session(session_vars={"region": region})
    # botocore's own list looks into each of the 450 folders of services, which took 20 of the 80 ms of a client.
    loader = session.get_component("data_loader")
    loader.list_available_services = lambda type_name: _folders(loader.search_paths)
    session.set_config_variable("metadata_service_timeout", 1)
    session.set_config_variable("metadata_service_num_attempts", 1)
    return session


def _folders(paths: Iterable[str]) -> list[str]:
    return [name for path in paths if os.path.isdir(path) for name in os.listdir(path)]


def _check_credentials(session: Any) -> None:
    """Make botocore look, which it would do at the first request otherwise, without a limit of its own."""
    from botocore.exceptions import NoCredentialsError

    def look() -> None:
        credentials = session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        credentials.get_frozen_credentials()

    try:
        call_within(_CREDENTIALS_S, look, where="s3")
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"no credentials were found within {_CREDENTIALS_S:g} s: the service that gives them out is silent",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, check the role, or read with anonymous=true",
            where="s3",
        ) from error


def _client(session: Any, options: S3Options, addressing: str, deadlines: Deadlines) -> Any:
    import botocore
    import botocore.config

    config = botocore.config.Config(
        connect_timeout=deadlines.connect_s,
        read_timeout=deadlines.read_s,
        retries={"total_max_attempts": 1},
        max_pool_connections=_CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": addressing},
        signature_version=botocore.UNSIGNED if options.is_anonymous else None,
    )
    try:
        return session.create_client("s3", endpoint_url=options.endpoint_url, region_name=options.region, config=config)
    except ValueError as error:
        raise UsageError(str(error), hint="an endpoint reads http://host:port", where="s3") from error


def _send_small_bodies_at_once(params: dict[str, Any], **_: Any) -> None:
    """Do not ask whether a body is wanted: it costs each PUT a round trip, and a second where a proxy swallows it."""
    from botocore.utils import determine_content_length

    if (determine_content_length(params["body"]) or 0) <= _SENT_AT_ONCE_BYTES:
        params["headers"].pop("Expect", None)


def _is_amazons(endpoint_url: str) -> bool:
    return ".amazonaws." in (urlsplit(endpoint_url).hostname or "")
