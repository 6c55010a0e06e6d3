"""Tests of what runs on a GPU: pytest -m gpu tests/gpu.

`RESCORE_TEST_DEVICE=cpu pytest -m gpu tests/gpu` rehearses them without a GPU.
"""
