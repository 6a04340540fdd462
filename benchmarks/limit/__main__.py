"""A process of benchmarks.limit.run: LOGS EVENT_LOOP VALUE_BYTES OUTSTANDING SECONDS WARMUP_SECONDS."""

from __future__ import annotations

import sys

from benchmarks.limit import lead

_, logs, event_loop, value_bytes, outstanding, seconds, warmup_s = sys.argv
print(lead(logs, event_loop, int(value_bytes), int(outstanding), float(seconds), float(warmup_s)))
