"""Data for workflows: tables, prose, numbers, logs and graphs, with what is true of them.

Each maker gives texts (the data in several formats) and facts (counts, sums, extremes), which
the checks of workflows compare their results with.
"""

from __future__ import annotations

import json
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# topic: name of the key, of the group, of the amount; the groups
_TOPICS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "orders": ("order", "customer", "cents", ("Adler", "Brandt", "Cole", "Duval", "Engel")),
    "sensors": ("reading", "site", "lux", ("attic", "barn", "cellar", "dock")),
    "invoices": ("invoice", "country", "net", ("AT", "BE", "CH", "DK", "ES", "FR")),
    "runs": ("run", "athlete", "metres", ("Iris", "Jonas", "Karim", "Lena", "Mo")),
    "parts": ("part", "supplier", "grams", ("Nord", "Ost", "Sued", "West")),
    "visits": ("visit", "page", "millis", ("home", "cart", "search", "help", "about")),
    "loans": ("loan", "branch", "amount", ("Mill", "Quay", "Station")),
    "trees": ("tree", "species", "height", ("oak", "ash", "elm", "fir", "yew", "larch")),
    "flights": ("flight", "airport", "seats", ("ARN", "BCN", "CPH", "DUB", "EDI")),
    "tickets": ("ticket", "team", "minutes", ("core", "data", "edge", "infra")),
}
_WORDS = (
    "river stone lantern quiet market harbour copper window garden silver winter morning bridge "
    "letter forest engine island paper music summer valley shadow kettle orchard ladder signal "
    "meadow anchor candle thunder basket compass feather"
).split()
_PATHS = ("/", "/login", "/cart", "/search", "/api/items", "/api/users", "/static/app.js")
_STATUSES = (200, 200, 200, 200, 301, 304, 404, 500)


def make(rng: random.Random, kind: str, **settings: object) -> dict[str, object]:
    """What a template asks for; a list of two numbers is a range of sizes."""
    sizes = {
        name: rng.randint(*value) if isinstance(value, list) else value
        for name, value in settings.items()
    }
    return _MAKERS[kind](rng, **sizes)


def _table(rng: random.Random, topic: str, rows: int) -> dict[str, object]:
    key, group, amount, groups = _TOPICS[topic]
    records: list[dict[str, Any]] = [
        {
            key: 1000 + index,
            group: rng.choice(groups),
            "quantity": rng.randint(1, 9),
            amount: rng.randint(5, 9999),
            "day": f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        }
        for index in range(rows)
    ]
    by_group: dict[str, int] = defaultdict(int)
    for record in records:
        by_group[record[group]] += record[amount]
    top = max(sorted(by_group), key=lambda name: by_group[name])
    amounts = [record[amount] for record in records]
    return {
        "topic": topic,
        "key": key,
        "group": group,
        "amount": amount,
        "csv": _separated(records, ","),
        "semicolons": _separated(records, ";"),
        "tsv": _separated(records, "\t"),
        "json": json.dumps(records, indent=1),
        "jsonl": "".join(json.dumps(record) + "\n" for record in records),
        "rows": rows,
        "total": sum(amounts),
        "weighted": sum(record[amount] * record["quantity"] for record in records),
        "largest": max(amounts),
        "groups": len(by_group),
        "top": top,
        "top_total": by_group[top],
        "by_group": json.dumps(by_group, sort_keys=True),
    }


def _separated(records: Sequence[dict[str, Any]], separator: str) -> str:
    lines: list[Iterable[Any]] = [records[0], *(record.values() for record in records)]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines)


def _prose(rng: random.Random, sentences: int) -> dict[str, object]:
    made = [[rng.choice(_WORDS) for _ in range(rng.randint(4, 12))] for _ in range(sentences)]
    words = [word for sentence in made for word in sentence]
    counts = Counter(words)
    most = min(counts, key=lambda word: (-counts[word], word))
    return {
        "text": "".join(" ".join(sentence).capitalize() + ".\n" for sentence in made),
        "sentences": sentences,
        "words": len(words),
        "unique": len(counts),
        "most": most,
        "most_count": counts[most],
        "longest": max(len(word) for word in words),
    }


def _numbers(rng: random.Random, count: int, low: int = 0, high: int = 999) -> dict[str, object]:
    found = [rng.randint(low, high) for _ in range(count)]
    return {
        "list": ", ".join(map(str, found)),
        "lines": "".join(f"{number}\n" for number in found),
        "sorted": ", ".join(map(str, sorted(found))),
        "count": count,
        "sum": sum(found),
        "min": min(found),
        "max": max(found),
        "evens": sum(number % 2 == 0 for number in found),
        "median": statistics.median_low(found),
    }


def _log(rng: random.Random, lines: int) -> dict[str, object]:
    entries = [
        (
            f"10.0.{rng.randrange(4)}.{rng.randrange(1, 9)}",
            rng.choice(_PATHS),
            rng.choice(_STATUSES),
        )
        for _ in range(lines)
    ]
    sizes = [rng.randint(80, 9000) for _ in entries]
    text = "".join(
        f"{host} - - [04/Mar/2026:10:{index // 60 % 60:02}:{index % 60:02} +0000] "
        f'"GET {path} HTTP/1.1" {status} {size}\n'
        for index, ((host, path, status), size) in enumerate(zip(entries, sizes, strict=True))
    )
    return {
        "text": text,
        "lines": lines,
        "bytes": sum(sizes),
        "errors": sum(status == 500 for _, _, status in entries),
        "missing": sum(status == 404 for _, _, status in entries),
        "hosts": len({host for host, _, _ in entries}),
        "paths": len({path for _, path, _ in entries}),
    }


def _graph(rng: random.Random, nodes: int) -> dict[str, object]:
    """Connected, for each node but the first hangs on an earlier one; numbered from 0."""
    edges = [(rng.randrange(node), node, rng.randint(1, 20)) for node in range(1, nodes)]
    depth = [0] * nodes
    for parent, node, _ in edges:
        depth[node] = depth[parent] + 1
    return {
        "edges": "".join(f"{parent} {node} {weight}\n" for parent, node, weight in edges),
        "nodes": nodes,
        "weight": sum(weight for _, _, weight in edges),
        "depth": max(depth),
        "leaves": nodes - len({parent for parent, _, _ in edges}),
    }


_MAKERS: dict[str, Callable[..., dict[str, object]]] = {
    "table": _table,
    "prose": _prose,
    "numbers": _numbers,
    "log": _log,
    "graph": _graph,
}
