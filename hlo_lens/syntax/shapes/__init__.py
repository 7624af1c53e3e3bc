"""Readers of shapes, shardings, meshes and replica groups."""
