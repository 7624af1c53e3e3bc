"""Tests of hlo_lens.api.findings."""
