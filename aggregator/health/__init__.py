"""Whether the process of a hub works, for whoever starts it anew: systemd, a container's probes."""
