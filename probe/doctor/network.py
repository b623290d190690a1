"""The network as this process sees it: interfaces, routes, resolver, proxies, and what answers.

Nothing is contacted but what the sandbox itself is configured with (name servers,
proxies) and the targets that the caller names.
"""

from __future__ import annotations

import ctypes
import functools
import os
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from probe import abi
from probe.doctor.parallel import at_once
from probe.doctor.section import (
    Learner,
    Section,
    attempt,
    deadly,
    fact,
    passing,
    read,
    reason,
)
from probe.problem import Problem

PATIENCE_S = 1.5
_MAIN_TABLE = 254  # RT_TABLE_MAIN, rtnetlink(7)
_NAME_SERVER_PORT = 53
_RECURSION_DESIRED, _TYPE_NS, _CLASS_IN = 0x0100, 2, 1
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy")
_libc = ctypes.CDLL(None, use_errno=True)
_DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080, "socks4": 1080}


@dataclass
class Interface:
    up: bool = fact(0.6, "whether it takes packets")
    addresses: list[str] = passing("with prefix lengths")
    mtu: int | None = fact(0.1, "bytes of the largest packet")


@dataclass
class Network(Section):
    interfaces: dict[str, Interface] | None = fact(0.4, "by name")
    routes: dict[str, str] | None = passing("destinations of the main table, with their way")
    default_routes: list[str] | None = fact(0.7, "address families that lead anywhere")
    families: list[str] = fact(0.6, "address families that a socket can be made of")
    name_servers: dict[str, str] | None = fact(
        0.6, "by address: `answers`, or why not (asked for the root's name servers)"
    )
    search: list[str] | None = fact(0.2, "domains that names are tried in")
    resolver_options: list[str] | None = fact(0.1, "of resolv.conf(5)")
    localhost: bool | None = fact(0.5, "whether /etc/hosts knows localhost")
    proxies: dict[str, str] = fact(0.5, "proxy variables, without passwords")
    reached: dict[str, str] = fact(
        0.8, "the proxies, and the targets asked for: `connected`, or why not"
    )
    first_free_port: int | None = fact(0.3, "the lowest port that needs no capability to bind")


def examine(targets: Sequence[str] = ()) -> Network:
    """Asks the configured name servers, the proxies and `targets` ("host:port"), all at once."""
    learner = Learner()
    families = _families()
    proxies = proxy_variables(os.environ)
    asked = {target: split_target(target) for target in targets}
    asked.update({url: place for url in proxies.values() if (place := _proxy_place(url))})
    resolver = learner.learn("name_servers", _resolver)
    servers = resolver["nameserver"] if resolver else []
    questions = [
        *(functools.partial(ask_name_server, server) for server in servers),
        *(functools.partial(reach, *place) for place in asked.values()),
    ]
    answers = _answers(questions, families)
    table = learner.learn("interfaces", lambda: _links_and_routes(families))
    links, routes = table if table is not None else (None, None)
    if table is None:
        why = learner.unknown["interfaces"]
        learner.unknown.update(routes=why, default_routes=why)
    return Network(
        interfaces=links,
        routes=routes,
        default_routes=None if routes is None else _default_routes(routes),
        families=families,
        name_servers=dict(zip(servers, answers, strict=False)) if resolver else None,
        search=resolver["search"] if resolver else None,
        resolver_options=resolver["options"] if resolver else None,
        localhost=learner.learn("localhost", _knows_localhost),
        proxies=proxies,
        reached=dict(zip(asked, answers[len(servers) :], strict=True)),
        first_free_port=learner.learn(
            "first_free_port", lambda: int(read("/proc/sys/net/ipv4/ip_unprivileged_port_start"))
        ),
        unknown=learner.unknown,
    )


def split_target(target: str) -> tuple[str, int]:
    """ "host:port", "[::1]:port". Problem otherwise."""
    host, _, port = target.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise Problem(f"--reach {target}: not a target", "give HOST:PORT, like example.org:443")
    return host.strip("[]"), int(port)


def reach(host: str, port: int) -> str:
    """Connects and hangs up at once: `connected`, the errno's name, or what kept the name back."""
    try:
        socket.create_connection((host, port), PATIENCE_S).close()
    except TimeoutError:
        return f"no answer within {PATIENCE_S} s"
    except socket.gaierror as error:
        return f"the name cannot be resolved: {error.strerror}"
    except OSError as error:
        return abi.errno_name(error.errno) if error.errno else reason(error)
    except UnicodeError:
        return "not a host name"
    return "connected"


def ask_name_server(server: str) -> str:
    """One question over UDP (RFC 1035): the root's name servers, which each resolver knows."""
    header = struct.pack("!6H", secrets.randbits(16), _RECURSION_DESIRED, 1, 0, 0, 0)
    question = header + struct.pack("!BHH", 0, _TYPE_NS, _CLASS_IN)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.settimeout(PATIENCE_S)
            asking.connect((server, _NAME_SERVER_PORT))
            asking.send(question)
            while asking.recv(4096)[:2] != question[:2]:
                continue
    except TimeoutError:
        return f"no answer within {PATIENCE_S} s"
    except OSError as error:
        return abi.errno_name(error.errno) if error.errno else reason(error)
    return "answers"


