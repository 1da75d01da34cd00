"""The network, traffic and experiments of the NIST study of congestion control (SP 500-282)."""
