"""Counts requests, in the text format that Prometheus reads."""

import threading
from collections import defaultdict

_BOUNDS = (0.005, 0.025, 0.1, 0.3, 1.0, 5.0)


class Metrics:
    """Requests by method, route and status, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * (len(_BOUNDS) + 2))

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, path, status] += 1
            row = self._seconds[path]
            for place, bound in enumerate(_BOUNDS):
                row[place] += seconds <= bound
            row[-2] += 1
            row[-1] += seconds

    def text(self) -> str:
        with self._lock:
            lines = ["# TYPE trainfare_requests_total counter"]
            for (method, path, status), number in sorted(self._requests.items()):
                lines.append(f'trainfare_requests_total{{method="{method}",route="{path}",status="{status}"}} {number}')
            lines.append("# TYPE trainfare_request_seconds histogram")
            for path, row in sorted(self._seconds.items()):
                for bound, below in zip((*_BOUNDS, "+Inf"), row, strict=False):
                    lines.append(f'trainfare_request_seconds_bucket{{route="{path}",le="{bound}"}} {below:.0f}')
                lines.append(f'trainfare_request_seconds_count{{route="{path}"}} {row[-2]:.0f}')
                lines.append(f'trainfare_request_seconds_sum{{route="{path}"}} {row[-1]:.6f}')
        return "\n".join(lines) + "\n"
