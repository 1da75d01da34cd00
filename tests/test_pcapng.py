"""pcapng: what we write is what dpkt, scapy and tshark read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dumbbell._errors import UsageError
from dumbbell._pcapng import write_pcapng
from synthetic_result import SyntheticResult, names, synthetic_result

# The engine's flag bits and TCP's.
ECE, PUSH, RETRANSMISSION = 1 << 2, 1 << 4, 1 << 6
COLUMNS = ("t_ns", "link", "flow", "event", "kind", "ip_bytes", "payload", "seq", "ack", "flags")
COLUMNS += ("ecn", "reason")
ROWS = [
    (0, "bottleneck", "cubic-1", "enqueue", "syn", 60, 0, 0, 0, 0, 0, ""),
    (20_000_001, "reverse", "cubic-1", "enqueue", "syn-ack", 60, 0, 0, 0, 0, 0, ""),
    (40_000_002, "bottleneck", "cubic-1", "enqueue", "data", 1500, 1448, 0, 0, 0, 2, ""),
    (40_120_002, "bottleneck", "cubic-1", "depart", "data", 1500, 1448, 0, 0, PUSH, 3, ""),
    (40_130_000, "bottleneck", "bbr-2", "drop", "data", 1500, 1448, 2**32 + 5, 0, 0, 1, "aqm"),
    (60_000_007, "reverse", "cubic-1", "depart", "ack", 52, 0, 0, 1448, ECE, 0, ""),
    (61_000_000, "reverse", "cubic-1", "depart", "ack", 64, 0, 0, 1448, 0, 0, ""),
    (62_000_000, "sender", "bbr-2", "send", "data", 152, 100, 500, 0, RETRANSMISSION, 1, ""),
    (63_000_000, "sender", "udp", "send", "datagram", 1200, 1172, 9, 0, 0, 0, ""),
    (64_000_000, "reverse", "ping", "enqueue", "pong", 84, 0, 7, 0, 0, 0, ""),
    (5_000_000_000_123, "bottleneck", "ping", "enqueue", "ping", 84, 0, 7, 0, 0, 0, ""),
]
# TCP sequence number, acknowledgement and flags: the SYN takes number 0, the stream begins at 1.
TCP = [
    (0, 0, 0x02),
    (0, 1, 0x12),
    (1, 1, 0x10),
    (1, 1, 0x18),
    (6, 1, 0x10),
    (1, 1449, 0x50),
    (1, 1449, 0x10),
    (501, 1, 0x10),
]


def capture() -> SyntheticResult:
    result = synthetic_result()
    values = dict(zip(COLUMNS, zip(*ROWS, strict=True), strict=True))
    result._tables["capture"] = pa.table(
        {
            name: names(column) if isinstance(column[0], str) else pa.array(column, pa.uint64())
            for name, column in values.items()
        }
    )
    return result


def test_scapy_reads_back_every_field(tmp_path: Path) -> None:
    scapy = pytest.importorskip("scapy.all", reason="scapy is not installed")
    path = tmp_path / "run.pcapng"
    assert write_pcapng(capture(), path) == len(ROWS)
    with scapy.RawPcapNgReader(str(path)) as reader:
        records = list(reader)
    assert len(records) == len(ROWS)
    for index, (data, meta) in enumerate(records):
        row = dict(zip(COLUMNS, ROWS[index], strict=True))
        assert (meta.tshigh << 32 | meta.tslow) == row["t_ns"]
        assert meta.tsresol == 10**9
        assert meta.wirelen == row["ip_bytes"]
        assert meta.ifname.decode() == row["link"]
        comment = (getattr(meta, "comments", None) or [meta.comment])[0].decode()
        assert f"flow {row['flow']}: {row['event']}" in comment
        assert row["reason"] in comment
        assert ("retransmission" in comment) == bool(row["flags"] & RETRANSMISSION)
        packet = scapy.IP(data)
        assert packet.len == row["ip_bytes"]
        assert packet.tos & 3 == row["ecn"]
        back = row["kind"] in ("ack", "syn-ack", "pong")
        assert packet.dst.startswith("10.1." if back else "10.2.")
        sent = packet.chksum
        del packet.chksum
        assert scapy.IP(bytes(packet)).chksum == sent
        if row["kind"] in ("ping", "pong"):
            assert packet[scapy.ICMP].type == (8 if row["kind"] == "ping" else 0)
        elif row["kind"] == "datagram":
            assert packet[scapy.UDP].len == 1180
        else:
            tcp = packet[scapy.TCP]
            assert (tcp.seq, tcp.ack, int(tcp.flags)) == TCP[index]
            assert row["ip_bytes"] - 20 - 4 * tcp.dataofs == row["payload"]


def test_dpkt_reads_it_too(tmp_path: Path) -> None:
    dpkt = pytest.importorskip("dpkt", reason="dpkt is not installed")
    write_pcapng(capture(), tmp_path / "run.pcapng")
    with (tmp_path / "run.pcapng").open("rb") as file:
        reader = dpkt.pcapng.Reader(file)
        assert reader.datalink() == 101
        times = [time for time, _ in reader]
    assert times == pytest.approx([row[0] / 1e9 for row in ROWS])


def test_tshark_finds_nothing_malformed(tmp_path: Path) -> None:
    tshark = shutil.which("tshark")
    if not tshark:
        pytest.skip("tshark is not installed")
    path = tmp_path / "run.pcapng"
    write_pcapng(capture(), path)
    fields = ["frame.interface_name", "frame.len", "ip.dsfield.ecn", "tcp.len", "_ws.malformed"]
    fields += ["frame.comment", "tcp.flags", "frame.time_epoch"]
    arguments = [word for field in fields for word in ("-e", field)]
    done = subprocess.run(
        [tshark, "-r", str(path), "-T", "fields", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == [row[1] for row in ROWS]
    assert [int(line[1]) for line in lines] == [row[5] for row in ROWS]
    assert [int(line[2]) for line in lines] == [row[10] for row in ROWS]
    assert lines[2][3] == "1448"
    assert lines[5][3] == "0"
    assert not any(line[4] for line in lines)
    assert "drop (aqm)" in lines[4][5]
    assert lines[-1][7].startswith("5000.000000123")


def test_bytes_are_the_same_every_time(tmp_path: Path) -> None:
    write_pcapng(capture(), tmp_path / "a")
    write_pcapng(capture(), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_many_packets_fill_whole_blocks(tmp_path: Path) -> None:
    result = capture()
    table = result.table("capture")
    result._tables["capture"] = table.take(pa.array(np.arange(20_000) % len(ROWS)))
    assert write_pcapng(result, tmp_path / "big") == 20_000
    data = (tmp_path / "big").read_bytes()
    at = blocks = 0
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        assert length % 4 == 0
        assert int.from_bytes(data[at + length - 4 : at + length], "little") == length
        at, blocks = at + length, blocks + 1
    assert blocks == 20_000 + 1 + 3


def test_a_run_without_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="capture = true"):
        write_pcapng(synthetic_result(), tmp_path / "none")
    assert not (tmp_path / "none").exists()
