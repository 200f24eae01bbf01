"""Which vectors kernels are compiled for."""

import numba
import pytest

from mpi_potts.kernels import widths


@pytest.mark.parametrize(
    ("name", "features", "host", "then"),
    [
        (None, None, "+avx2,+avx512f", "+avx2,+avx512f,-prefer-256-bit"),
        (None, None, "+avx2,-avx512f", None),
        (None, "+avx512f", "+avx512f", "+avx512f"),
        ("x86-64-v3", None, "+avx512f", None),
    ],
)
def test_all_512_bits_are_used_unless_the_environment_says_otherwise(monkeypatch, name, features, host, then):
    monkeypatch.setattr(numba.config, "CPU_NAME", name)
    monkeypatch.setattr(numba.config, "CPU_FEATURES", features)
    monkeypatch.setattr(widths, "get_host_cpu_features", lambda: host)
    widths.widen()
    assert numba.config.CPU_FEATURES == then
