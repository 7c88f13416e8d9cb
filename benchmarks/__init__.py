"""Measurements, each beside a naive way of doing the same, in one run. Figures: README.md here."""
