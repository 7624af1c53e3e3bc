"""Tests of hlo-lens; folders mirror the package."""
