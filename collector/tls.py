"""The server's certificate, its key, and whose certificates it takes; all three may change."""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import structlog

from probe.access import check_ca, check_pair
from probe.problem import Problem


class Tls:
    """Files in PEM, read again at the next connection after they have changed."""

    def __init__(self, certificate: str | None, key: str | None, client_ca: str | None) -> None:
        """Problem where they cannot be used."""
        if not certificate or not key:
            raise Problem("--tls-cert and --tls-key belong together", "give both, or none")
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._state = self._stat()
        self._check()
        self._log = structlog.get_logger("tls")

    def credentials(self) -> grpc.ServerCredentials:
        """Those of now, which follow the files."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration(), self._fresh, self._client_ca is not None
        )

    def _fresh(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC at each handshake; None: nothing has changed."""
        state = self._stat()
        if state == self._state:
            return None
        try:
            self._check()
            configuration = self._configuration()
        except (Problem, OSError) as problem:  # a half-written pair: what held before holds on
            self._log.warning("certificate not read", reason=str(problem))
            return None
        self._state = state
        self._log.info("certificate read")
        return configuration

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        ca = Path(self._client_ca).read_bytes() if self._client_ca else None
        pair = (Path(self._key).read_bytes(), Path(self._certificate).read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=ca)

    def _check(self) -> None:
        check_pair(self._certificate, self._key, ("--tls-cert", "--tls-key"))
        if self._client_ca:
            check_ca(self._client_ca, "--client-ca")

    def _stat(self) -> object:
        files = filter(None, (self._certificate, self._key, self._client_ca))
        try:
            return [(found.st_ino, found.st_mtime_ns) for found in map(os.stat, files)]
        except OSError as error:
            return error.errno
