"""Write the `capture` table of a run as pcapng, for Wireshark and its kin.

One interface a link, nanosecond time stamps from 1970-01-01 as the start of the run, raw IPv4. Only
headers are written; the original length is that of the simulated packet. Headers say what the
simulator knows: addresses and ports stand for flows, sequence numbers are the low 32 bits, the IPv4
checksum is right. What it does not model is zero: receive window, time stamps, TCP checksum. A
comment gives flow, event and the reason of a drop.

Format: draft-ietf-opsawg-pcapng (section header, interface description, enhanced packet blocks).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
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

_TCP, _UDP, _ICMP = 6, 17, 1
_IP_BYTES, _TCP_BYTES, _UDP_BYTES, _ICMP_BYTES = 20, 20, 8, 8
# The longest IPv4 and TCP headers: a segment no longer than this carries options, not data.
_LONGEST_HEADERS = 20 + 60
_FIN, _SYN, _RST, _PSH, _ACK = 0x01, 0x02, 0x04, 0x08, 0x10
_FLAG_NAMES = {
    "FIN": _FIN,
    "SYN": _SYN,
    "RST": _RST,
    "PSH": _PSH,
    "ACK": _ACK,
    "URG": 0x20,
    "ECE": 0x40,
    "CWR": 0x80,
    "AE": 0x100,
}
_ECN_NAMES = {"not-ect": 0, "not_ect": 0, "none": 0, "ect1": 1, "ect(1)": 1}
_ECN_NAMES |= {"ect0": 2, "ect(0)": 2, "ce": 3}
_LEAVING = ("dequeue", "depart", "departure", "send", "sent", "transmit")


def write_pcapng(result: ResultLike, path: str | Path) -> int:
    """Write the capture of a result and return the number of packets.

    Raises UsageError if the run recorded none.
    """
    capture = columns(result, "capture")
    if not capture:
        raise UsageError("the run recorded no packets: run it again with capture = true")
    summary = result.summary
    protocols = {str(probe["id"]): _ICMP for probe in summary.get("probes", [])}
    for flow in summary.get("flows", []):
        datagrams = str(flow.get("cc") or "udp") in ("udp", "none")
        protocols[str(flow["id"])] = _UDP if datagrams else _TCP
    with Path(path).open("wb") as file:
        file.write(_section(f"dumbbell {summary.get('version', '')}".strip()))
        links = [str(link["id"]) for link in summary.get("links", [])]
        links += [name for name in _distinct(capture["link"]) if name not in links]
        for link in links:
            file.write(_interface(link))
        for block in _packets(capture, links, protocols):
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


def _packets(capture: Columns, links: list[str], protocols: dict[str, int]) -> Iterator[bytes]:
    interfaces = {link: index for index, link in enumerate(links)}
    flows = {
        flow: index + 1 for index, flow in enumerate([*protocols, *_distinct(capture["flow"])])
    }
    options: dict[tuple[str, str, str], bytes] = {}
    addresses: dict[tuple[int, bool], tuple[bytes, bytes, int, int]] = {}
    fields = (
        capture["t_ns"].tolist(),
        capture["link"].astype(str).tolist(),
        capture["flow"].astype(str).tolist(),
        capture["event"].astype(str).tolist(),
        capture["ip_bytes"].astype(np.int64).tolist(),
        _wrapped(capture["seq"]),
        _wrapped(capture["ack"]),
        _coded(capture["flags"], _tcp_flags),
        _coded(capture["ecn"], _ecn_codepoint),
        [str(reason or "") for reason in capture["reason"].tolist()],
    )
    for t_ns, link, flow, event, ip_bytes, seq, ack, flags, ecn, reason in zip(
        *fields, strict=True
    ):
        protocol = protocols.get(flow, _TCP)
        number = flows[flow]
        reply = _from_receiver(protocol, ip_bytes, flags)
        key = (number, reply)
        if key not in addresses:
            addresses[key] = _endpoints(number, protocol, reply)
        source, destination, source_port, destination_port = addresses[key]
        if protocol == _TCP:
            header = _tcp(source_port, destination_port, seq, ack, flags, ip_bytes)
        elif protocol == _UDP:
            length = max(ip_bytes - _IP_BYTES, _UDP_BYTES)
            header = struct.pack("!HHHH", source_port, destination_port, length & 0xFFFF, 0)
        else:
            header = struct.pack("!BBHHH", 8, 0, 0, number, seq & 0xFFFF)
        data = _ipv4(source, destination, protocol, ip_bytes, ecn) + header
        data = data[: min(ip_bytes, _SNAPLEN)]
        if (event, flow, reason) not in options:
            options[event, flow, reason] = _packet_options(event, flow, reason)
        body = (
            struct.pack(
                "<IIIII",
                interfaces[link],
                t_ns >> 32,
                t_ns & 0xFFFFFFFF,
                len(data),
                ip_bytes,
            )
            + data
            + b"\0" * (-len(data) % 4)
            + options[event, flow, reason]
        )
        yield _block(_ENHANCED_PACKET, body)


def _packet_options(event: str, flow: str, reason: str) -> bytes:
    comment = f"flow {flow}: {event}" + (f" ({reason})" if reason else "")
    direction = _OUTBOUND if event in _LEAVING else _INBOUND
    return (
        _option(_OPT_COMMENT, comment.encode())
        + _option(_EPB_FLAGS, struct.pack("<I", direction))
        + _option(0, b"")
    )


def _from_receiver(protocol: int, ip_bytes: int, flags: int) -> bool:
    """Whether the receiver of the data sent it: a SYN-ACK, or an ACK that is all header."""
    if protocol != _TCP:
        return False
    if flags & _SYN:
        return bool(flags & _ACK)
    return bool(flags & _ACK) and not flags & (_PSH | _FIN) and ip_bytes <= _LONGEST_HEADERS


def _endpoints(number: int, protocol: int, reply: bool) -> tuple[bytes, bytes, int, int]:
    """Addresses and ports of a flow: 10.1.x.y sends to 10.2.x.y, from port 10000 up to 5001."""
    host = bytes((number >> 8 & 0xFF, number & 0xFF))
    sender, receiver = b"\x0a\x01" + host, b"\x0a\x02" + host
    ports = (10_000 + number % 50_000, 5001) if protocol != _ICMP else (0, 0)
    if reply:
        return receiver, sender, ports[1], ports[0]
    return sender, receiver, ports[0], ports[1]


def _ipv4(source: bytes, destination: bytes, protocol: int, ip_bytes: int, ecn: int) -> bytes:
    header = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        ecn,
        min(ip_bytes, 0xFFFF),
        0,
        0x4000,
        64,
        protocol,
        0,
        source,
        destination,
    )
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]


def _tcp(source: int, destination: int, seq: int, ack: int, flags: int, ip_bytes: int) -> bytes:
    """A TCP header. Options are NOPs: as many as the packet has room for if it is all header, and
    12 bytes (where time stamps would be) before data.
    """
    room = ip_bytes - _IP_BYTES - _TCP_BYTES
    only_header = ip_bytes <= _LONGEST_HEADERS
    options = max(0, min(40, room)) // 4 * 4 if only_header else 12
    offset_and_flags = ((_TCP_BYTES + options) // 4) << 12 | flags & 0x1FF
    fixed = struct.pack("!HHIIHHHH", source, destination, seq, ack, offset_and_flags, 0, 0, 0)
    return fixed + b"\x01" * options


def _wrapped(values: NDArray[Any]) -> list[int]:
    if values.dtype.kind == "f":
        values = np.nan_to_num(values)
    wrapped: list[int] = (values.astype(np.uint64) & np.uint64(0xFFFFFFFF)).tolist()
    return wrapped


def _coded(values: NDArray[Any], code: Any) -> list[int]:
    """Numbers as they are; names through `code`, each once."""
    if values.dtype.kind in "iuf":
        return [int(value) for value in values.tolist()]
    names = [str(value or "") for value in values.tolist()]
    known = {name: code(name) for name in set(names)}
    return [known[name] for name in names]


def _tcp_flags(text: str) -> int:
    parts = text.upper().replace("|", " ").replace(",", " ").replace("+", " ").split()
    return sum({_FLAG_NAMES[part] for part in parts if part in _FLAG_NAMES})


def _ecn_codepoint(text: str) -> int:
    return _ECN_NAMES.get(text.lower(), 0)
