"""gRPC's health check, from the side of who asks."""

from __future__ import annotations

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from collector.ingest import SERVICE
from probe.access import Access

WAIT_S = 4.0


def obstacle(access: Access) -> str | None:
    """What keeps one of the collectors from taking anything; None where all of them serve."""
    for address in access.addresses:
        found = _obstacle(access, address)
        if found:
            return f"{address} does not serve: {found}"
    return None


def _obstacle(access: Access, address: str) -> str | None:
    try:
        with access.channel(address) as channel:
            request = health_pb2.HealthCheckRequest(service=SERVICE)
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=WAIT_S)
    except grpc.RpcError as error:
        return str(error.details())
    except OSError as error:
        return str(error)
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return None
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))