def proxy_variables(environment: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """Those that are set, in either case, with what stands before an @ left out."""
    found = {}
    for name in (*_PROXIES, *(name.upper() for name in _PROXIES)):
        value = environment.get(name)
        if value:
            scheme, slashes, rest = value.rpartition("://")
            found[name] = scheme + slashes + rest.rpartition("@")[2]
    return found


def parse_resolver(text: str) -> dict[str, list[str]]:
    """resolv.conf(5): at most three name servers count; the last search line does."""
    found: dict[str, list[str]] = {"nameserver": [], "search": [], "options": []}
    for line in text.splitlines():
        words = line.split()
        if not words or words[0][0] in "#;":
            continue
        if words[0] == "nameserver" and len(words) > 1:
            found["nameserver"] = [*found["nameserver"], words[1]][:3]
        elif words[0] in ("search", "domain"):
            found["search"] = words[1:]
        elif words[0] == "options":
            found["options"] += words[1:]
    return found


def _resolver() -> dict[str, list[str]]:
    return parse_resolver(read("/etc/resolv.conf"))


def _knows_localhost() -> bool:
    lines = (line.partition("#")[0].split() for line in read("/etc/hosts").splitlines())
    return any("localhost" in words[1:] for words in lines)


def _proxy_place(value: str) -> tuple[str, int] | None:
    """Where a proxy listens; None for what is no address (no_proxy's lists)."""
    try:
        url = urlsplit(value if "://" in value else f"http://{value}")
        port = url.port or _DEFAULT_PORTS.get(url.scheme)
    except ValueError:
        return None
    return (url.hostname, port) if url.hostname and port and "," not in value else None


def _families() -> list[str]:
    """Only trying tells: a kernel may lack one, a filter may refuse it."""
    found = []
    for name, family in (("unix", 1), ("ipv4", 2), ("ipv6", 10), ("netlink", 16)):
        kind = socket.SOCK_RAW if name == "netlink" else socket.SOCK_STREAM
        try:
            attempt(functools.partial(_libc.socket, family, kind, 0))
        except OSError:
            continue
        found.append(name)
    return found


def _answers(questions: Sequence[Callable[[], str]], families: list[str]) -> list[str]:
    """All at once. A resolver that hangs longer than it should is left behind."""
    if not questions:
        return []
    if not {"ipv4", "ipv6"} & set(families):
        return ["no socket can be made"] * len(questions)
    if deadly("connect"):
        return ["whoever calls connect is killed"] * len(questions)
    late = f"no answer within {2 * PATIENCE_S} s"
    return [answer or late for answer in at_once(questions, 16, 2 * PATIENCE_S)]


def _links_and_routes(families: list[str]) -> tuple[dict[str, Interface], dict[str, str]]:
    if "netlink" not in families:
        raise ValueError("no netlink socket can be made")
    return _links(), _routes()


def _links() -> dict[str, Interface]:
    from pyroute2 import IPRoute

    interfaces: dict[int, Interface] = {}
    names: dict[int, str] = {}
    with IPRoute() as kernel:
        for link in kernel.get_links():
            attributes = dict(link["attrs"])
            up = bool(link["flags"] & 1)  # IFF_UP, netdevice(7)
            interfaces[link["index"]] = Interface(up, [], attributes.get("IFLA_MTU"))
            names[link["index"]] = attributes.get("IFLA_IFNAME", str(link["index"]))
        for address in kernel.get_addr():
            attributes = dict(address["attrs"])
            text = attributes.get("IFA_LOCAL") or attributes.get("IFA_ADDRESS")
            if address["index"] in interfaces and text:
                held = interfaces[address["index"]].addresses
                held.append(f"{text}/{address['prefixlen']}")
    return {names[index]: interface for index, interface in interfaces.items()}


def _routes() -> dict[str, str]:
    from pyroute2 import IPRoute

    found = {}
    with IPRoute() as kernel:
        names = {
            link["index"]: dict(link["attrs"]).get("IFLA_IFNAME") for link in kernel.get_links()
        }
        for family in (socket.AF_INET, socket.AF_INET6):
            for route in kernel.get_routes(family=family):
                attributes = dict(route["attrs"])
                if attributes.get("RTA_TABLE", route.get("table")) != _MAIN_TABLE:
                    continue
                every = "0.0.0.0/0" if family == socket.AF_INET else "::/0"
                to = attributes.get("RTA_DST")
                gateway = attributes.get("RTA_GATEWAY")
                way = f"dev {names.get(attributes.get('RTA_OIF'), '?')}"
                found[f"{to}/{route['dst_len']}" if to else every] = way + (
                    f" via {gateway}" if gateway else ""
                )
    return found


def _default_routes(routes: dict[str, str]) -> list[str]:
    names = {"0.0.0.0/0": "ipv4", "::/0": "ipv6"}
    return [name for every, name in names.items() if every in routes]
