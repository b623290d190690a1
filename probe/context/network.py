"""What the routing table says of an address, in the network namespace of a process."""

from __future__ import annotations

import ctypes
import os
import threading

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def route(address: str, pid: int) -> str | None:
    """ "dev eth0 via 10.0.0.1", or why there is none; None where the process has gone."""
    try:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    found: list[str] = []

    def visit() -> None:
        # A network namespace belongs to a thread (setns(2)), so this one may change its own.
        if _libc.setns(namespace, _CLONE_NEWNET) == 0:
            found.append(_look_up(address))

    visitor = threading.Thread(target=visit)
    visitor.start()
    visitor.join()
    os.close(namespace)
    return found[0] if found else None


def _look_up(address: str) -> str:
    from pyroute2 import IPRoute, NetlinkError

    with IPRoute() as kernel:
        try:
            attributes = dict(next(iter(kernel.route("get", dst=address)))["attrs"])
            links = kernel.get_links(attributes["RTA_OIF"])
        except NetlinkError as error:
            return f"no route: {os.strerror(error.code)}"
        except (KeyError, StopIteration):
            return "no route"
    device = dict(links[0]["attrs"]).get("IFLA_IFNAME", "?") if links else "?"
    gateway = attributes.get("RTA_GATEWAY")
    return f"dev {device}" + (f" via {gateway}" if gateway else "")
