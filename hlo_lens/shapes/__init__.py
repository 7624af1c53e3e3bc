"""Shapes, shardings, meshes and replica groups."""
