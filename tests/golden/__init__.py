"""Expected texts of real commands on sample_dumps; `make golden` rewrites them."""
