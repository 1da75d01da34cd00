"""AIMD in Python: the same windows, to the byte, as the built-in Reno (RFC 5681)."""

from dumbbell import CongestionControl


class Aimd(CongestionControl):
    credit = 0  # bytes acked that have not grown the window yet

    def on_ack(self, ack):
        if ack.state in ("recovery", "cwr") or not (ack.cwnd_limited and ack.advances):
            return
        self.credit += ack.acked
        if self.cwnd < self.ssthresh:  # slow start: a segment for a segment
            grown = min(self.credit // ack.mss * ack.mss, self.ssthresh - self.cwnd)
            self.cwnd += grown
            self.credit -= grown
        if self.cwnd >= self.ssthresh:  # avoidance: a segment for a window
            steps, self.credit = divmod(self.credit, self.cwnd)
            self.cwnd += steps * ack.mss

    def on_congestion(self, event):
        self.cwnd = self.ssthresh = max(self.cwnd // event.mss // 2, 2) * event.mss
        self.credit = 0

    def on_rto(self, event):
        super().on_rto(event)
        self.credit = 0

    def on_idle_restart(self, event):
        super().on_idle_restart(event)
        self.credit = self.credit if event.restart_window is None else 0
