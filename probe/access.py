"""How to reach a collector, and as whom: addresses, TLS, and the token of this sandbox.

Files are read again for each connection, so keys and tokens change without a restart.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from probe.local import TOKEN
from probe.problem import Problem

if TYPE_CHECKING:
    import argparse

CHANNEL_OPTIONS = (
    # A collector that vanished without a word (a cut cable) is noticed all the same.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # The proxy in a sandbox's environment is for the workload, not for us.
    ("grpc.enable_http_proxy", 0),
    # Else a new channel inherits the back-off of the one before it, on top of ours.
    ("grpc.use_local_subchannel_pool", 1),
)


def check_address(address: str) -> str:
    """`host:port` or `unix:/path`, as given. Problem where it is neither."""
    if address.startswith("unix:"):
        if address.removeprefix("unix:").strip("/"):
            return address
    else:
        host, _, port = address.rpartition(":")
        bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
        if host and not bare_ipv6 and port.isascii() and port.isdecimal() and int(port) < 1 << 16:
            return address
    raise Problem(f"{address!r} is no address", "give host:port, [ipv6]:port or unix:/path")


def is_local(address: str) -> bool:
    """Whether nobody between the two ends could listen: a Unix socket, or loopback."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Access:
    """`addresses` are of collectors with one database: whichever answers will do."""

    addresses: tuple[str, ...]
    ca: str | None = None  # files, in PEM
    certificate: str | None = None
    key: str | None = None
    token_file: str | None = None
    token: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        """Problem where it could never work."""
        for address in self.addresses:
            check_address(address)
        if bool(self.certificate) != bool(self.key):
            raise Problem("--cert and --key belong together", "give both, or none")
        if self.insecure and (self.ca or self.certificate):
            raise Problem("--insecure is for plain text", "leave it out, or --ca and --cert")
        if self.token_file:
            _read("--token-file", self.token_file)
        if any(map(self.is_secure, self.addresses)):
            self._check_files()

    def is_secure(self, address: str) -> bool:
        """Whether TLS is spoken there: always, but for where it is not needed or not wanted."""
        if address.startswith("unix:") or self.insecure:
            return False
        return bool(self.ca or self.certificate) or not is_local(address)

    def channel(self, address: str) -> Any:
        """OSError where a file has become unreadable meanwhile."""
        import grpc

        target = address if address.startswith("unix:") else f"dns:///{address}"
        if not self.is_secure(address):
            return grpc.insecure_channel(target, options=CHANNEL_OPTIONS)
        files = (self.ca, self.key, self.certificate)
        credentials = grpc.ssl_channel_credentials(*(_bytes(file) for file in files))
        return grpc.secure_channel(target, credentials, options=CHANNEL_OPTIONS)

    def metadata(self) -> list[tuple[str, str]]:
        """What each call carries. OSError where the file has become unreadable meanwhile."""
        token = self.token
        if self.token_file:
            with open(self.token_file, encoding="ascii", errors="replace") as file:
                token = file.read().strip()
        return [("authorization", f"Bearer {token}")] if token else []

    def compression(self, address: str) -> Any:
        """What stays on this machine is not worth the work."""
        import grpc

        return grpc.Compression.NoCompression if is_local(address) else grpc.Compression.Gzip

    def _check_files(self) -> None:
        """Before gRPC does, which says too little of what is wrong with a file."""
        if self.ca:
            check_ca(self.ca)
        if self.certificate and self.key:
            check_pair(self.certificate, self.key)


def check_ca(path: str, flag: str = "--ca") -> None:
    """Problem where the file holds no certificates in PEM."""
    import ssl

    _read(flag, path)
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError as error:
        raise Problem(
            f"{flag} {path}: no certificates ({error.reason})", "give them in PEM"
        ) from None


def check_pair(certificate: str, key: str, flags: tuple[str, str] = ("--cert", "--key")) -> None:
    """Problem where the two files are not a certificate and its key, in PEM."""
    import ssl

    _read(flags[0], certificate)
    _read(flags[1], key)
    try:
        ssl.create_default_context().load_cert_chain(certificate, key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise Problem(
            f"{flags[0]} {certificate}, {flags[1]} {key}: {reason}",
            "give a certificate and its own key, unencrypted, in PEM",
        ) from None


def from_environment() -> dict[str, str | None]:
    """What the flags of `add_flags` are where they are not given."""
    names = ("collector", "ca", "cert", "key", "token_file")
    return {name: os.environ.get(f"PROBE_{name.upper()}") or None for name in names}


def from_options(options: argparse.Namespace, collector: str) -> Access:
    """From the flags, else from the environment. Problem where it could never work.

    The token goes out of the environment: what runs under us shall not find it there.
    """
    given = from_environment()
    for name in given:
        given[name] = getattr(options, name, None) or given[name]
    return Access(
        tuple(address.strip() for address in collector.split(",")),
        ca=given["ca"],
        certificate=given["cert"],
        key=given["key"],
        token_file=given["token_file"],
        token=os.environ.pop(TOKEN, None),
        insecure=options.insecure or os.environ.get("PROBE_INSECURE", "0") not in ("", "0"),
    )


def _read(flag: str, path: str) -> None:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise Problem(f"{flag} {path}: {error.strerror}", "name a file that can be read") from None


def _bytes(path: str | None) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()
