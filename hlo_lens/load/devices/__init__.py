"""Devices that programs are compiled for: names, topologies, memory, with sources."""
