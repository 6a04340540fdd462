"""The decoders of foreign bytes as targets of a fuzzer."""

from collections.abc import Buffer

TARGETS: tuple[str, ...]

def run(name: str, data: Buffer) -> int:
    """Call a target once. 0: all is well; else the belief that proved wrong."""

def address(name: str) -> int:
    """The address of the native function int (const uint8_t*, size_t)."""
