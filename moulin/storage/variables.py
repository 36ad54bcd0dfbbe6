"""What the environment says of object stores, as storage options: for processes that do not get the environment."""

# Decisions: docs/decisions/0740

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_S3: Final = """
access_key_id secret_access_key session_token region default_region endpoint endpoint_url allow_http
container_credentials_relative_uri container_credentials_full_uri container_authorization_token_file
web_identity_token_file role_arn role_session_name skip_signature virtual_hosted_style_request
"""
_GCS: Final = "service_account service_account_path service_account_key application_credentials"
_AZURE: Final = """
client_id client_secret tenant_id authority_id federated_token_file msi_endpoint identity_endpoint endpoint
storage_account_name storage_account_key storage_access_key storage_client_id storage_client_secret storage_tenant_id
storage_sas_key storage_token storage_endpoint storage_use_emulator
"""
_OF_SCHEMES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "s3": ("AWS_", _S3),
        "s3a": ("AWS_", _S3),
        "gs": ("GOOGLE_", _GCS),
        "az": ("AZURE_", _AZURE),
        "abfs": ("AZURE_", _AZURE),
        "abfss": ("AZURE_", _AZURE),
    }
)


def with_variables(uri: str, options: Mapping[str, str], environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options of a store, and those that it takes of the environment beside them."""
    prefix, names = _OF_SCHEMES.get(uri.partition("://")[0], ("", ""))
    found = os.environ if environ is None else environ
    given = {key.lower().removeprefix(prefix.lower()) for key in options}
    read = {name: found[f"{prefix}{name.upper()}"] for name in names.split() if f"{prefix}{name.upper()}" in found}
    # obstore knows allow_http without the prefix alone, and the others of Azure and Google with it alone.
    own = "" if prefix == "AWS_" else prefix.lower()
    return {**{f"{own}{name}": value for name, value in read.items() if name not in given}, **options}


__all__ = ["with_variables"]
