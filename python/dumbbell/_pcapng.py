"""Write the `capture` table of a run as pcapng, for Wireshark and its kin.

One interface a link and one each for sending and receiving hosts, nanosecond time stamps from
1970-01-01 as the start of the run, raw IPv4. Only headers are written; the original length is that
of the simulated packet. Headers say what the simulator knows: addresses and ports stand for flows,
sequence numbers are the low 32 bits and begin at 0 with the SYN, the IPv4 checksum is right. What
the table does not hold is zero (TCP checksum), the most there can be (receive window) or NOPs (time
stamps, SACK blocks). A packet shows at each place that it passes: pick one by its interface name
before looking at TCP's analysis. All connections of one source share a pair of addresses and ports.
A comment gives flow, event and the reason of a drop.

Format: draft-ietf-opsawg-pcapng (section header, interface description, enhanced packet blocks).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from dumbbell._errors import UsageError
from dumbbell._plots_data import Columns, ResultLike, columns

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE = 1
_ENHANCED_PACKET = 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_LINKTYPE_RAW = 101
_SNAPLEN = 96

_OPT_COMMENT = 1
_SHB_USERAPPL = 4
_IF_NAME = 2
_IF_TSRESOL = 9
_EPB_FLAGS = 2
_INBOUND, _OUTBOUND = 1, 2

_ICMP, _TCP, _UDP = 1, 6, 17
_IP_BYTES, _TCP_BYTES, _MOST_OPTION_BYTES = 20, 20, 40
_SYN, _PSH, _ACK, _ECE, _CWR, _AE = 0x02, 0x08, 0x10, 0x40, 0x80, 0x100
# What the engine's own flag bits are in a TCP header.
_ENGINE_FLAGS = ((1 << 2, _ECE), (1 << 3, _CWR), (1 << 4, _PSH), (1 << 7, _AE))
_RETRANSMISSION = 1 << 6
_LEAVING = ("send", "depart")
_FROM_RECEIVER = ("ack", "syn-ack", "request", "pong", "report", "strong-ack")
_DATAGRAMS = ("datagram", "payload", "report", "low-payload", "strong-ack")


def write_pcapng(result: ResultLike, path: str | Path) -> int:
    """Write the capture of a result and return the number of packets.

    Raises UsageError if the run recorded none.
    """
    capture = columns(result, "capture")
    if not capture:
        raise UsageError("the run recorded no packets: run it again with capture = true")
    summary = result.summary
    with Path(path).open("wb") as file:
        file.write(_section(f"dumbbell {summary.get('version', '')}".strip()))
        links = [str(link["id"]) for link in summary.get("links", [])]
        links += [name for name in _distinct(capture["link"]) if name not in links]
        for link in links:
            file.write(_interface(link))
        for block in _packets(capture, links):
            file.write(block)
    return int(capture["t_ns"].size)


def _distinct(names: NDArray[Any]) -> list[str]:
    return list(dict.fromkeys(names.astype(str).tolist()))


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def _section(application: str) -> bytes:
    body = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, 1, 0, -1)
    body += _option(_SHB_USERAPPL, application.encode()) + _option(0, b"")
    return _block(_SECTION_HEADER, body)


def _interface(name: str) -> bytes:
    body = struct.pack("<HHI", _LINKTYPE_RAW, 0, _SNAPLEN)
    body += _option(_IF_NAME, name.encode()) + _option(_IF_TSRESOL, b"\x09") + _option(0, b"")
    return _block(_INTERFACE, body)


def _packets(capture: Columns, links: list[str]) -> Iterator[bytes]:
    interfaces = {link: index for index, link in enumerate(links)}
    flows = {flow: index for index, flow in enumerate(_distinct(capture["flow"]), 1)}
    options: dict[tuple[str, str, str, bool], bytes] = {}
    names = ("link", "flow", "event", "kind", "reason")
    numbers = ("t_ns", "ip_bytes", "payload", "seq", "ack", "flags", "ecn")
    texts = [capture[name].astype(str).tolist() for name in names]
    for link, flow, event, kind, reason, t_ns, ip_bytes, payload, seq, ack, flags, ecn in zip(
        *texts, *(capture[name].tolist() for name in numbers), strict=True
    ):
        number = flows[flow]
        back = kind in _FROM_RECEIVER
        protocol, header = _transport(kind, number, back, ip_bytes, payload, seq, ack, flags)
        data = (_ipv4(number, back, protocol, ip_bytes, ecn) + header)[: min(ip_bytes, _SNAPLEN)]
        key = (event, flow, reason, kind == "data" and bool(flags & _RETRANSMISSION))
        if key not in options:
            options[key] = _packet_options(*key)
        fixed = (interfaces[link], t_ns >> 32, t_ns & 0xFFFFFFFF, len(data), ip_bytes)
        padding = b"\0" * (-len(data) % 4)
        yield _block(
            _ENHANCED_PACKET, struct.pack("<IIIII", *fixed) + data + padding + options[key]
        )


def _packet_options(event: str, flow: str, reason: str, retransmission: bool) -> bytes:
    comment = f"flow {flow}: {event}" + (f" ({reason})" if reason else "")
    comment += ", retransmission" if retransmission else ""
    direction = _OUTBOUND if event in _LEAVING else _INBOUND
    return (
        _option(_OPT_COMMENT, comment.encode())
        + _option(_EPB_FLAGS, struct.pack("<I", direction))
        + _option(0, b"")
    )


def _transport(
    kind: str, number: int, back: bool, ip_bytes: int, payload: int, seq: int, ack: int, flags: int
) -> tuple[int, bytes]:
    """Protocol and header of a packet. Hosts send from port 10000 up to port 5001."""
    if kind in ("ping", "pong"):
        echo = 8 if kind == "ping" else 0
        return _ICMP, struct.pack("!BBHHH", echo, 0, 0, number & 0xFFFF, seq & 0xFFFF)
    sender = 10_000 + number % 50_000
    ports = (5001, sender) if back else (sender, 5001)
    if kind in _DATAGRAMS:
        return _UDP, struct.pack("!HHHH", *ports, ip_bytes - _IP_BYTES, 0)
    # The SYN takes the first sequence number of each direction; stream offsets follow it.
    if kind == "syn":
        seq, ack, bits = 0, 0, _SYN
    elif kind == "syn-ack":
        seq, ack, bits = 0, 1, _SYN | _ACK
    elif kind == "ack":
        seq, ack, bits = 1, ack + 1, _ACK
    else:
        seq, ack, bits = seq + 1, 1, _ACK
    for engine, wire in _ENGINE_FLAGS:
        bits |= wire if flags & engine else 0
    room = ip_bytes - _IP_BYTES - _TCP_BYTES - payload
    option_bytes = max(0, min(_MOST_OPTION_BYTES, room)) // 4 * 4
    offset = (_TCP_BYTES + option_bytes) // 4
    numbers = (seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, offset << 12 | bits)
    return _TCP, struct.pack("!HHIIHHHH", *ports, *numbers, 0xFFFF, 0, 0) + b"\x01" * option_bytes


@lru_cache(maxsize=4096)
def _ipv4(number: int, back: bool, protocol: int, ip_bytes: int, ecn: int) -> bytes:
    """An IPv4 header: flow x.y is 10.1.x.y sending to 10.2.x.y."""
    host = bytes((number >> 8 & 0xFF, number & 0xFF))
    ends = (b"\x0a\x02" + host, b"\x0a\x01" + host)
    source, destination = ends if back else reversed(ends)
    fields = (0x45, ecn, ip_bytes, 0, 0x4000, 64, protocol, 0, source, destination)
    header = struct.pack("!BBHHHBBH4s4s", *fields)
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]
