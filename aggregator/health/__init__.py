"""This package tells systemd and a container's probes whether a hub's process works or has to be restarted."""
