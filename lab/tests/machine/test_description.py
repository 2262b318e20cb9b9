"""The machine's description: complete on this machine, with reasons on machines that lack facts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from thunderherd.engine.catalogue import Build, Catalogue
from thunderherd.machine import description


def leaves(tree: dict[str, object], above: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in tree.items():
        place = f"{above}{key}"
        found |= leaves(value, f"{place}.") if isinstance(value, dict) else {place: value}
    return found


def test_exactly_the_missing_facts_have_reasons() -> None:
    found = description.describe()
    reasons = found.pop("unavailable")
    absent = {name for name, value in leaves(found).items() if value is None}
    assert absent == set(reasons)
    assert all(reasons.values())


def test_description_is_json_with_the_essentials() -> None:
    found = json.loads(json.dumps(description.describe()))
    assert found["kernel"].startswith("Linux ")
    assert found["cpu"]["count"] >= 1
    assert found["memory_bytes"] > 2**20
    assert "net.core.somaxconn" in found["sysctls"]
    assert found["limits"]["open_files"]["soft"]
    assert found["tools"]["python"].startswith("CPython")
    for key in ("distribution", "mitigations", "congestion_control", "hypervisor", "clock_source"):
        assert key in found


def test_machine_without_proc_and_sys_is_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(description, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = description.describe()
    assert found["unavailable"]["cpu.model"].endswith(f" {tmp_path}/proc/cpuinfo")
    assert found["unavailable"]["compiler.rustc"]
    assert found["unavailable"]["sysctls.net.core.somaxconn"].endswith("proc/sys/net/core/somaxconn")
    assert found["cpu"]["model"] is None


def test_offloads_are_those_that_ethtool_shows() -> None:
    found = description.describe()["loopback_offloads"]
    assert all(isinstance(each, bool) for each in found.values())
    if shutil.which("ethtool") is None:
        pytest.skip("no ethtool to compare with")
    shown = subprocess.run(["ethtool", "-k", "lo"], capture_output=True, text=True, check=True).stdout
    names = {
        "rx_checksumming": "rx-checksumming",
        "tx_checksumming": "tx-checksumming",
        "scatter_gather": "scatter-gather",
        "tcp_segmentation": "tcp-segmentation-offload",
        "generic_segmentation": "generic-segmentation-offload",
        "generic_receive": "generic-receive-offload",
    }
    assert found == {name: f"\n{theirs}: on" in shown for name, theirs in names.items()}


def test_engine_is_described_by_path_version_and_checksum(fake_engine: object) -> None:
    path = fake_engine()  # type: ignore[operator]
    found = description.describe(path)["engine"]
    assert found["path"] == str(path)
    assert found["version"] == "thunderherd-engine 0.0.0 (fake)"
    assert len(found["sha256"]) == 64


def test_the_compiler_is_that_of_the_build(
    fake_engine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, some_catalogue: Catalogue
) -> None:
    path = fake_engine()
    monkeypatch.setenv("RUSTFLAGS", "-C target-cpu=native")  # of whoever runs it
    found = description.describe(path)
    assert found["compiler"] == dict.fromkeys(Build.model_fields)
    assert set(found["compiler"]) == {
        key.partition(".")[2] for key in found["unavailable"] if "compiler." in key
    }
    build = {
        "rustc": "rustc 1.89.0",
        "profile": "release",
        "target": "x86_64-unknown-linux-gnu",
        "flags": "",
        "linked": "static",
    }
    told = Catalogue.model_validate({**some_catalogue.model_dump(), "build": build})
    monkeypatch.setattr(description, "catalogue", lambda engine: told)
    assert description.describe(path)["compiler"] == build


def test_different_governors_of_cpus_are_all_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(description, "ROOT", tmp_path)
    for number, name in enumerate(("performance", "powersave")):
        directory = tmp_path / f"sys/devices/system/cpu/cpu{number}/cpufreq"
        directory.mkdir(parents=True)
        (directory / "scaling_governor").write_text(f"{name}\n")
    assert description.governor("scaling_governor") == "performance, powersave"
    with pytest.raises(description.Unavailable, match="cpufreq"):
        description.governor("scaling_driver")


@pytest.mark.parametrize(("flags", "expected"), [("fpu vme", "none"), ("fpu hypervisor", "KVM")])
def test_the_hypervisor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str, expected: str) -> None:
    monkeypatch.setattr(description, "ROOT", tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"model name\t: A CPU\nflags\t\t: {flags}\n")
    (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
    (tmp_path / "sys/class/dmi/id/product_name").write_text("KVM\n")
    assert description.hypervisor() == expected
    assert description.cpu_model() == "A CPU"


def test_only_parameters_that_matter_are_published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(description, "ROOT", tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("root=/dev/sda isolcpus=1 token=secret mitigations=off quiet\n")
    assert description.kernel_parameters() == ["isolcpus=1", "mitigations=off"]


def test_small_readers() -> None:
    assert description.cpu_list("0-2,5") == [0, 1, 2, 5]
    assert description.cpu_list("") == []
    assert description.chosen("always [madvise] never") == "madvise"
    refused = PermissionError(13, "Permission denied", "/secret")
    assert description.reason(refused).endswith(" /secret")
