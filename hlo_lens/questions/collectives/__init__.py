"""Collectives of a program: operations, bytes on the wire, overlap, loops and causes."""
