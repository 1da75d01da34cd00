"""pcapng: what we write is what dpkt, scapy and tshark read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from synthetic_result import SyntheticResult, names, synthetic_result

from dumbbell._errors import UsageError
from dumbbell._pcapng import write_pcapng

SYN, ACK, ECE = 0x02, 0x10, 0x40
# t_ns, link, flow, event, ip_bytes, seq, ack, flags, ecn, reason
ROWS = [
    (0, "bottleneck", "cubic-1", "enqueue", 60, 0, 0, SYN, 0, ""),
    (20_000_001, "reverse", "cubic-1", "enqueue", 60, 0, 1, SYN | ACK, 0, ""),
    (40_000_002, "bottleneck", "cubic-1", "enqueue", 1500, 1, 1, ACK, 2, ""),
    (40_120_002, "bottleneck", "cubic-1", "dequeue", 1500, 1, 1, ACK, 3, ""),
    (40_130_000, "bottleneck", "bbr-2", "drop", 1500, 2**32 + 5, 1, ACK, 1, "overlimit"),
    (60_000_007, "reverse", "cubic-1", "dequeue", 52, 1, 1449, ACK | ECE, 0, ""),
    (61_000_000, "reverse", "cubic-1", "dequeue", 64, 1, 1449, ACK, 0, ""),
    (5_000_000_000_123, "bottleneck", "ping", "enqueue", 84, 7, 0, 0, 0, ""),
]


def capture(numeric: bool = True) -> SyntheticResult:
    result = synthetic_result()
    column = [list(values) for values in zip(*ROWS, strict=True)]
    flags = pa.array(column[7], pa.uint64())
    if not numeric:
        words = {0: "", SYN: "SYN", ACK: "ACK", SYN | ACK: "SYN|ACK", ACK | ECE: "ACK|ECE"}
        flags = names([words[value] for value in column[7]])
    result._tables["capture"] = pa.table(
        {
            "t_ns": pa.array(column[0], pa.uint64()),
            "link": names(column[1]),
            "flow": names(column[2]),
            "event": names(column[3]),
            "ip_bytes": pa.array(column[4], pa.uint64()),
            "seq": pa.array(column[5], pa.uint64()),
            "ack": pa.array(column[6], pa.uint64()),
            "flags": flags,
            "ecn": pa.array(column[8], pa.uint64()),
            "reason": names(column[9]),
        }
    )
    return result


@pytest.mark.parametrize("numeric", [True, False])
def test_scapy_reads_back_every_field(tmp_path: Path, numeric: bool) -> None:
    scapy = pytest.importorskip("scapy.all", reason="scapy is not installed")
    path = tmp_path / "run.pcapng"
    assert write_pcapng(capture(numeric), path) == len(ROWS)
    with scapy.RawPcapNgReader(str(path)) as reader:
        records = list(reader)
    assert len(records) == len(ROWS)
    for (data, meta), (t_ns, link, flow, event, ip_bytes, seq, ack, flags, ecn, reason) in zip(
        records, ROWS, strict=True
    ):
        assert (meta.tshigh << 32 | meta.tslow) == t_ns
        assert meta.tsresol == 10**9
        assert meta.wirelen == ip_bytes
        assert meta.ifname.decode() == link
        comments = getattr(meta, "comments", None) or [meta.comment]
        assert flow in comments[0].decode()
        assert event in comments[0].decode()
        assert reason in comments[0].decode()
        packet = scapy.IP(data)
        assert packet.len == ip_bytes
        assert packet.tos & 3 == ecn
        sent = packet.chksum
        del packet.chksum
        assert scapy.IP(bytes(packet)).chksum == sent
        if flow == "ping":
            assert packet.proto == 1
            assert packet[scapy.ICMP].type == 8
            continue
        tcp = packet[scapy.TCP]
        assert (tcp.seq, tcp.ack, int(tcp.flags)) == (seq % 2**32, ack, flags)
        payload = ip_bytes - 20 - 4 * tcp.dataofs
        assert payload == (1448 if ip_bytes == 1500 else 0)
        towards_receiver = packet.dst.startswith("10.2.")
        assert towards_receiver == (link == "bottleneck")


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
    assert [int(line[1]) for line in lines] == [row[4] for row in ROWS]
    assert [int(line[2]) for line in lines] == [row[8] for row in ROWS]
    assert lines[2][3] == "1448"
    assert lines[5][3] == "0"
    assert not any(line[4] for line in lines)
    assert "overlimit" in lines[4][5]
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
    assert blocks == 20_000 + 1 + 2


def test_a_run_without_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="capture = true"):
        write_pcapng(synthetic_result(), tmp_path / "none")
    assert not (tmp_path / "none").exists()
