"""AIMD compiled by Numba: the same windows, to the byte, as the built-in Reno (RFC 5681)."""

from dumbbell.compiled import CWR, RECOVERY, CompiledControl


class AimdCompiled(CompiledControl):
    credit = 0.0  # bytes acked that have not grown the window yet

    def on_ack(self, ack):
        if ack.state == RECOVERY or ack.state == CWR or not (ack.cwnd_limited and ack.advances):
            return
        self.credit += ack.acked
        if self.cwnd < self.ssthresh:  # slow start: a segment for a segment
            grown = min(self.credit // ack.mss * ack.mss, self.ssthresh - self.cwnd)
            self.cwnd += grown
            self.credit -= grown
        if self.credit >= self.cwnd >= self.ssthresh:  # avoidance: a segment for a window
            steps = self.credit // self.cwnd
            self.credit -= steps * self.cwnd
            self.cwnd += steps * ack.mss

    def on_congestion(self, event):
        self.cwnd = self.ssthresh = max(self.cwnd // event.mss // 2, 2) * event.mss
        self.credit = 0.0

    def on_rto(self, event):  # the window is as Reno leaves it already
        self.credit = 0.0

    def on_idle_restart(self, event):
        if event.restart_window > 0:
            self.credit = 0.0
