"""What botocore raises, as our errors: the one place that decides between missing, denied and unavailable."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from kernelforge.errors import ObjectConflict, StoreDenied, StoreError, StoreFull, StoreUnavailable
from kernelforge.store.interface import no_such_object
from kernelforge.store.retry import Transient

# Refusals that do not come with status 401 or 403 from every server: expired tokens are 400, another region is 301.
_DENIED_CODES = frozenset({"ExpiredToken", "InvalidToken", "AuthorizationHeaderMalformed", "PermanentRedirect"})
_REGION_CODES = frozenset(
    {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "301", "400"}
)
_DENIED_HINT = "check the credentials, the region and what they permit here"
_DENIED_HINTS = {
    "ExpiredToken": "get new credentials: the session token has expired",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID, and that it is one of this endpoint",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY",
    "RequestTimeTooSkewed": "set this machine's clock",
}
# Load, a lost race between conditional writes, and uploads damaged on their way.
_TRANSIENT_CODES = frozenset(
    {"SlowDown", "RequestTimeout", "ConditionalRequestConflict", "OperationAborted", "BadDigest", "IncompleteBody"}
)
_FULL_CODES = frozenset({"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull"})


@contextlib.contextmanager
def our_errors(where: str) -> Iterator[None]:
    """Raise a ``StoreError`` at ``where`` for every error of botocore inside the block."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except ClientError as error:
        raise _answered(error.response, where) from error
    except (BotoCoreError, ResponseParserError, HTTPError) as error:
        raise _not_answered(error, where) from error
    except RecursionError as error:  # botocore follows a redirect to another region by calling itself
        hint = "check the endpoint: is it https, and the server itself?"
        raise StoreUnavailable("the endpoint redirects for ever", hint=hint, where=where) from error


def _answered(response: Any, where: str) -> StoreError:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = str(response.get("Error", {}).get("Code", ""))
    problem = f"{code} (HTTP {status}): {response.get('Error', {}).get('Message', 'no message')}"
    if code == "NoSuchBucket":
        # Not a miss: a typo in the bucket's name would otherwise read as a store in which nothing was ever built.
        return StoreUnavailable(problem, hint="create the bucket, or check its name and the endpoint", where=where)
    if code in _FULL_CODES or status == 507:
        return StoreFull(problem, hint="make room in the bucket or raise its quota", where=where)
    if code in _TRANSIENT_CODES or status in (409, 429) or (status >= 500 and status != 501):
        return Transient(problem, hint="the store is overloaded or failing: try later", where=where)
    region = _region_in(response)
    if region and (code in _REGION_CODES or status in (301, 307)):
        return StoreDenied(
            f"{problem}; the bucket is in {region}", hint=f"write region={region} behind the location", where=where
        )
    if code in _DENIED_CODES or status in (401, 403):
        return StoreDenied(problem, hint=_DENIED_HINTS.get(code, _DENIED_HINT), where=where)
    if status == 404:
        return no_such_object(where)
    if status == 412:
        return ObjectConflict(problem, hint="a name is written once", where=where)
    return StoreUnavailable(problem, hint="check the location; the server must know conditional writes", where=where)


def _region_in(response: Any) -> str:
    """The region that a refusal names; botocore has followed it once already."""
    header = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
    return str(header or response.get("Error", {}).get("Region", ""))


def _without_path(message: str) -> str:
    # `where` has the object's name: without it, all objects that one server does not answer for have one message.
    return re.sub(r"(https?://[^/\s\"']+)/[^\s\"']*", r"\1", message)


def _with_cause(error: Exception) -> str:
    """botocore says which URL it could not connect to; urllib3, below it, whether that was the name or the port."""
    cause = getattr(error, "kwargs", {}).get("error")
    reason = str(cause).rpartition(": ")[2] if cause is not None else ""
    return f"{error} ({reason})" if reason and reason not in str(error) else str(error)


def _not_answered(error: Exception, where: str) -> StoreError:
    from botocore import exceptions as foreign
    from urllib3.exceptions import HTTPError

    no_credentials = (
        foreign.NoCredentialsError,
        foreign.PartialCredentialsError,
        foreign.CredentialRetrievalError,
        foreign.ProfileNotFound,
        foreign.SSOError,
        foreign.TokenRetrievalError,
    )
    no_connection = (foreign.ConnectionError, foreign.HTTPClientError, foreign.IncompleteReadError, HTTPError)
    if isinstance(error, no_credentials):
        hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role"
        return StoreDenied(str(error), hint=hint, where=where)
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return StoreUnavailable(str(error), hint="name the authority's certificate in AWS_CA_BUNDLE", where=where)
    if isinstance(error, no_connection):
        return Transient(_without_path(_with_cause(error)), hint="check the endpoint and the network", where=where)
    return StoreUnavailable(str(error), hint="check the location and the AWS configuration", where=where)
